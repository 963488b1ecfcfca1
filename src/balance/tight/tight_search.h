// Placements where memory is tight and few pieces fit on a rank: for one target of the slowest rank
// after the other, choices that fill the ranks least, and a walk that mends what they overdraw.
//
// Method. For a target the linear program of fill_program.h says which choices leave most room; its
// choices are placed, largest first, and a walk (tabu_walk.h) changes them until no cap and no
// target is overdrawn, or for a share of the effort. While it finds nothing better, it also deals
// two hosts again now and then. By the program's prices every choice costs what it uses beyond the
// best of its unit, so that of equals the walk takes what leaves more room. From the incumbent the
// target goes down by a share of the gap; where a walk fails, by a smaller one, and the next walk
// begins from the incumbent's placement or from another program's choices, in turn. As long as
// there is no placement, targets rise, and walks mostly go on from where the last one ended. Cost.
// Effort counts looks at ranks, and the pivots of programs. Promises. A function of its arguments;
// what it returns overdraws nothing, and its slowest rank carries less than `incumbent`. Nothing
// found says nothing.
#pragma once

#include <cstdint>
#include <optional>

#include "balance/problem/placement_items.h"
#include "core/effort_clock.h"
#include "plimsoll/core/numbers.h"

namespace plimsoll::balance {

struct TightOptions {
  double lower_bound = 0;        // ms, > 0: of the slowest rank; the targets' scale
  double incumbent = kInfinity;  // ms: of the slowest rank of the best placement known
  // That placement, or null; not owned. Its choices are among the items' (find_choice).
  const UnitPlacements* start = nullptr;
  std::int64_t max_effort = 1000000;  // >= 0
  double tolerance = 1e-6;            // >= 0; stops at this gap
  std::uint64_t seed = 0;
};

// Preconditions: is_overdrawable (replica_exchange.h); no empty units.
std::optional<UnitPlacements> search_tight(const PlacementItems& items, const TightOptions& options,
                                           EffortClock& clock);

}  // namespace plimsoll::balance
