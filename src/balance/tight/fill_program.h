// Which choices fill the ranks least, if a target is the cap of the load: a linear program of all
// ranks together, for searches to begin with.
//
// minimise mu over shares x(u, c) >= 0 of choices, sum 1 a unit, so that of every resource (the
// load, whose cap is the target, and the bytes of every resource) at most the share mu of the caps
// is used: by all ranks together, and on a rank by what is everywhere and the largest piece of any
// one unit. Choices a piece of which alone is beyond the target or a cap are left out, unless a
// unit has no other. Each unit then takes its choice of the largest share; few have several. Where
// `max_pivots` do not solve the program, it takes the choice that uses least of all caps. Cost. A
// linear program of O(units) rows. Says nothing of what is possible: packing loses some room, and a
// placement of fewer mixtures may need more or less. Where caps differ, their mean counts.
// Precondition: is_overdrawable (replica_exchange.h).
#pragma once

#include <cstdint>
#include <vector>

#include "balance/problem/placement_items.h"

namespace plimsoll::balance {

struct Fill {
  double share = 0;          // mu
  std::vector<int> choices;  // [units], into PlacementItems::choices
  // [choices] >= 0: by how much a choice raises mu, priced by the rows of all ranks together, above
  // the choice of its unit that raises it least. Empty where the program was not solved.
  std::vector<double> excess;
  std::int64_t num_pivots = 0;
};

Fill find_fill(const PlacementItems& items, double target, std::int64_t max_pivots);

}  // namespace plimsoll::balance
