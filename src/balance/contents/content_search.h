// Dives by contents from nothing, then dives into neighbourhoods of the best of them.
//
// Method. Dives for rooms around where the bound says that a good placement's slowest load is.
// Then, from one of the five best: empty the fullest host and up to two others, or 15 to 100 % of
// the ranks and all that exceed a room a little below the largest load, and dive on what they held;
// what is not worse takes its place.
// Promises. A function of its arguments; effort is counted in cells priced. Never worse than
// `start`.
// Source: docs/mathematics/balanced-sharding.md#dives-by-contents.
#pragma once

#include <functional>

#include "balance/contents/content_dive.h"

namespace plimsoll::balance {

struct ContentSearchOptions {
  double room = 0;               // ms, > 0: where the slowest load of pieces is expected
  double lower_bound = 0;        // ms, without charges and floor; a plan as good ends the search
  double incumbent = kInfinity;  // as above; of any plan known
  double tolerance = 1e-6;       // >= 0
  std::int64_t max_effort = 1000000;
  std::uint64_t seed = 0;
};

// Tells `offer` of every plan better than all before and than the incumbent.
void search_contents(const ContentModel& model, const UnitPlacements* start,
                     const ContentSearchOptions& options, EffortClock& clock,
                     const std::function<void(const UnitPlacements&)>& offer);

}  // namespace plimsoll::balance
