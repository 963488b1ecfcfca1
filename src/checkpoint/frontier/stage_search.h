// One pipeline stage that holds several microbatches: the exact plan for a budget.
//
// Problem. N microbatches are in flight and one of them is in backward. The other N - 1 hold what
// they keep, A - T each, T being all that the plan discards of one microbatch. So beside
// checkpoint_problem.h a node needs (N - 1)(A - T) more, and discarding late helps early positions.
// Method. Guess T: with T within [a, b] the plan starts from the slack
// budget - (N - 1)(A - b) at best and must have discarded a at the end, which is a plain problem
// and gives a bound. Best-first branching on the interval, at what the relaxed plan discards.
// The smallest feasible budget comes from a sweep of its own: by position, what a completion needs
// on entry against what it discards, as a list of pairs. A byte less needed is worth a byte, a byte
// discarded N - 1, so few pairs survive.
// Cost. One search of frontier_search.h a node; few nodes unless fixed prices are many. The sweep:
// a pass over positions and units for every pair kept.
// Promises. The returned plan fits with what it really discards. Optimal within 1e-9 relative, or
// kFeasible with its bound after max_nodes, or where choices of operators were left out. An
// infeasible budget is proved so by the sweep.
// Source: docs/mathematics/checkpointing.md#several-microbatches.
#pragma once

#include "plimsoll/checkpoint/frontier_search.h"

namespace plimsoll::checkpoint {

struct StageOptions {
  int in_flight = 1;  // >= 1 microbatches whose activations the stage holds
  int max_nodes = 10'000;
  FrontierOptions search;
};

struct StagePlan {
  CheckpointPlan plan;      // its figures are of one microbatch alone
  Bytes peak = 0;           // with all that are in flight
  double recompute_ms = 0;  // of one microbatch
};

// kInfeasible with the smallest feasible budget in the explanation. Errors as frontier_search.h,
// kValue where nothing is in flight, and kOverflow where what is adds up to more than 2^50 bytes.
Result<Outcome<StagePlan>> plan_pipeline_stage(const CheckpointProblem& problem, Bytes budget,
                                               const StageOptions& options = {},
                                               const RunContext& context = {});

// The smallest budget that any plan of the stage fits, and the module that binds there ("" at the
// end point). Errors as above.
Result<SmallestBudget> smallest_stage_budget(const CheckpointProblem& problem,
                                             const StageOptions& options = {});

}  // namespace plimsoll::checkpoint
