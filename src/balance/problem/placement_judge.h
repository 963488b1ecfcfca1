// The checker of every search over a placement problem: what a placement costs, and what it breaks.
//
// Plain sums in unit order, with no code of the searches. Cost. O(pieces of device and host choices
// + runs + ranks).
#pragma once

#include <string>
#include <vector>

#include "plimsoll/balance/placement_problem.h"

namespace plimsoll::balance {

struct PlacementValue {
  double objective = 0;
  std::vector<double> load;         // [num_ranks * num_barriers], rank by rank
  std::vector<Amounts> bytes;       // [num_ranks]
  std::vector<std::string> faults;  // what the problem does not allow, one sentence each
  bool is_allowed() const { return faults.empty(); }
};

// Precondition: a valid problem.
PlacementValue evaluate(const PlacementProblem& problem, const UnitPlacements& placements);

}  // namespace plimsoll::balance
