// The average bound on what a target leaves (B2).
//
// Problem. The least target that the average bound cannot refute.
// Method. LB(T) is average_bound over the survivors of filter_by_target(T); more survive a larger
// T, so LB never rises with T, and a placement of value T has LB(T) <= T. Bisection between a
// refuted and an open target; it ends as soon as both leave the same choices, and then LB itself
// is the bound. Cost. O(log) filters and evaluations. Promises. No placement has a smaller value
// (of max over ranks of their loads). Source:
// docs/mathematics/balanced-sharding.md#filter-by-a-target.
#pragma once

#include <cstdint>
#include <optional>

#include "balance/prices/average_bound.h"

namespace plimsoll::balance {

struct FilteredBound {
  double value = 0;   // ms, >= the average bound; kInfinity where infeasible
  double target = 0;  // the largest target refuted; 0: the average without a filter is the bound
  RankPrices prices;  // of the average bound at `target`, or without a filter
  std::optional<MemoryProof> refuted_by;  // where bytes refute `target` and not prices
  AverageBound average;                   // without a filter
  std::optional<MemoryProof> infeasible;  // of all choices
  Survivors survivors;                    // of a placement of value at most `value`
  std::int64_t num_evaluations = 0;
};

struct FilteredOptions {
  double tolerance = 1e-9;  // > 0, relative, of the bisection
  FilterRules rules;
  const RunContext* context = nullptr;  // one that stops leaves a lower bound; not owned
};

FilteredBound filtered_bound(const PlacementGroups& groups, const FilteredOptions& options = {});

}  // namespace plimsoll::balance
