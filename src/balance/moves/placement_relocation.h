// Placements that are good and near to where units stand now.
//
// Problem. Of the placements that move at most a number of bytes (problem/move_costs.h), one of
// small objective; or, where moved bytes have a price, of small objective + price * bytes.
// Method. For each of a few sets of causes (those in use now, those of each start, both together,
// all): every unit stays where it stands, if it may; the others go where they move least, of equal
// places to the least loaded one. From there, and from starts that move little enough once their
// ranks are renamed as those that hold most of what they ask for, annealing that never moves more
// than is allowed (placement_annealing.h). Then units go home one by one as long as the objective
// does not rise. With a price, that for several limits of the bytes, the best of which is taken.
// Cost. Effort counts moves. Promises. A function of problem, costs, options; never worse than an
// allowed start within the limit.
// Source: docs/mathematics/balanced-sharding.md#moved-bytes.
#pragma once

#include <optional>
#include <vector>

#include "balance/moves/placement_construction.h"
#include "balance/problem/move_costs.h"
#include "core/effort_clock.h"
#include "plimsoll/core/checked.h"

namespace plimsoll::balance {

struct RelocationOptions {
  Bytes max_moved = kSaturated;  // >= 0
  double price = 0;              // >= 0, ms a byte
  std::vector<UnitPlacements> starts;
  double lower_bound = 0;              // ms, >= 0: of the objective
  double tolerance = 1e-6;             // >= 0
  std::int64_t max_moves = 3'000'000;  // >= 0
  std::uint64_t seed = 0;
};

struct Relocation {
  Start start;
  Bytes moved = 0;
};

// Nothing where no allowed placement within the limit was found. Precondition: a valid problem, and
// costs of its units and choices.
std::optional<Relocation> relocate(const PlacementProblem& problem, const MoveCosts& costs,
                                   const RelocationOptions& options, EffortClock& clock);

// Whose objective, with `price` ms for a moved byte, is less; of equals, which moves less.
bool is_better(const Relocation& a, const Relocation& b, double price);

// Units that are away go back, those that moved most bytes first, where that makes it better and
// moves no more.
void send_home(const PlacementProblem& problem, const MoveCosts& costs, double price,
               Relocation& best, EffortClock& clock);

// The placement with its ranks renamed, hosts as a whole, so that they hold more of what it asks
// for; as it is where ranks differ in speed or memory, units may not stand everywhere, or it would
// not move less.
UnitPlacements rename_ranks(const PlacementProblem& problem, const MoveCosts& costs,
                            const UnitPlacements& placements);

}  // namespace plimsoll::balance
