// Placements where memory is tight: replica exchange, with every cap as soft as the target.
//
// Problem. One barrier, equal ranks except for their caps. Where all resources together hold little
// more than the units need, almost every change of one unit overdraws some cap, so that searches
// among allowed placements stand still: which large units are cut, and which resource they use, has
// to change together. Method. A placement may overdraw. Against a target tau of the slowest rank
// its energy is
//     sum over ranks, and over the load and every resource d of  o + 10 o^2 at  o = max(0, use /
//     cap
//     - 1)
//   + kappa * (mean load + priced bytes) / tau,
// the cap of the load being tau, the prices those of the average bound (over_placement.h). Twelve
// replicas walk at temperatures from 1e-3 to 1 by Metropolis' rule; neighbours change places by the
// same rule, so that cold ones are offered ever new arrangements of what is large [1]. Moves: a
// piece to another rank, two pieces or blocks against each other, one or two units with other
// choices, each of whose pieces goes where the energy grows least. A placement that overdraws no
// resource and is faster than the incumbent is kept, whatever its target. Half of the
// replicas begin with choices that together fit (guides): packing is what is left then. Once tau is
// reached the next one lies at 0.6 of the gap, after a while without success nearer to the
// incumbent, which the caller may make better meanwhile. Cost. O(1) a piece moved, O(ranks) a
// uniform choice, up to 24 ranks looked at for a place; a move is one unit of effort. Promises. A
// function of its arguments; what it returns overdraws nothing, and its slowest rank carries less
// than `incumbent`. Nothing found says nothing. [1] R. Swendsen, J.-S. Wang, "Replica Monte Carlo
// simulation of spin-glasses", Physical Review
//     Letters 57, 1986, https://doi.org/10.1103/PhysRevLett.57.2607; K. Hukushima, K. Nemoto,
//     "Exchange Monte Carlo method and application to spin glass simulations", 1996,
//     https://arxiv.org/abs/cond-mat/9512035.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "balance/problem/placement_items.h"
#include "core/effort_clock.h"
#include "plimsoll/core/numbers.h"

namespace plimsoll::balance {

struct ReplicaOptions {
  double lower_bound = 0;            // ms, > 0: of the slowest rank; the targets' scale
  double incumbent = kInfinity;      // ms: of the slowest rank of the best placement known
  PerResource<double> byte_price{};  // >= 0, ms of mean load a byte
  // [any number][units] choices, into the unit's, that every second replica begins with, in turn;
  // the others, and units for which they are of no use, begin with those of least price.
  std::vector<std::vector<int>> guides;
  std::int64_t max_moves = 1000000;  // >= 0; those that change very many ranks count more
  double tolerance = 1e-6;           // >= 0; stops at this gap
  std::uint64_t seed = 0;
};

// One barrier, ranks of one class, no resource pooled, no unit bound to ranks, to distinct ones or
// kept apart from another.
bool is_overdrawable(const PlacementItems& items);

// `improve` is asked once for what was found since no target was reached for a while, and says how
// slow (ms) the slowest rank is of what it made of it.
using ImproveFound = std::function<double(const UnitPlacements&)>;

// Preconditions: is_overdrawable; no empty units.
std::optional<UnitPlacements> exchange_replicas(const PlacementItems& items,
                                                const ReplicaOptions& options, EffortClock& clock,
                                                const ImproveFound& improve = {});

}  // namespace plimsoll::balance
