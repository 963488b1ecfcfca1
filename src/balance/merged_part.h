// A part of a placement problem of several barriers as one of a single barrier.
//
// Problem. Placements of a part (balance_parts.h) whose slowest rank carries little in all: every
// piece's loads at all barriers are added up. A placement of it is one of the part except for the
// caps on times, which are left out: where such a cap is on the total load (a rating's), the
// smallest total keeps it if any does. Source:
// docs/mathematics/balanced-sharding.md#order-of-the-search.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "plimsoll/balance/placement_problem.h"

namespace plimsoll::balance {

struct MergedPart {
  PlacementProblem problem;              // of one barrier, without charges
  std::vector<std::vector<int>> choice;  // [num_units][choices] index in the unit of all choices

  // In the problem that it was made of.
  UnitPlacements to_whole(UnitPlacements placements) const;
};

// Nothing where `forbidden` (causes, a bit each) leaves some unit no choice. Precondition: a valid
// problem.
std::optional<MergedPart> merge_part(const PlacementProblem& problem, std::uint64_t forbidden);

}  // namespace plimsoll::balance
