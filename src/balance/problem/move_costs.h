// What a placement moves where ranks hold parts of units already: bytes that have to be copied to a
// rank that does not hold them.
//
// A piece or block moves some bytes wherever it stands, fewer on the places that hold some of it,
// and none where it stands now. Source: docs/mathematics/balanced-sharding.md#moved-bytes.
#pragma once

#include <utility>
#include <vector>

#include "plimsoll/balance/placement_problem.h"

namespace plimsoll::balance {

// Of a piece (places are ranks) or a block (hosts).
struct SlotMoves {
  Bytes elsewhere = 0;                    // >= 0
  std::vector<std::pair<int, Bytes>> at;  // places where it is less, ascending
  Bytes on(int place) const;
  bool operator==(const SlotMoves&) const = default;
};

struct ChoiceMoves {
  Bytes everywhere = 0;          // of a uniform choice: of all its pieces
  std::vector<SlotMoves> slots;  // of other choices, slot by slot
  bool operator==(const ChoiceMoves&) const = default;
};

struct MoveCosts {
  std::vector<std::vector<ChoiceMoves>> units;  // [num_units][choices]
  // [num_units] where the units stand now; choice -1: as no choice can.
  std::vector<UnitPlacement> home;
};

Bytes moved_bytes(const MoveCosts& costs, const UnitPlacements& placements);
// The least that any placement moves, caps left aside: every unit alone, at its best.
Bytes least_moved_bytes(const MoveCosts& costs);

}  // namespace plimsoll::balance
