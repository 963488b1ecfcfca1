// Is every point of a curve of memory against time what it is said to be?
//
// A point of the upper curve is right where its plan is: it fits, keeps the rules, has no more
// hazards than the plan beside the curve unless all are kept, and takes the bytes and the time
// that the point says. A point of the lower curve says that of fewer bytes no plan is below the
// point before it (of the first: that there is none): proved by the prices beside it or, without
// any, as every bound without prices is (bound_attempt.h).
#pragma once

#include <string>
#include <vector>

#include "check/embedding/plan_space.h"
#include "plimsoll/check/frontier_check.h"

namespace plimsoll::check {

// `rules` are those of plan and bound. Warnings name the first claim that is left open.
Result<CheckReport> judge_frontier_claims(const PlanSpace& space,
                                          const embedding::BridgeOptions& rules,
                                          const StatedFrontier& stated,
                                          const JudgedFrontierPlan& own);

}  // namespace plimsoll::check
