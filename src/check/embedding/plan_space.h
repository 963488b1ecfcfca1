// The problem of an embedding plan as its judges see it, and plans of it beside the one that is
// judged: a frontier's, the reference's, those that the checker finds.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "embedding/cost/calibrated_times.h"
#include "plimsoll/check/balance_check.h"
#include "plimsoll/check/options_check.h"
#include "plimsoll/check/sharding_check.h"

namespace plimsoll::check {

// What plans and bounds are of. Pointers are not owned.
struct PlanSpace {
  const embedding::PlanningProblem* problem = nullptr;  // never null
  bool is_given = false;                                // else the options are the model's
  embedding::BridgeInput input;                         // room after reservation
  const embedding::PlacementBridge* bridge = nullptr;   // never null
  const SearchAid* aid = nullptr;                       // never null
};

// Hazards that searches avoid unless told to keep them: all but optimizer_state_per_block.
std::size_t count_avoided_hazards(const ShardingReport& report);

// Added up from what `sharding` found on every rank. Precondition: it has no violations.
Result<embedding::PlanTimes> times_of(const PlanSpace& space, const embedding::ShardingPlan& plan,
                                      const ShardingReport& sharding,
                                      const embedding::StepModel& model);

// Adds what the problem's machine model says of the plan to the bill; what of that was not
// measured. Precondition: the problem has a machine model, and the plan no violations.
Result<std::vector<embedding::Extrapolation>> add_machine_times(
    const embedding::PlanningProblem& problem, const embedding::ShardingPlan& plan, Bill& bill);

// Adds what ranks keep between two steps to the bill. Precondition: the plan has no violations.
Result<void> add_resident_bytes(const embedding::PlanningProblem& problem,
                                const embedding::ShardingPlan& plan, Bill& bill);

struct OtherPlan {
  std::string fault;  // one sentence: what is wrong with it, or which rule it breaks; may be empty
  std::size_t num_hazards = 0;  // avoided ones
  Bytes hbm = 0;                // of the fullest rank
  embedding::PlanTimes times;   // where there is no fault
};

// `rules` are those that plans must keep, the cap of the rating left aside. Where options are given
// the plan is that of `options`, else `plan`.
Result<OtherPlan> judge_other(const PlanSpace& space, const embedding::BridgeOptions& rules,
                              const embedding::ShardingPlan& plan,
                              const std::vector<StatedOption>& options);

// The same of placed options in table order, which need not be those of the space.
Result<OtherPlan> judge_other(const PlanSpace& space, const embedding::BridgeOptions& rules,
                              const embedding::OptionSet& options,
                              const embedding::PlacedProposal& placed);

}  // namespace plimsoll::check
