// A lower bound of all placements, by the share of what devices move that each group must bear.
//
// Problem. How small can the largest load of a placement be at least, contiguous or not? All work
// shared out over all devices forgets what they move.
// Method. Let all loads be at most T. A device that holds group g holds a set S with time(S) +
// cut(S) <= T. If r_g is at most cut(S) / time(S) for every such S, then what all devices move is
// at least the sum of time_g r_g: each S moves at least its groups' shares. So T is refuted where
//   sum of time_g (1 + r_g)  >  what all devices can do at T.
// The largest r_g is bounded from below by Lagrange: with a price u >= 0 on the limit,
//   r_g >= max over u of min over S with g in S of (cut(S) + u (time(S) + cut(S) - T)) / time(S),
// whose inner minimum is a question to a minimum cut: is cut(S) + (u - r) / (1 + u) time(S) at
// least u T / (1 + u) for all S with g in it? Every set S that a cut finds is a line over u that
// bounds r for all of its groups; where the lines meet highest, the next question is asked (Kelley,
// "The cutting-plane method for solving convex programs", 1960, https://doi.org/10.1137/0108053). T
// is found by bisection.
// Cost. Some minimum cuts for each group and T, limited. Promises. Never above the least largest
// load (except for 1e-9 relative). Devices that move for free bear no share.
#pragma once

#include <cstdint>

#include "partition/graph/group_graph.h"
#include "partition/throughput/placement_bounds.h"
#include "plimsoll/core/run_context.h"

namespace plimsoll::partition {

// At least `proved`, which is returned where there is nothing more to say; no more than `goal` is
// looked for. `max_steps`: arcs looked at in minimum cuts. Preconditions: proved > 0, goal finite.
double bound_by_shares(const GroupGraph& groups, double proved, double goal, std::int64_t max_steps,
                       const RunContext& context);

// As much as a search of that effort is worth.
inline std::int64_t share_steps(const SearchOptions& search) {
  constexpr std::int64_t kStepsPerMove = 100;
  if (search.effort < 0 || search.effort > kShareSteps / kStepsPerMove) return kShareSteps;
  return search.effort * kStepsPerMove;
}

}  // namespace plimsoll::partition
