// The checker of lower bounds: computes what a bound's witness proves, from the problem alone.
//
// It knows the problem, the witness and the theorems of average_bound.h, target_filter.h,
// choice_tree.h, pattern_master.h, window_bound.h and window_search.h, and shares no code with the
// searches: units one by one, ranks one by one, plain loops. Weights that do not add up to one are
// scaled, prices and weights that are negative or so large that sums overflow, prices that differ
// within a pool, and trees that are none are faults; anything else is a number that a theorem makes
// a bound, less what sums may be rounded by. Cost. O(pieces x kinds of ranks + units x ranks of
// uniform choices) a case, and for every proof two knapsack tables a kind of hosts and a sum.
// Source: docs/mathematics/balanced-sharding.md#certificates.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "plimsoll/balance/placement_bound.h"
#include "plimsoll/balance/placement_problem.h"

namespace plimsoll::balance {

struct BoundVerdict {
  bool holds = false;  // `value` is at least the bound's, except for a relative 1e-7
  double value = 0;    // ms, what the witness proves; -infinity where it proves nothing
  std::string fault;   // one sentence, where it does not hold
  std::vector<double>
      case_values;  // [cases] what each of them proves, as far as they were looked at
};

// Of knapsack cells, for one case: some ten times what the largest of our bounds takes, and less
// than a minute.
inline constexpr std::int64_t kMaxVerifySteps = std::int64_t{1} << 35;

// Precondition: a valid problem. The bound may be anything; one that takes longer is refused.
BoundVerdict verify_bound(const PlacementProblem& problem, const PlacementBound& bound,
                          std::int64_t max_steps = kMaxVerifySteps);

}  // namespace plimsoll::balance
