// Placements by a target of the uniform load: the twin, on the side of plans, of bounds by windows
// of the uniform load.
//
// Problem. The uniform load A decides how much room a rank has, hence which units may stay whole,
// hence A: no single change of one unit improves a plan that has this wrong.
// Method. For a target T and an A <= T: every unit's best priced device or host choice whose pieces
// are at most a limit; units are made uniform by decreasing price(not uniform) / price(uniform)
// while A holds; then blocks and pieces go, largest share of target or cap first, to the least
// loaded host or rank with room (lightest_place.h), and a unit that fits nowhere takes its next
// best choice. `construct_starts` does so over a grid of targets, A, host preferences and limits.
// Cost. O(n log n + pieces log ranks) a plan, n units, where memory does not bind.
// Promises. A function of its arguments alone; ties go to the earlier unit, choice, rank; ranks of
// several classes are compared by the loads of the first. Plans are
// allowed. It may miss a plan that exists.
// Source: docs/mathematics/balanced-sharding.md#constructions-by-a-target.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "balance/problem/placement_items.h"
#include "core/effort_clock.h"

namespace plimsoll::balance {

struct ConstructionOptions {
  double target = 0;                 // ms, > 0: of the slowest rank
  double uniform_target = 0;         // ms, >= 0: A
  double piece_limit = 0;            // ms, >= 0: largest piece of a device or host choice
  double host_preference = 1;        // > 0; prices of host choices are multiplied by it
  PerResource<double> byte_price{};  // >= 0, ms a byte
};

// Precondition: no empty units.
std::optional<UnitPlacements> construct(const PlacementItems& items,
                                        const ConstructionOptions& options);

struct Start {
  UnitPlacements placements;
  double objective = 0;  // the checker's
};

// Is the start allowed, and are its choices among the items' (find_choice)? O(pieces): for checks.
bool is_start_of(const PlacementItems& items, const Start& start);

struct StartOptions {
  double lower_bound = 0;     // ms, > 0: the targets' scale
  double forced_uniform = 0;  // ms: of units that are uniform in every plan of interest
  PerResource<double> byte_price{};
  std::int64_t max_plans = 100000;  // >= 1
};

// The best plan for each of the values of A, ascending objective; empty if none was found.
std::vector<Start> construct_starts(const PlacementItems& items, const StartOptions& options,
                                    EffortClock& clock);

}  // namespace plimsoll::balance
