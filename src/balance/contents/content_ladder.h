// Searches by contents, choices of few parts first.
//
// Problem. With all choices at once there are too many contents to round well.
// Method. search_contents on the choices of at most 2 parts, then of at most 4, then of all, each
// from the best placement so far, and each on what may still be part of a better one.
// Source: docs/mathematics/balanced-sharding.md#dives-by-contents.
#pragma once

#include <functional>

#include "balance/contents/content_search.h"
#include "balance/moves/placement_construction.h"

namespace plimsoll::balance {

struct ContentLadderOptions {
  ContentSearchOptions search;  // room and incumbent are the ladder's; max_effort is for all rungs
  double room = 0;              // where a bound expects the slowest load; 0: not known
  double least_load = 0;        // ms, no better placement's slowest rank takes less
  double constant = 0;          // ms, floor and charges that every objective has
  bool is_stepwise = true;      // else all choices at once
};

// `best` is the best placement known, which `offer` may replace at any time; its objective is
// infinite where there is none.
void search_content_ladder(const PlacementProblem& problem, const PlacementGroups& groups,
                           const Start& best, const ContentLadderOptions& options,
                           EffortClock& clock,
                           const std::function<void(const UnitPlacements&)>& offer);

}  // namespace plimsoll::balance
