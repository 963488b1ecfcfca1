// A lower bound of all contiguous splits, by what the stages along one path must move.
//
// Problem. How small can the largest load of a contiguous split be at least? All work shared out
// over all devices forgets what stages move.
// Method. Take a path p_0 ... p_m of the graph. The stages of a split follow one another, so each
// holds a run p_i ... p_j of it, perhaps an empty one. A stage with that run holds its hull (all
// that lies between two groups of the run) and nothing before p_(i-1) or behind p_(j+1); the nets
// that any such set must cut are a minimum cut. So at a largest load T the stage does at most
//   (T - moved(i, j)) / slowness
// of the work, and no more than what it may hold. The runs that share out the path over all devices
// and do the most work are found by dynamic programming; where that is less than all work T is
// refuted. T is found by bisection. Runs are charged by the nets that their hull alone cuts first,
// and in full (net_cut.h) only when they are among those that do the most.
// Cost. O(runs * states of used devices) for a T and a round of charges; limits cut it.
// Promises. Never above the least largest load of a contiguous split (except for 1e-9 relative),
// caps, pins and pair rates left out. Nothing is promised for placements that are not contiguous.
// Source: the argument of the latency bound (latency_bound.h), with loads in place of a sum.
#pragma once

#include <cstdint>

#include "partition/graph/group_graph.h"
#include "plimsoll/core/run_context.h"

namespace plimsoll::partition {

// `groups`: of `graph`, ordered, without loss. At least `proved`, which is returned where the path
// says nothing more; no more than `goal` is looked for. `max_steps`: nodes, pins and arcs looked at
// in cuts. Precondition: proved > 0, goal finite.
double bound_by_paths(const CostGraph& graph, const GroupGraph& groups, double proved, double goal,
                      std::int64_t max_steps, const RunContext& context);

}  // namespace plimsoll::partition
