// Depth-first search for a placement whose slowest rank stays under a target; where it ends without
// one, there is none: a bound.
//
// Problem. One barrier, equal ranks but for their caps, no ranks forbidden, no units apart: is
// there a placement with load <= T on every rank?
// Method. Units in order: those with uniform choices alone, then by decreasing least work. Loads
// are whole numbers, rounded down from 2^-40 T. A branch ends where
//   mean:     A + mean load + sum of the remaining units' least work > T, the least over choices
//             whose pieces still fit beside A and the least loaded rank;
//   room:     A + the largest load > T.
// Symmetry: of ranks of a host with equal loads (and bytes and caps) only the first is tried, and
// of equal hosts; where no block is still to come, of all equal ranks. Of two equal units the
// second takes no earlier choice. Cost. Exponential; O(ranks) a node. Promises. A function of its
// arguments. kRefuted proves that no placement of the items has objective <= T; with
// `relaxes_memory` the search looks at no bytes, a placement found may break caps (is_allowed
// says), and a refutation still holds. Ranks rounded down may carry T (1 + units * 2^-40).
// Units have no rows here, so that no rule orders data-parallel tables by rows.
// Source: docs/mathematics/balanced-sharding.md#depth-first-search.
#pragma once

#include <cstdint>

#include "balance/problem/placement_items.h"
#include "core/effort_clock.h"

namespace plimsoll::balance {

enum class DiveEnd { kFound, kRefuted, kLimit };

struct DiveOptions {
  double target = 0;                 // ms, > 0; without charges and floor
  std::int64_t max_nodes = 1000000;  // >= 1
  bool relaxes_memory = false;
  // Rules, on unless a test turns them off; the answer is the same.
  bool uses_mean_rule = true;
  bool uses_rank_symmetry = true;
  bool uses_unit_symmetry = true;
};

struct DiveResult {
  DiveEnd end = DiveEnd::kLimit;
  UnitPlacements placements;  // where kFound
  bool is_allowed = false;    // by the judge; likewise
  std::int64_t num_nodes = 0;
};

// Can `dive` work on it? Otherwise it ends kLimit at once.
bool is_divable(const PlacementItems& items);

DiveResult dive(const PlacementItems& items, const DiveOptions& options, EffortClock& clock);

}  // namespace plimsoll::balance
