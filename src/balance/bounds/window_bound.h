// Bounds by dual feasible functions in windows of the slowest load (B3).
//
// Problem. The uniform load where no rank carries more than a room C of pieces and blocks. Method.
// A dual feasible function f has sum f(x_i) <= 1 wherever sum x_i <= 1, so that the pieces on all R
// ranks have sum f(load / C) <= R. For any multiplier k >= 0
//   A >= sum over units of min(k x (least sum of f over the pieces of a choice), uniform cost) - k
//   R.
// The best k is found among the ratios of cost and sum, sorted. Families: identity, Martello and
// Toth's thresholds, the steps u^(k), k = 1..24, Carlier, Clautiaux and Moukrim's rounding;
// thresholds are the sizes of the pieces, their complements to 1, halves and thirds.
// window_search.h makes it a bound of the slowest rank; it splits only what survives.
// Cost. O(functions x (items + steps log steps)) a window. Where cells of a knapsack lose 1e-5 this
// loses nothing. Promises. Sizes are taken 1e-9 smaller, so that rounding breaks no proof.
// Source: docs/mathematics/balanced-sharding.md#dual-feasible-functions. Windows are of the slowest
// load, not of the uniform one, so that no bisection is needed. Memory has no price here.
// [1] C. Alves, F. Clautiaux, J. Valerio de Carvalho, J. Rietz, "Dual-Feasible Functions for
// Integer Programming and Combinatorial Optimization", Springer, 2016,
// https://doi.org/10.1007/978-3-319-27604-5.
#pragma once

#include <cstdint>

#include "balance/prices/target_filter.h"
#include "balance/problem/placement_groups.h"
#include "plimsoll/balance/placement_bound.h"
#include "plimsoll/core/run_context.h"

namespace plimsoll::balance {

struct WindowBoundOptions {
  double tolerance = 1e-7;         // > 0, relative, of windows
  std::int64_t max_windows = 300;  // >= 1
  int max_thresholds = 120;        // >= 0; beyond that the sizes are sampled evenly
  int max_classes = 120;           // >= 0; with more it declines: value 0
  bool identity_only = false;
};

struct WindowBound {
  double value = 0;  // ms, <= target
  double room = 0;
  WindowWitness witness;
  std::int64_t num_windows = 0;
};

// `survivors` are what filter_by_target left at `target` (finite, > 0).
WindowBound window_bound(const PlacementGroups& groups, const Survivors& survivors, double target,
                         const WindowBoundOptions& options, const RunContext& context);

}  // namespace plimsoll::balance
