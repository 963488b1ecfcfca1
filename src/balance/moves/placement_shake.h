// Changes of choices, each followed by exact exchanges between ranks: for few units.
//
// Problem. Where two or three pieces fill a rank, another choice of one unit (another width, blocks
// on a host, uniform) helps only once the pieces of other ranks have been dealt again; moves that
// are judged one by one do not get there. Method. Iterated local search against a target tau a
// little below the incumbent: one to three units take other choices, on the lightest places, or
// blocks change hosts; then every rank above tau deals with all others (placement_exchange.h) until
// nothing is gained. The result is kept where what exceeds tau, and a share of the mean load, has
// not grown, or with the probability of annealing. Nothing above tau: a new incumbent, and tau goes
// down. Choices that even the mean load rules out below the incumbent are never taken. Cost. A
// shake is O(ranks^2) deals. Promises. A function of problem, start, options; never worse than the
// start by the checker. [1] H. R. Lourenco, O. C. Martin, T. Stutzle, "Iterated local search",
// Handbook of Metaheuristics, 2003, https://doi.org/10.1007/0-306-48056-5_11.
#pragma once

#include "balance/moves/placement_exchange.h"

namespace plimsoll::balance {

// Preconditions: those of `exchange`. `max_effort` counts deals as it does.
Start shake(const PlacementItems& items, const Start& start, const ExchangeOptions& options,
            EffortClock& clock);

}  // namespace plimsoll::balance
