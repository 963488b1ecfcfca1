// Improves which device runs which operator, by small changes.
//
// Method. Simulated annealing: an operator goes to the device of a neighbour, a run of operators in
// graph order to one device, all that stands before or behind a cut edge over it, or two operators
// change places. Beside the critical path counts a little of all transfers. Moves that overfill a
// device are not looked at. Cost. O(operators + edges) a move, one unit of effort. Promises. Never
// worse than the start. Source: docs/mathematics/torch-fx-partitioner.md#a-shorter-critical-path.
#pragma once

#include <cstdint>
#include <vector>

#include "core/random.h"
#include "partition/fx_search/fx_problem.h"
#include "plimsoll/core/run_context.h"

namespace plimsoll::partition {

struct FxAnnealing {
  std::int64_t num_moves = 0;  // that temperatures fall over
  std::int64_t max_moves = 0;  // of these, so many are made
  double temperature = 0;      // the first, a share of the start's critical path, > 0
  double lower_bound = 0;      // ends there
};

// From `plan`, which fits; leaves the best in it and returns its critical path. `num_done` grows by
// the moves made. Ends early at the bound, by the clock or a cancel. Temperatures fall to a
// hundredth of the first.
double anneal_critical_path(const FxProblem& problem, std::vector<int>& plan,
                            const FxAnnealing& options, SplitMix64& random,
                            const RunContext& context, std::int64_t& num_done);

}  // namespace plimsoll::partition
