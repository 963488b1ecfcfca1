// The judge of bounds that rest on a search to its end: searches again, by rules of its own.
//
// Problem. Is there a placement of at most a target? Method. Depth first, units by decreasing least
// work; a state is what every rank carries by now, alike ranks of a host and alike hosts in sorted
// order, and no state is looked at twice (128 bits of it are kept). A state is given up where a
// rank is above the target; where, barrier by barrier, the slowest rank or the mean of all with the
// least work left, and the charges named, together exceed it; or where all loads and the least work
// left, of choices that still fit the lightest rank, exceed the target times the ranks. A first
// attempt leaves bytes, allowed ranks and units kept apart aside and counts uneven pieces as the
// lightest: its refutation holds for all placements. The second counts everything; what it finds is
// judged by solve::evaluate.
// Cost. Exponential; at most `max_nodes` states an attempt. Promises. kRefuted: no such placement.
// kFound: one is there. Loads are rounded down to 2^-40 of the target, which can only hide a
// refutation. Shares no code with the searches. Source: notes on balanced sharding, section 3.4.
#pragma once

#include <cstdint>

#include "plimsoll/solve/placement_problem.h"

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
  solve::UnitPlacements placements;
};

// `target` > 0 in ms, the floor included; each attempt has `max_nodes` >= 1. Precondition: a valid
// problem.
ExhaustiveResult search_to_the_end(const solve::PlacementProblem& problem, double target,
                                   std::int64_t max_nodes);

}  // namespace plimsoll::check
