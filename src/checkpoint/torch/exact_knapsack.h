// The 0/1 knapsack of knapsack.h, exactly: no steps, no rounding, never over max_memory.
//
// Method. Dynamic programming over the undominated sets (Nemhauser and Ullmann [1]): candidates are
// taken up by runtime over memory, and a list holds for every reachable memory the best runtime. A
// set goes when another is neither heavier nor worse, or when its linear relaxation (the rest
// filled by ratio, the last candidate in part) does not beat the best set known. Cost. O(n log n)
// plus O(log n) for each undominated set: few where candidates are alike or the relaxation is
// tight, exponential at worst, and then the effort ends it. Promises. Memory and runtime are
// compared as 128-bit integers over a common quantum of at most 2^-99 of max_memory and of the
// largest runtime, below which memory is rounded up and runtime down. So the true sum of what is
// saved is at most max_memory, and runtimes that differ by less than 2^-56 of the value count as
// equal. The answer is a function of the problem and the effort. [1] G. L. Nemhauser and Z.
// Ullmann, "Discrete dynamic programming and capital allocation", Management Science 15(9), 1969,
// https://doi.org/10.1287/mnsc.15.9.494.
#pragma once

#include "checkpoint/torch/knapsack.h"
#include "plimsoll/core/outcome.h"
#include "plimsoll/core/run_context.h"

namespace plimsoll::checkpoint {

// What makes the search finish early; the answer's value is the same without.
struct KnapsackPruning {
  bool by_dominance = true;   // drop a set that another, no heavier, equals or beats
  bool by_relaxation = true;  // drop a set whose relaxation does not beat the best
};

// An effort is one set put on the list; default 2^23. The certificate's objective is the runtime of
// what is computed again, and it always has a lower bound: where the effort, the clock or a
// cancel ended the search, it is what the relaxations of the sets at hand leave. `saved` and
// `recomputed` ascend. Errors: those of validate.
Result<Outcome<KnapsackChoice>> exact_knapsack(const KnapsackProblem& problem,
                                               const SearchOptions& options = {},
                                               const RunContext& context = {},
                                               const KnapsackPruning& pruning = {});

}  // namespace plimsoll::checkpoint
