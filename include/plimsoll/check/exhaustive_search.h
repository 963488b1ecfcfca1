// The judge of bounds that rest on a search to its end: searches again, by rules of its own.
//
// Problem. Placements whose slowest rank has at most a target, of problems with one barrier and no
// charges. Method. Depth first, units by decreasing least work; a state is what every rank carries
// by now, ranks of a host and hosts in sorted order, and no state is looked at twice (128 bits of
// it are kept). A state is given up where a rank is above the target, or where all loads and the
// least work left, of choices that still fit the lightest rank, exceed the target times the ranks.
// Cost. Exponential; at most `max_nodes` states. Promises. kRefuted: no such placement. Loads are
// rounded down to 2^-40 of the target, uneven pieces of a choice count as its lightest, and allowed
// ranks, units kept apart and, in a first attempt, bytes are left aside; all of that can only hide
// a refutation. Shares no code with the searches. Source: notes on balanced sharding, section 3.4.
#pragma once

#include <cstdint>

#include "plimsoll/solve/placement_problem.h"

namespace plimsoll::check {

enum class ExhaustiveEnd {
  kRefuted,
  kFound,         // a placement of the relaxed problem
  kLimit,         // states ran out
  kOutsideScope,  // several barriers or classes of ranks, charges, more than 64 units, 512 ranks
                  // or pieces
};

struct ExhaustiveResult {
  ExhaustiveEnd end = ExhaustiveEnd::kOutsideScope;
  std::int64_t num_nodes = 0;  // states looked at
};

// `target` > 0 in ms, the floor included; each attempt has `max_nodes` >= 1. Precondition: a valid
// problem.
ExhaustiveResult search_to_the_end(const solve::PlacementProblem& problem, double target,
                                   std::int64_t max_nodes);

}  // namespace plimsoll::check
