// Annealing of a placement towards a target a little below the best known value.
//
// Problem. Improve an allowed placement. Where loads nearly balance, the objective is flat: most
// moves leave the slowest rank as it is.
// Method. Simulated annealing on the overload of a target tau,
//     E = sum_r max(0, load_r / tau - 1)^2 + kappa * mean load / tau,   kappa = 3e-3 (3e-2 every
//     third failure),
// memory hard. Moves: a piece from a loaded rank to a light one 45 %, two pieces swapped 35 %, a
// block moved 8 %, the choice of one or two units with greedy placement 12 %. No overload: a new
// incumbent, and the next tau lies below it by a third of the gap left; a failure halves the step.
// With several barriers tau is split over them in proportion to what they take, a rank is
// overloaded at each, and every few hundred moves the split follows the overloads
// (annealing_energy.h); what is better than the incumbent is kept though it misses its target. Then
// 25 % of the moves trade a piece for several that take as long together. Soft caps on times may be
// overdrawn, as an overload of its own, in everything but what is kept. Cost. O(1) a piece moved,
// O(ranks of a host) a block; a choice O(ranks) where it is uniform, or up to 256 ranks, with
// several barriers 64 (more are sampled for its new place). Promises. A function of problem, start,
// options; never worse than the start by the checker. Source:
// docs/mathematics/balanced-sharding.md#annealing-towards-a-target.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "balance/moves/placement_construction.h"
#include "balance/problem/move_costs.h"
#include "core/effort_clock.h"
#include "plimsoll/core/numbers.h"

namespace plimsoll::balance {

struct AnnealingOptions {
  double lower_bound = 0;               // ms, >= 0: of the objective; no tau goes below it
  std::int64_t max_moves = 1000000;     // >= 0
  std::int64_t moves_a_round = 200000;  // >= 1
  double tolerance = 1e-6;              // >= 0; stops at this gap
  std::uint64_t seed = 0;
  // May moves overdraw caps on times (Resource::is_time) on the way to a placement that does not?
  bool has_soft_times = false;
  // Only placements below that are kept; of a start that overdraws caps on times itself, finite.
  double ceiling = kInfinity;
  // What placements may move: no more than `max_moved` >= 0 bytes. Null: moves cost nothing. Not
  // owned. Precondition: the start moves no more.
  const MoveCosts* moves = nullptr;
  Bytes max_moved = 0;
  double toll = 0;  // >= 0; of energy, where all of these bytes are moved
};

struct AnnealingResult {
  Start best;
  std::int64_t num_moves = 0;
};

// The start where nothing better was found. Precondition: `start` is allowed, or there is a
// ceiling, has_soft_times, and it overdraws caps on times alone; its choices are among the items'
// (find_choice).
AnnealingResult anneal(const PlacementItems& items, const Start& start,
                       const AnnealingOptions& options, EffortClock& clock);

// Successive halving: anneals every start of the pool, then the four best, then the two best, each
// time with a third of the moves (`max_moves` of all together). Many units need many moves, so that
// fewer starts are kept for them. `offer` hears of every result and says whether to go on. The pool
// is left best first.
void anneal_pool(const PlacementItems& items, std::vector<Start>& pool,
                 const AnnealingOptions& options, EffortClock& clock,
                 const std::function<bool(const Start&)>& offer);

}  // namespace plimsoll::balance
