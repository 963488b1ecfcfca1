// The least critical path of a small graph, by trying everything that may be better.
//
// Method. Branch and bound over operators in graph order: what is placed so far has a critical path
// and fills its devices, and neither falls again; behind each operator comes at least the longest
// path without transfers. Of equally large empty devices only the first is tried.
// Cost. Exponential; one evaluation a branch.
// Source: docs/mathematics/torch-fx-partitioner.md#a-shorter-critical-path.
#pragma once

#include <cstdint>
#include <vector>

#include "partition/fx_search/fx_problem.h"
#include "plimsoll/core/run_context.h"

namespace plimsoll::partition {

struct FxTree {
  std::int64_t max_evaluations = 0;
  std::int64_t num_evaluations = 0;  // done
  bool is_complete = false;          // nothing is better than the plan left
};

// Replaces `plan` and `value` (infinite and empty: none yet) by what is better.
void search_fx_tree(const FxProblem& problem, FxTree& tree, std::vector<int>& plan, double& value,
                    const RunContext& context);

}  // namespace plimsoll::partition
