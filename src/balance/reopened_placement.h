// A placement near to where units stand, improved by many moves at once.
//
// Problem. That of placement_relocation.h, from a placement that moves little. Moves of one or two
// units at a time do not find what only many of them together gain, such as a new rank's use.
// Method. Units that are away, and of the others the lightest, as many as may move besides, are
// placed again by the whole search for certified placements (balanced_placement.h); the rest stays.
// Where that moves too many bytes, for what it copies to all ranks weighs more, or gains nothing,
// fewer bytes are placed again.
// Cost. kReopenedRounds searches at most; effort counts as theirs. Promises. A function of problem,
// costs and options, whatever the clock, unless it ends the search; never worse than `best`.
// Source: docs/mathematics/balanced-sharding.md#moved-bytes.
#pragma once

#include "balance/moves/placement_relocation.h"
#include "balance/problem/move_costs.h"
#include "core/effort_clock.h"
#include "plimsoll/core/outcome.h"

namespace plimsoll::balance {

// `price` of a moved byte in ms, >= 0. A round has half of `search.effort`, and `clock` counts what
// it spends. Precondition: a valid problem, costs of its units and choices, and an allowed
// placement that moves at most `max_moved` bytes.
Relocation reopen(const PlacementProblem& problem, const MoveCosts& costs, Relocation best,
                  Bytes max_moved, double price, const SearchOptions& search, EffortClock& clock);

}  // namespace plimsoll::balance
