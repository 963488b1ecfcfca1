// The cases that a bound begins with (bound_placement.h).
#pragma once

#include <cstdint>
#include <vector>

#include "plimsoll/solve/placement_bound.h"
#include "plimsoll/solve/placement_problem.h"

namespace plimsoll::solve {

// One, or of two causes that exclude each other one without each.
inline std::vector<BoundCase> make_first_cases(const PlacementProblem& problem, int max_cases) {
  std::vector<BoundCase> cases(1);
  for (const auto& [first, second] : problem.exclusive) {
    if (second >= 64 || 4 * static_cast<int>(cases.size()) > max_cases) continue;
    for (std::size_t i = 0, end = cases.size(); i < end; ++i) {
      cases.push_back(cases[i]);
      cases[i].forbidden |= std::uint64_t{1} << first;
      cases.back().forbidden |= std::uint64_t{1} << second;
    }
  }
  return cases;
}

}  // namespace plimsoll::solve
