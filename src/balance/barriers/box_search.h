// Placements by contents of ranks that keep a room at every barrier: dives from boxes of windows.
//
// Method. search_barrier_windows toward the best objective known; where a box's linear program says
// that a better placement may be there, a dive rounds it (barrier_dive.h); where that is not
// allowed, another one leaves a little of the caps on times. Where such a cap decides, contents
// that keep it on every rank are searched, too. Source:
// docs/mathematics/balanced-sharding.md#contents-at-several-barriers.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "core/effort_clock.h"
#include "plimsoll/balance/placement_problem.h"

namespace plimsoll::balance {

struct BoxSearchOptions {
  std::uint64_t forbidden = 0;  // causes, a bit each, that no placement names
  double constant = 0;          // ms, floor and charges of all its placements
  double incumbent = 0;         // ms, finite; objectives from there on are of no interest
  double tolerance = 1e-6;      // > 0, relative: so much better is not worth a search
  std::int64_t max_effort = 200000;
};

// Takes a placement that a dive found, and lowers what others must be below; was it allowed?
using BoxOffer = std::function<bool(const UnitPlacements& found, double& best)>;

// The loads of a rank at each barrier that the most promising program with a place for all units
// has; empty where there is none.
std::vector<double> search_boxes(const PlacementProblem& problem, const BoxSearchOptions& options,
                                 EffortClock& clock, const BoxOffer& offer);

}  // namespace plimsoll::balance
