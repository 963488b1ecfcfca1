// The same placements with another load at a single barrier, uncharged: for bounds of parts of the
// objective and of caps, and for starts.
// Sources: docs/mathematics/balanced-sharding.md#caps-as-loads,
// docs/mathematics/balanced-sharding.md#several-barriers-and-charges.
#pragma once

#include <algorithm>
#include <cmath>
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

// The loads of one barrier alone; of every other one a rank has at most `room` ms > 0. Rooms are
// caps on times behind the problem's resources, in units of 2^-48 of the room. Precondition: ranks
// of one class.
inline PlacementProblem with_rooms_beside(const PlacementProblem& problem, int barrier,
                                          const std::vector<double>& room) {
  constexpr double kUnits = 281474976710656, kMost = 2;  // of the room: more than fits
  std::vector<std::size_t> others;
  for (std::size_t g = 0; g < room.size(); ++g) {
    if (g != static_cast<std::size_t>(barrier)) others.push_back(g);
  }
  const std::size_t first = problem.resources.size();
  PlacementProblem one = with_one_load(problem, [&](PieceRun& run) {
    for (std::size_t i = 0; i < others.size(); ++i) {
      const double share = std::min(run.load[others[i]] / room[others[i]], kMost);
      run.bytes[first + i] = static_cast<Bytes>(std::ceil(share * kUnits));
    }
    run.load = {run.load[static_cast<std::size_t>(barrier)]};
  });
  for (std::size_t i = 0; i < others.size(); ++i) {
    one.resources.push_back({"time", false, true});
    for (Amounts& cap : one.caps) cap[first + i] = static_cast<Bytes>(kUnits);
  }
  return one;
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

// A rank's load is its bytes of the resource, which has none any more. Where these are below 2^53,
// loads are exact. Precondition: ranks of one class.
inline PlacementProblem with_resource_as_load(const PlacementProblem& problem, int resource) {
  return with_one_load(problem, [resource](PieceRun& run) {
    Bytes& bytes = run.bytes[static_cast<std::size_t>(resource)];
    run.load = {static_cast<double>(bytes)};
    bytes = 0;
  });
}

// The only cap on times; -1 where there is none, or several.
inline int find_time_resource(const PlacementProblem& problem) {
  const auto is_time = [](const Resource& resource) { return resource.is_time; };
  const auto first = std::find_if(problem.resources.begin(), problem.resources.end(), is_time);
  if (std::count_if(first, problem.resources.end(), is_time) != 1) return -1;
  return static_cast<int>(first - problem.resources.begin());
}

// The largest cap of a rank.
inline Bytes largest_cap(const PlacementProblem& problem, int resource) {
  Bytes largest = 0;
  for (const Amounts& caps : problem.caps) {
    largest = std::max(largest, caps[static_cast<std::size_t>(resource)]);
  }
  return largest;
}

// Is the largest load of with_resource_as_load() what the caps speak of?
inline bool is_resource_a_load(const PlacementProblem& problem, int resource) {
  return resource >= 0 && resource < problem.num_resources() && problem.num_rank_classes == 1 &&
         !problem.resources[static_cast<std::size_t>(resource)].is_pooled;
}

}  // namespace plimsoll::balance
