// Exchanges between ranks, exactly: what annealing finds by chance where pieces are few a rank.
//
// Problem. Improve an allowed placement whose ranks hold a few pieces each: how fast the slowest
// rank is depends on which sizes stand together, and of thousands of partners a few have the right
// ones. Method. Against a target tau a little below the incumbent, as in bin packing [1]:
//   mend      the ranks above tau, slowest first: with partners from the lightest on, the pieces of
//             both are dealt again so that the two exceed tau least;
//   tighten   ranks within tau, drawn at random: dealt so that one is as full as tau allows, which
//             gathers the room that is left in few ranks.
// Both in turn until no rank exceeds tau (a new incumbent, and tau goes down by half of the gap
// left), or too little is gained for a few rounds (half the step). Of two ranks with up to 12
// pieces all deals are tried, with more those that change sides of up to three. Blocks stay on
// their hosts. Where there are at most three pieces a rank, deals alone leave much room unused:
// then ranks are relieved of pieces by gathered room and other choices, too (rank_relief.h), and
// what fails one tau goes on to the next. Elsewhere choices stay, and what is uniform. Cost. A deal
// is O(2^pieces) or O(pieces^3); a unit of effort is 200 subsets, or 50 changes. Promises. A
// function of problem, start, options; never worse than the start by the verifier.
// [1] C. Alvim, C. Ribeiro, F. Glover, D. Aloise, "A hybrid improvement heuristic for the
//     one-dimensional bin packing problem", Journal of Heuristics 10, 2004,
//     https://doi.org/10.1023/B:HEUR.0000026267.44673.ed.
#pragma once

#include <cstdint>

#include "balance/moves/placement_construction.h"
#include "core/effort_clock.h"

namespace plimsoll::balance {

struct ExchangeOptions {
  double lower_bound = 0;             // ms, >= 0: of the objective; no tau goes below it
  std::int64_t max_effort = 1000000;  // >= 0
  double tolerance = 1e-6;            // >= 0; stops at this gap
  std::uint64_t seed = 0;
};

// One barrier, ranks of one class, no unit bound to ranks or kept apart from another: else a piece
// may not stand wherever it fits.
bool is_exchangeable(const PlacementItems& items);

// Preconditions: is_exchangeable; `start` is allowed, and its choices are among the items'
// (find_choice).
Start exchange(const PlacementItems& items, const Start& start, const ExchangeOptions& options,
               EffortClock& clock);

}  // namespace plimsoll::balance
