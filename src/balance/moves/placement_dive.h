// Depth-first search for a placement of at most a target; where it ends without one, there is none:
// a bound.
//
// Method. Units in order: those with uniform choices alone, then by falling least work. Loads and
// charges are whole numbers, rounded down from 2^-40 of the target without the floor: T. With the
// charges C named so far, a branch ends where
//   barriers: C + sum over barriers of max(slowest rank, mean over ranks at the end) > T, where the
//             remaining units add their least work at that barrier alone;
//   mean:     C + mean over ranks of all barriers together > T, the least over choices whose pieces
//             fit beside C and the rank with the least load;
//   prices:   that, where bytes have a price and what the caps leave unused is refunded;
//   room:     C + what the barriers' slowest ranks carry > T, with every piece placed.
// Symmetry: of ranks that differ in nothing only the first is tried, and of hosts that hold equal
// ranks; of two equal units the second takes no earlier choice; no state is looked at twice (128
// bits of it are kept). Cost. Exponential; O(ranks) a node, where states are stored. Promises. A
// function of its arguments. kRefuted: no placement has objective <= target, except for rounding of
// sums. kFound: `placements` has, by the checker; where `relaxes`, perhaps only without the rules.
// Source: docs/mathematics/balanced-sharding.md#depth-first-search.
#pragma once

#include <cstdint>

#include "core/effort_clock.h"
#include "plimsoll/balance/placement_problem.h"

namespace plimsoll::balance {

enum class DiveEnd { kFound, kRefuted, kLimit };

struct DiveOptions {
  double target = 0;  // ms, above the floor
  // Bits of the first 64 causes: choices that name one are left out; charges that all pay, named or
  // not.
  std::uint64_t forbidden = 0;
  std::uint64_t paid = 0;
  PerResource<double> byte_price{};  // >= 0 ms, of the sum over all ranks
  std::int64_t max_nodes = 1000000;  // >= 1
  // Leaves bytes, allowed ranks and units apart aside, and counts uneven pieces as the lightest: a
  // smaller search, whose refutation holds.
  bool relaxes = false;
  // Rules, on unless a test turns them off; the answer is the same.
  bool uses_barrier_rule = true;
  bool uses_mean_rule = true;
  bool uses_rank_symmetry = true;
  bool uses_unit_symmetry = true;
  bool uses_states = true;
};

struct DiveResult {
  DiveEnd end = DiveEnd::kLimit;
  UnitPlacements placements;  // where kFound
  bool is_allowed = false;    // as above, and of at most the target: not sure where `relaxes`
  std::int64_t num_nodes = 0;
};

// Can `dive` work on it? Otherwise it ends kLimit at once: more than 8 barriers, 64 causes or sets
// of units apart.
bool is_divable(const PlacementProblem& problem);

// Precondition: a valid problem, and a target above its floor.
DiveResult dive(const PlacementProblem& problem, const DiveOptions& options, EffortClock& clock);

}  // namespace plimsoll::balance
