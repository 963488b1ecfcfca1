// Many units, rank by rank: every rank takes the largest piece that fits and then the pieces that
// best complete it.
//
// Problem. Place units by the thousand under a target a little above the bound, where each rank
// must come out nearly full.
// Method. Every unit's cheapest choice at the bound's prices whose pieces fit beside the uniform
// load, which again follows from the choices; blocks, largest first, on the lightest host; then for
// each rank the largest piece that fits, and the best one, two or (of few pieces) three for the
// rest of its room, until no more than 30 % of the mean slack is left, or fifty pieces lacked
// memory. What remains goes to the
// lightest rank that can hold it.
// Cost. O(pieces) a rank. Promises. A function of its arguments; what it places is allowed.
// Source: docs/mathematics/balanced-sharding.md#bin-completion.
#pragma once

#include <optional>

#include "balance/moves/placement_construction.h"

namespace plimsoll::balance {

struct CompletionOptions {
  double target = 0;           // ms, > 0
  double forced_uniform = 0;   // ms >= 0, of units that are uniform whatever happens
  double host_preference = 1;  // > 0
  PerResource<double> byte_price{};
};

// Nothing, too, where the context ends it. Precondition: no empty units, one barrier, one class of
// ranks.
std::optional<UnitPlacements> complete_bins(const PlacementItems& items,
                                            const CompletionOptions& options,
                                            const RunContext& context = {});

// Beside the bound: pieces that do not fill ranks, of which much effort makes nothing good.
inline constexpr double kFarOff = 1.2;

// The best of targets from `lower_bound` up; nothing where none succeeds.
std::optional<Start> complete_best(const PlacementItems& items, const StartOptions& options,
                                   EffortClock& clock);

}  // namespace plimsoll::balance
