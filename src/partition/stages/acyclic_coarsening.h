// Fewer groups whose quotient still has no circle.
//
// Problem. Merge the groups of a large graph into a few hundred or thousand clusters, none of them
// heavy, such that a contiguous split of the clusters is one of the groups.
// Method. First a group joins its only predecessor or its only successor, whichever shares the
// heavier nets with it, round after round: that closes no circle, for the edge is the only way
// between the two (why many at once close none either: see absorb_groups). What is left over is cut
// into runs along a depth-first topological order, whose edges lead forwards by construction.
// Cost. O((groups + edges + pins) * log) a round; rounds end where one merges few groups.
// Promises. At most `max_clusters` clusters, numbered in a topological order. A cluster is heavier
// than total work / max_clusters only where a run of the last resort or a single group is.
// [1] J. Herrmann et al., "Multilevel algorithms for acyclic partitioning of directed acyclic
//     graphs", SIAM J. Sci. Comput. 41(4), 2019, https://doi.org/10.1137/18M1176865. Departure: no
//     merges that need levels.
#pragma once

#include "partition/graph/group_graph.h"
#include "plimsoll/core/run_context.h"

namespace plimsoll::partition {

// Precondition: max_clusters >= 1, groups numbered in a topological order.
GroupGraph coarsen_acyclically(const GroupGraph& groups, int max_clusters,
                               const RunContext& context);

// The runs alone: at most `max_clusters`, O(pins log pins).
GroupGraph cut_into_runs(const GroupGraph& groups, int max_clusters);

}  // namespace plimsoll::partition
