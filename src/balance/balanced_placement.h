// Certified placements of the slowest rank.
//
// Problem. PlacementProblem: a placement of small objective, a lower bound, or a proof that there
// is none.
// Method. Where taken choices are charged for causes, every set of causes that a placement may use
// is a part of its own, without charges; else all is one part. In turn:
//   the caller's starts, the best of which is annealed a little where there are several barriers;
//   the average bound on what a target leaves, or a proof of infeasibility;
//   with several barriers, for the parts that may be best, this search of their total loads as the
//   only barrier (merged_part.h);
//   completions of ranks, constructions by targets of the uniform load;
//   of up to kMaxDiveUnits units: a short depth-first search for anything better
//   (placement_dive.h), whose exhaustion is a proof; where bytes have a price and the best of them
//   is far from the bound, with most of the effort, replicas (replica_exchange.h) and walks
//   (tight_search.h) whose caps are all soft, or a few walks where the best fills most of a memory;
//   where nothing fits yet (rules, tight caps), such walks from another seed, with half as much
//   effort as the whole search again, and depth-first search for some placement
//   (placement_backtracking.h); exact exchanges between ranks of the best of them; bounds by
//   windows and by coarse contents of hosts and ranks (bound_placement); of up to kMaxDiveUnits
//   units: such searches by bisection between bound and incumbent; dives by contents and into
//   neighbourhoods, choices of few parts first (content_search); annealing from the best starts,
//   all of them, then 4, then 2; of several parts from two starts each of those that look good by
//   bound or start, 12 in all, then 5, then 2; of up to kMaxDiveUnits units: shakes; bounds by fine
//   contents, branched where units are few; of several barriers and a cap on times, for parts that
//   are far from the bound: walks within rooms (room_walks.h); of up to kMaxDiveUnits units: a last
//   depth-first search.
// Parts whose bound reaches the incumbent are left; the bound of all is the least of the parts'.
// Cost. Effort counts moves, nodes, units placed, thousands of cells priced, and a bound's
// pricings. Promises. A function of problem, options and seed, whatever the clock, unless a clock
// or a cancel stops it: then `effort` says where, and `stop_at` of that number stops there again
// with the same plan. Never worse than an allowed start; the objective is the checker's;
// lower_bound
// <= objective. Source: docs/mathematics/balanced-sharding.md#order-of-the-search.
#pragma once

#include <cstdint>
#include <vector>

#include "plimsoll/balance/placement_bound.h"
#include "plimsoll/balance/placement_problem.h"
#include "plimsoll/core/outcome.h"
#include "plimsoll/core/run_context.h"

namespace plimsoll::balance {

inline constexpr std::int64_t kDefaultBalanceEffort = 10000000;
inline constexpr int kMaxDiveUnits = 40;

struct BalanceOptions {
  std::vector<UnitPlacements> starts;  // placements that are not allowed are left out
  std::int64_t stop_at = -1;           // effort at which to stop; < 0: nowhere
  bool explains = true;  // says what is missing where nothing fits (explain_infeasible.h)
  // Rules, on unless a test or a comparison turns them off.
  bool uses_constructions = true;
  bool uses_dives = true;
  bool uses_patterns = true;
  bool uses_contents = true;  // with patterns
  bool uses_annealing = true;
  bool uses_exchanges = true;
  bool uses_replicas = true;
};

struct BalanceOutcome {
  Outcome<UnitPlacements> outcome;
  // What proves its value, for verify_bound; the certificate's lower bound may be higher where
  // dives searched to the end, and is never above the objective.
  PlacementBound bound;
  std::int64_t effort = 0;  // spent
};

// `search.effort` is what all of it together may spend, about (kDefaultBalanceEffort).
// Precondition: a valid problem.
BalanceOutcome balance(const PlacementProblem& problem, const BalanceOptions& options,
                       const SearchOptions& search, const RunContext& context);

}  // namespace plimsoll::balance
