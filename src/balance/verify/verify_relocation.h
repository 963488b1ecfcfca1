// The checker of bounds that price moved bytes: what their prices prove.
//
// It knows the problem, what choices move, and the theorem; piece by piece and rank by rank, and
// shares no code with the search (prices/relocation_bound.h). Prices that are negative, no numbers
// or of another shape, weights of a barrier above 1 in all, shares of a cause above its charge, and
// prices of pooled resources are faults.
// Cost. O(pieces x ranks x barriers).
// Source: docs/mathematics/balanced-sharding.md#moved-bytes.
#pragma once

#include <optional>
#include <string>

#include "balance/problem/move_costs.h"
#include "plimsoll/balance/relocation_prices.h"

namespace plimsoll::balance {

struct RelocationVerdict {
  double value = 0;   // ms; -infinity where the prices are wrong
  std::string fault;  // one sentence, where they are none
};

// Of the objective of every allowed placement that moves at most `max_moved` bytes; without a limit
// of objective + prices.moved * moved bytes.
RelocationVerdict verify_relocation(const PlacementProblem& problem, const MoveCosts& costs,
                                    const RelocationPrices& prices, std::optional<Bytes> max_moved);

}  // namespace plimsoll::balance
