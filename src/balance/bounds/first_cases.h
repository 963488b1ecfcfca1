// The cases that a bound begins with (bound_placement.h).
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "plimsoll/balance/placement_bound.h"
#include "plimsoll/balance/placement_problem.h"

namespace plimsoll::balance {

// One, or of two causes that exclude each other one without each. A case that forbids more than
// another is dropped, so that of n causes that all exclude each other n cases are left.
inline std::vector<BoundCase> make_first_cases(const PlacementProblem& problem, int max_cases) {
  std::vector<BoundCase> cases(1);
  for (const auto& [first, second] : problem.exclusive) {
    if (second >= 64 || 4 * static_cast<int>(cases.size()) > max_cases) continue;
    for (std::size_t i = 0, end = cases.size(); i < end; ++i) {
      cases.push_back(cases[i]);
      cases[i].forbidden |= std::uint64_t{1} << first;
      cases.back().forbidden |= std::uint64_t{1} << second;
    }
    std::vector<BoundCase> least;
    for (const BoundCase& c : cases) {
      const auto covers = [&c](const BoundCase& other) {
        return (other.forbidden & ~c.forbidden) == 0;
      };
      if (std::any_of(least.begin(), least.end(), covers)) continue;
      std::erase_if(least,
                    [&c](const BoundCase& other) { return (c.forbidden & ~other.forbidden) == 0; });
      least.push_back(c);
    }
    cases = std::move(least);
  }
  return cases;
}

}  // namespace plimsoll::balance
