// What no placement can beat: lower bounds of a sample's latency.
//
// Problem. A number that is never above the latency of any placement, for the certificate.
// Method. Two bounds; the larger one counts.
// 1. The longest path with the least time that any device needs for each node.
// 2. Spines. A path p_0 ... p_m of the graph is cut by the tasks of any placement into runs, for a
//    piece is contiguous; tasks of a path run one after the other. A task that holds exactly the
//    run p_i ... p_j of the path holds its hull, every node on a path from p_i to p_j, and neither
//    an ancestor of p_(i-1) nor a descendant of p_(j+1). So the hull's bytes, with colour mates and
//    weights, fit the device, and the task takes at least the least sum of times and cut nets over
//    all sets between these two (net_cut.h). The least sum over all ways to cut the path into runs,
//    and single nodes on hosts, is a bound; it is found by dynamic programming over the path's
//    places. First a run costs its hull's time and the nets that it surely moves; only the runs of
//    the cheapest way are then charged in full, until they all are.
//    A node that reads nothing but what colour mates of one task make is in that task as well, so
//    that neither path nor task is cut between them.
//    Spines are longest paths under several weights of time and transfers.
// Cost. O(nodes + pins) for the first; for a spine as much for each place from which runs begin,
// and a maximum flow for each run charged in full.
// Promises. Valid for every graph; nothing about how near it is. Where classes or pairs of devices
// have several rates, the bound knows the link rate of the class only.
// Departures. The published bound is the first one alone.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "plimsoll/core/proof.h"
#include "plimsoll/core/run_context.h"
#include "plimsoll/partition/cost_graph.h"

namespace plimsoll::partition {

// A run of the cheapest way to cut the best spine: nodes that one task would hold.
struct SpineRun {
  int device_class = 0;
  std::vector<int> nodes;  // ascending
};

struct LatencyBound {
  double value = 0;  // ms; kUnlimited: no placement exists
  ProofKind proof = ProofKind::kNone;
  std::vector<SpineRun> runs;  // on accelerators, in the spine's order; empty without a spine
};

struct LatencyBoundRules {
  bool uses_spines = true;  // else the longest path alone
  bool uses_cuts = true;    // else runs cost their hull and what they surely move
};

// The longest path from each node to the end, with the least time that any device needs for each
// node, the node's own included. [num_nodes]
std::vector<double> least_tails(const CostGraph& graph, const std::vector<int>& order);

// The clock and a cancel end the search for spines.
LatencyBound bound_latency(const CostGraph& graph, const LatencyBoundRules& rules,
                           const RunContext& context);

}  // namespace plimsoll::partition
