// The checker of bounds that rest on a search to its end: searches again, by rules of its own.
//
// Problem. Is there a placement of at most a target? Method. Depth first, units by decreasing least
// work; a state is what every rank carries by now, alike ranks of a host and alike hosts in sorted
// order, and no state is looked at twice (128 bits of it are kept). A state is given up where a
// rank is above the target; where, barrier by barrier, the slowest rank or the mean of all with the
// least work left, and the charges named, together exceed it; or where all loads and the least work
// left, of choices that still fit the lightest rank, exceed the target times the ranks; where bytes
// have a price, also if what the caps leave unused is refunded. A first attempt, where no byte has
// a price, leaves bytes, allowed ranks and units kept apart aside and counts uneven pieces as the
// lightest: its refutation holds for all placements. The second counts everything; what it finds is
// judged by balance::evaluate.
// Cost. Exponential; given up at limits of an attempt: of states looked at, which stay in memory,
// and of the ranks of all states made, which take the time. Promises. kRefuted: no such placement.
// kFound: one is there. Loads are rounded down to 2^-40 of the target, which can only hide a
// refutation. Shares no code with the searches. Source:
// docs/mathematics/balanced-sharding.md#depth-first-search.
#pragma once

#include <cstdint>

#include "plimsoll/balance/placement_problem.h"

namespace plimsoll::check {

enum class ExhaustiveEnd {
  kRefuted,       // no placement of at most the target
  kFound,         // `placements` is one
  kUndecided,     // the first placement that rounded loads let through is above the target
  kLimit,         // states ran out
  kOutsideScope,  // more than 64 units, charges or sets of units kept apart, 8 barriers, 512 ranks
                  // or pieces
};

struct ExhaustiveResult {
  ExhaustiveEnd end = ExhaustiveEnd::kOutsideScope;
  std::int64_t num_nodes = 0;  // states looked at
  balance::UnitPlacements placements;
};

// Of each attempt; both >= 1.
struct ExhaustiveLimits {
  std::int64_t max_nodes = 1 << 20;
  std::int64_t max_ranks_seen = 1 << 27;  // some seconds
};

// Which placements are searched, and prices that may shorten the search, whatever they are.
struct ExhaustiveScope {
  std::uint64_t forbidden = 0;                // causes, a bit each, that no taken choice names
  std::uint64_t paid = 0;                     // causes whose charges count in any case
  balance::PerResource<double> byte_price{};  // >= 0 ms, of the sum over ranks
};

// `target` > 0 in ms, the floor included. Precondition: a valid problem.
ExhaustiveResult search_to_the_end(const balance::PlacementProblem& problem, double target,
                                   const ExhaustiveLimits& limits = {},
                                   const ExhaustiveScope& scope = {});

}  // namespace plimsoll::check
