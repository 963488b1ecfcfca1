// Some allowed placement, where constructions find none.
//
// Problem. Sets of units apart, allowed ranks and tight caps can leave few placements; what a
// construction put first stands in the way of the last unit, and it never takes that back.
// Method. Depth-first: units with the fewest ways and the largest shares of the caps first, their
// lightest choice first, every piece on the least loaded place with room; where a piece finds none,
// the last decision is taken back.
// Cost. A node, the try of one place, is one unit of effort, and so are eight places put in order;
// more than 4,096 pieces are not tried. Promises. A function of its arguments.
// Nothing found says nothing.
#pragma once

#include <cstdint>
#include <optional>

#include "balance/problem/placement_items.h"
#include "core/effort_clock.h"

namespace plimsoll::balance {

// `max_nodes` >= 0. Precondition: no empty units.
std::optional<UnitPlacements> find_by_backtracking(const PlacementItems& items,
                                                   std::int64_t max_nodes, EffortClock& clock);

}  // namespace plimsoll::balance
