// Bounds by contents of hosts and ranks, over windows of the slowest load (B6), and branched on the
// numbers of uniform units (B7) or, of few hosts, on the load of each one's blocks: a mixture of
// contents with many blocks and with few is not the content of a host.
//
// pattern_master.h bounds the uniform load for a room, window_search.h makes that a bound of the
// slowest rank. Placements of more than `target` are not looked at: the value is at most that.
// Cost. 15 to 90 windows of 5 to 30 pricings, 100 to 400 nodes more where it branches; a pricing is
// O(items x cells). Meant for up to `max_classes` classes; with more it declines.
// Sources: docs/mathematics/balanced-sharding.md#contents-of-hosts-and-ranks,
// docs/mathematics/balanced-sharding.md#branching.
#pragma once

#include <cstdint>
#include <vector>

#include "balance/bounds/window_search.h"
#include "balance/prices/filtered_bound.h"
#include "plimsoll/balance/placement_bound.h"
#include "plimsoll/core/run_context.h"

namespace plimsoll::balance {

struct PatternOptions {
  int cells = 16000;           // >= 1
  double tolerance = 5e-4;     // > 0, relative, of windows
  bool branch = false;         // B7
  double branch_width = 4e-3;  // > 0, relative
  int max_hosts = 0;           // >= 0; so many hosts are told apart, to branch on their blocks
  double host_width = 5e-3;    // > 0, relative
  int max_classes = 120;       // >= 0
  std::int64_t max_pricings = 2000;  // >= 1
  std::int64_t max_nodes = 1000;     // >= 1
  bool smooth = true;
};

struct PatternBound {
  double value = 0;  // ms, <= target; 0 where it declines
  double room = 0;   // of the least window: where a good placement's slowest load is
  bool has_branched = false;
  WindowWitness witness;
  std::int64_t num_pricings = 0;
  std::int64_t num_nodes = 0;
};

// `survivors` are what filter_by_target left at `target` (finite, > 0); `price`: [accounts] of
// the average bound there.
PatternBound pattern_bound(const PlacementGroups& groups, const Survivors& survivors,
                           const std::vector<double>& price, double target,
                           const PatternOptions& options, const RunContext& context);

}  // namespace plimsoll::balance
