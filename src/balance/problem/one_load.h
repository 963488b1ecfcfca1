// The same placements with another load at a single barrier, uncharged: for bounds of parts of the
// objective and of caps, and for starts.
// Sources: docs/mathematics/balanced-sharding.md#caps-as-loads,
// docs/mathematics/balanced-sharding.md#several-barriers-and-charges.
#pragma once

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <utility>
#include <vector>

#include "plimsoll/balance/placement_problem.h"

namespace plimsoll::balance {

// `change(run)` gives every run its load for each class of ranks.
template <class Change>
PlacementProblem with_one_load(PlacementProblem problem, const Change& change) {
  for (Unit& unit : problem.units) {
    for (UnitChoice& choice : unit.choices) {
      for (PieceRun& run : choice.runs) change(run);
    }
  }
  problem.num_barriers = 1;
  problem.floor_ms = 0;
  std::fill(problem.charges.begin(), problem.charges.end(), 0.0);
  return problem;
}

// The loads of one barrier alone.
inline PlacementProblem with_barrier_alone(const PlacementProblem& problem, int barrier) {
  return with_one_load(problem, [&](PieceRun& run) {
    for (int c = 0; c < problem.num_rank_classes; ++c) {
      const auto of_class = static_cast<std::size_t>(c);
      const std::size_t first = of_class * static_cast<std::size_t>(problem.num_barriers);
      run.load[of_class] = run.load[first + static_cast<std::size_t>(barrier)];
    }
    run.load.resize(static_cast<std::size_t>(problem.num_rank_classes));
  });
}

// The loads of all barriers, added up.
inline PlacementProblem with_total_load(const PlacementProblem& problem) {
  return with_one_load(problem, [&](PieceRun& run) {
    std::vector<double> total;
    for (auto first = run.load.begin(); first != run.load.end(); first += problem.num_barriers) {
      total.push_back(std::accumulate(first, first + problem.num_barriers, 0.0));
    }
    run.load = std::move(total);
  });
}

// A rank's load is its bytes of the tier, which has none any more. Where these are below 2^53,
// loads are exact. Precondition: ranks of one class.
inline PlacementProblem with_tier_as_load(const PlacementProblem& problem, int tier) {
  return with_one_load(problem, [tier](PieceRun& run) {
    Bytes& bytes = run.bytes[static_cast<std::size_t>(tier)];
    run.load = {static_cast<double>(bytes)};
    bytes = 0;
  });
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
