// Which of a compiled graph's forward values are kept, and which are computed again: the knapsacks
// that torch's partitioner chooses from, to the last digit.
//
// Problem. Candidate i takes memory[i] when it is kept and runtimes[i] when it is computed again.
// Keep a set of at most max_memory whose runtime is large. NP-hard.
// Method. Greedy by runtime over memory; dynamic programming over memory in steps of 1e-4 with
// float32 sums, with a table or by halving the items (Hirschberg); an integer program. Our own
// exact search is exact_knapsack.h. Cost, for n candidates and W = 10000 max_memory steps: greedy
// O(n log n); both others O(n W) time; the table takes one bit an entry (upstream: four bytes),
// Hirschberg's form O(n + W). Promises. Value, sets and their order are upstream's. A solver with
// steps may exceed max_memory by what rounding hides; the leaking one by a step for every split on
// top. Departures. Negative and non-finite figures are errors; so is a table of more than 2^33
// entries. Source: docs/mathematics/torch-checkpointing.md#knapsacks-of-the-partitioner.
#pragma once

#include <string_view>
#include <vector>

#include "plimsoll/core/result.h"

namespace plimsoll::checkpoint {

// Any unit of memory, any unit of time; torch gives shares of what could be saved, and FLOPs.
struct KnapsackProblem {
  std::vector<double> memory;    // [n] finite, >= 0
  std::vector<double> runtimes;  // [n] finite, >= 0
  double max_memory = 0;         // finite, >= 0
  bool operator==(const KnapsackProblem&) const = default;
};

struct KnapsackChoice {
  double saved_runtime = 0;  // as the solver sums it
  // Together every candidate once, in the order in which the solver names them.
  std::vector<int> saved, recomputed;
  bool operator==(const KnapsackChoice&) const = default;
};

// Errors at "memory", "runtimes" or "max_memory": kSchema (lists of different lengths), kValue.
Result<void> validate(const KnapsackProblem& problem);

// All of them: the errors of validate. Solvers with steps: kOverflow (a figure of 2^62 steps or
// more, or a table beyond 2^33 entries).

// Error kZeroDivision: a candidate without memory.
Result<KnapsackChoice> greedy_knapsack(const KnapsackProblem& problem);

// `saved` ascends, `recomputed` descends; of equal values the later candidate is computed again.
Result<KnapsackChoice> dp_knapsack(const KnapsackProblem& problem);

// "dp_knapsack_sliding_hirschberg", with and without the leak. `saved_runtime` is summed in
// doubles.
Result<KnapsackChoice> hirschberg_knapsack(const KnapsackProblem& problem);
Result<KnapsackChoice> fixed_hirschberg_knapsack(const KnapsackProblem& problem);

// The optimum that upstream asks of scipy's milp to a relative gap of 1e-4; both lists ascend. Only
// the value is upstream's, within that gap. As upstream's, the choice may exceed max_memory by a
// rounding error, here 1e-10.
Result<KnapsackChoice> ilp_knapsack(const KnapsackProblem& problem);

}  // namespace plimsoll::checkpoint
