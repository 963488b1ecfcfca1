// Figures of a plan that states none, such as another program's: those that the checker computes.
#pragma once

#include <vector>

#include "plimsoll/core/outcome.h"
#include "plimsoll/core/result.h"
#include "plimsoll/embedding/planner.h"
#include "plimsoll/study/sharding_answer.h"

namespace plimsoll::study {

// Sets bill and rating of an answer that has a plan and no bill; where the plan has violations it
// stays without, and a warning `no_figures` says why. Errors: those of check_sharding.
Result<void> put_judged_figures(const embedding::PlanningProblem& problem, ShardingAnswer& answer,
                                std::vector<Warning>& warnings);

}  // namespace plimsoll::study
