// How long a partitioned graph takes: the longest path, through operators within a partition and
// through partitions and transfers between them.
//
// Problem. Upstream walks every path, which are exponentially many where paths part and meet again.
// Method. One pass in topological order that keeps for each node the largest sum over the paths
// that end there, each added up from its first node on. Rounding is monotone (x <= y gives
// x + c <= y + c in floating point too), so the largest of these sums is the largest of all paths'
// sums, to the last digit. O(nodes + edges), and for graphs O(edges of nodes) more for the bytes.
// Promises. Equal to upstream's walk with sets taken in graph order. Which path is the longest
// matters for the parts of a partition's latency: upstream's is the first in depth-first order
// among those of the largest sum, found here with the least prefix that each node can still turn
// into that sum. No bound on the length of a path, where upstream ends at Python's recursion limit.
// Source: docs/mathematics/torch-fx-partitioner.md#latency.
#pragma once

#include <span>
#include <vector>

#include "plimsoll/core/result.h"
#include "plimsoll/partition/graph.h"
#include "plimsoll/partition/partitioner_config.h"
#include "plimsoll/partition/placement.h"

namespace plimsoll::partition {

// Sums along one path, in seconds; `overall` adds the larger of the two for each node.
struct PartitionLatency {
  double mem_latency_sec = 0;
  double computer_latency_sec = 0;
  double overall_latency_sec = 0;
  bool operator==(const PartitionLatency&) const = default;
};

// The longest path through the operators among `nodes` (ascending). `latencies` is [num_nodes]; a
// missing one is kRuntime with the kind "KeyError". All zero where no path takes time.
Result<PartitionLatency> latency_of_partition(
    const Graph& graph, const std::vector<std::optional<NodeLatency>>& latencies,
    std::span<const int> nodes);

// The longest path from a partition without parents, given each partition's own latency. An edge
// costs nothing between partitions with equal, non-empty lists of devices (Quirk, kept: equal as
// lists, [0, 1] is not [1, 0]), else the bytes that it carries at `transfer_rate`. Transfers and
// partitions on one device are not made to wait for each other. 0 where every partition has a
// parent. Errors: kZeroDivision (an edge that costs, at rate 0), kRuntime of kind "RecursionError"
// (partitions that wait for each other).
Result<double> latency_of_partitioned_graph(const Graph& graph,
                                            const std::vector<Partition>& partitions,
                                            std::span<const double> overall_latency_sec,
                                            double transfer_rate);

}  // namespace plimsoll::partition
