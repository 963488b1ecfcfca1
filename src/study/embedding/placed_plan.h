// A plan as placed options of its problem, with what they cost.
#pragma once

#include "plimsoll/core/result.h"
#include "plimsoll/embedding/planner.h"
#include "plimsoll/embedding/sharding_plan.h"

namespace plimsoll::study {

// Column blocks of a table: every width that there is.
inline constexpr int kEveryWidth = 1 << 20;

struct PlacedPlan {
  embedding::PlanningResult prepared;  // enumeration and reservation
  embedding::PlacedProposal placed;    // of every table, in table order
};

// Errors: those of preparing; kPlanner where reserving leaves nothing, or where the plan is none of
// the problem's options: for a table that it lacks, a cut that is none, ranks that are not there.
// The widths of column shards are those of the problem first, then all.
Result<PlacedPlan> place_plan(const embedding::PlanningProblem& problem,
                              const embedding::ShardingPlan& plan);

}  // namespace plimsoll::study
