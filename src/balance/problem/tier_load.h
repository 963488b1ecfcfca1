// A tier's bytes as the load that ranks are balanced by: whether a cap can be kept at all is a
// question of the least largest load, which every bound of this room answers.
// Source: docs/mathematics/balanced-sharding.md#caps-as-loads.
#pragma once

#include <algorithm>
#include <cstddef>

#include "plimsoll/balance/placement_problem.h"

namespace plimsoll::balance {

// The same placements with one barrier, at which a rank's load is its bytes of the tier; nothing is
// charged, and the tier has no bytes any more. Where its bytes are below 2^53, loads are exact.
// Precondition: ranks of one class.
inline PlacementProblem with_tier_as_load(PlacementProblem problem, int tier) {
  problem.num_barriers = 1;
  problem.floor_ms = 0;
  std::fill(problem.charges.begin(), problem.charges.end(), 0.0);
  for (Unit& unit : problem.units) {
    for (UnitChoice& choice : unit.choices) {
      for (PieceRun& run : choice.runs) {
        run.load = {static_cast<double>(run.bytes[static_cast<std::size_t>(tier)])};
        run.bytes[static_cast<std::size_t>(tier)] = 0;
      }
    }
  }
  return problem;
}

// The largest cap of a rank.
inline Bytes largest_cap(const PlacementProblem& problem, int tier) {
  Bytes largest = 0;
  for (const TierBytes& caps : problem.caps) {
    largest = std::max(largest, caps[static_cast<std::size_t>(tier)]);
  }
  return largest;
}

// Is the largest load of with_tier_as_load() what the caps speak of?
inline bool is_tier_a_load(const PlacementProblem& problem, int tier) {
  return tier >= 0 && tier < kNumTiers && problem.num_rank_classes == 1 &&
         !problem.is_pooled[static_cast<std::size_t>(tier)];
}

}  // namespace plimsoll::balance
