// The judge of lower bounds: computes what a bound's witness proves, from the problem alone.
//
// It knows the problem, the witness and the theorems of average_bound.h, target_filter.h,
// pattern_master.h, window_bound.h and window_search.h, and shares no code with the searches:
// units one by one, ranks one by one, plain loops. Weights that do not add up to one are scaled,
// negative prices and prices that differ within a pool are faults; anything else is a number that a
// theorem makes a bound. Cost. O(pieces x kinds of ranks + units x ranks of uniform choices) a
// case, and for every proof two knapsack tables a kind of hosts and a sum. Source: notes on
// balanced sharding, part 2, section 7 ("Certificate of B6").
#pragma once

#include <string>

#include "plimsoll/solve/placement_bound.h"
#include "plimsoll/solve/placement_problem.h"

namespace plimsoll::solve {

struct BoundVerdict {
  bool holds = false;  // `value` is at least the bound's, but for a relative 1e-7
  double value = 0;    // ms, what the witness proves; -infinity where it proves nothing
  std::string fault;   // one sentence, where it does not hold
};

// Precondition: a valid problem. The bound may be anything.
BoundVerdict verify_bound(const PlacementProblem& problem, const PlacementBound& bound);

}  // namespace plimsoll::solve
