// Bounds by a weighted average of the ranks (B1), and proofs that the bytes do not fit.
//
// Problem. A lower bound on max over ranks of their loads, over all placements of the choices that
// survive, each part on a rank or host of a kind that can hold it.
// Method. For weights theta_k >= 0 of the kinds of ranks, n_k ranks each, sum n_k theta_k = 1, and
// prices >= 0 of the memory accounts,
//   max_r load(r) >= sum over groups of count x min over choices of
//                      sum over parts of min over places of (theta load + price bytes)
//                    - sum over accounts of price x cap:
// a maximum is at least a mean, and bytes beyond the cap would be paid for. The best weights and
// prices come from a column generation whose columns are whole solutions (its dual is Kelley's
// method of cutting planes); the value is that of the linear relaxation. Any weights and prices
// give a valid bound, so it may be stopped anywhere. Where the prices could rise for ever, weights
// of the accounts alone prove that nothing fits: the least bytes at those weights exceed the caps,
// which is checked in integers.
// Cost. O(shares) an evaluation; one where there is one kind of ranks and memory is loose, else 5
// to 50. Source: docs/mathematics/balanced-sharding.md#average-bound.
// Departure: several barriers share one theta.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "balance/prices/target_filter.h"
#include "balance/problem/placement_groups.h"
#include "plimsoll/core/numbers.h"
#include "plimsoll/core/run_context.h"

namespace plimsoll::balance {

struct RankPrices {
  std::vector<double> theta;  // [kinds] of one rank, >= 0
  std::vector<double> price;  // [accounts] ms a byte, >= 0
  bool operator==(const RankPrices&) const = default;
};

// No placement exists: the weighted bytes that all units need at least exceed the weighted caps.
struct MemoryProof {
  std::vector<std::int64_t> weight;  // [accounts] >= 0; empty: `group` can stand nowhere
  int group = -1;
  int resource = -1;  // the resource of the largest weight
  Bytes missing = 0;  // the excess in bytes of that account, rounded up
  bool operator==(const MemoryProof&) const = default;
};

struct AverageBound {
  double value = 0;  // ms; kInfinity where `infeasible` is there
  RankPrices prices;
  std::optional<MemoryProof> infeasible;
  std::int64_t num_evaluations = 0;
};

struct AverageOptions {
  const RankPrices* start = nullptr;    // tried first; not owned
  double goal = kInfinity;              // stop as soon as the value is above
  int max_evaluations = 300;            // >= 1
  const RunContext* context = nullptr;  // looked at between evaluations; not owned
};

// theta = 1 / ranks, no prices.
RankPrices equal_prices(const PlacementGroups& groups);

// Best place of every part at these prices; kInfinity where a part of it has no place that
// survives.
double priced_cost(const PlacementGroups& groups, const Survivors& survivors,
                   const GroupChoice& choice, const RankPrices& prices);

// The bound at given prices.
double priced_value(const PlacementGroups& groups, const Survivors& survivors,
                    const RankPrices& prices);

AverageBound average_bound(const PlacementGroups& groups, const Survivors& survivors,
                           const AverageOptions& options = {});

// Its proof that nothing fits, without the bound; nothing where it finds none.
std::optional<MemoryProof> prove_no_room(const PlacementGroups& groups, const Survivors& survivors,
                                         const AverageOptions& options = {});

}  // namespace plimsoll::balance
