// Replays the knapsacks of torch's partitioner and what torch says they cost.
//
// `functorch_knapsack`: memory, runtimes, max_memory; value, saved and recomputed as the table
// gives them, the sets in any order, and Hirschberg's form the same. `knapsack`: greedy, ilp, dp
// and hirschberg as [value, saved, recomputed] to the last digit and in order, or the name of an
// exception, and exact_value; of `ilp` the value alone, to a relative 1e-4. `knapsack_evaluation`:
// a joint graph, its candidates and a choice; what KnapsackEvaluator says of them, its trace, and
// the budget at the knee of the table.
#pragma once

#include <span>

#include "golden.h"

namespace plimsoll::golden {

std::span<const Kind> knapsack_kinds();

// Rows of `functorch_knapsack` are lists [memory, runtimes, max_memory, value, saved, recomputed];
// here they become records. What is none of them stays.
Json name_knapsack_fields(Json document);

}  // namespace plimsoll::golden
