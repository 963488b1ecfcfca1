// Placements of several barriers by walks: all but the slowest barrier have rooms, caps like those
// of memory, under which the slowest one's load is made small (tight_search.h).
//
// Method. Loads at the barriers are given, such as those of a linear program (box_search.h). A
// placement needs a little more than the program, at which barriers nobody knows: one search after
// the other gives rooms by a larger factor of these loads. Cost. `max_effort`, in equal shares.
// Promises. A function of its arguments. Nothing found says nothing.
// Source: docs/mathematics/balanced-sharding.md#contents-at-several-barriers.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "balance/problem/placement_items.h"
#include "core/effort_clock.h"

namespace plimsoll::balance {

struct RoomWalkOptions {
  ItemFilter filter;
  std::vector<double> load;  // [barriers] ms > 0
  double constant = 0;       // ms, floor and charges
  double lower_bound = 0;    // ms, of the objective
  double incumbent = 0;      // ms, finite: of the objective
  double tolerance = 1e-6;   // >= 0
  std::int64_t max_effort = 1000000;
  std::uint64_t seed = 0;
};

// The best placement found, if it is better than the incumbent. Precondition: several barriers.
std::optional<UnitPlacements> walk_within_rooms(const PlacementProblem& problem,
                                                const RoomWalkOptions& options, EffortClock& clock);

}  // namespace plimsoll::balance
