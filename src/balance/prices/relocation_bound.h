// A lower bound of placements that move few bytes, by prices.
//
// Problem. A bound on objective + price * moved bytes, or on the objective of all placements that
// move at most a number of bytes (problem/move_costs.h).
// Method. For weights w(g, r) >= 0 of the ranks at each barrier, sum over r of w(g, r) = 1, prices
// m(t, r) >= 0 of bytes of a resource on a rank, shares s(k, u) >= 0 of the charge of cause k that
// sum to at most the charge, and a price p >= 0 of a moved byte,
//   objective(x) + p moved(x)
//     >= floor - sum of m(t, r) cap(t, r)
//        + sum over units u of min over choices and places of
//            [sum of w(g, r) load(g, r) + m(t, r) bytes(t, r) + s(k, u) of its causes + p moved]
// for every allowed placement x: a maximum is at least a weighted mean, bytes beyond a cap would be
// paid for, and a cause that some unit names is charged in whole. Where at most M bytes may move,
// the objective is at least that, less p M: with the p that gives most. Weights, prices and shares
// come from projected subgradient steps (Polyak's length towards the best known plan), which begin
// at the p that gives most beside equal weights, a search of one variable; any of them give a valid
// bound, so it may be stopped anywhere. Cost. O(pieces * ranks * barriers) a step. Source:
// docs/mathematics/balanced-sharding.md#moved-bytes.
#pragma once

#include <optional>
#include <vector>

#include "balance/problem/move_costs.h"
#include "plimsoll/balance/relocation_prices.h"
#include "plimsoll/core/run_context.h"

namespace plimsoll::balance {

struct RelocationBound {
  double value = 0;  // ms
  RelocationPrices prices;
};

struct RelocationBoundOptions {
  std::optional<Bytes> max_moved;  // of every placement
  double price = 0;                // ms a byte; fixed: not with max_moved
  double target = 0;               // of a known placement, ms
  int max_steps = 400;             // >= 1
};

// The bound at given prices, rounded down a little so that it holds in spite of rounding errors.
// `max_moved` as in the options.
double relocation_value(const PlacementProblem& problem, const MoveCosts& costs,
                        const RelocationPrices& prices, std::optional<Bytes> max_moved);

RelocationBound bound_relocation(const PlacementProblem& problem, const MoveCosts& costs,
                                 const RelocationBoundOptions& options, const RunContext& context);

}  // namespace plimsoll::balance
