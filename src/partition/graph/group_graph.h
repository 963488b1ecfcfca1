// A cost graph whose nodes that must share a device have become one: groups in topological order,
// with the devices that are interchangeable for all of them.
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "partition/graph/disjoint_sets.h"
#include "plimsoll/partition/cost_graph.h"

namespace plimsoll::partition {

// Devices of one class that every group may use alike.
struct DeviceKind {
  int device_class = 0;
  std::vector<int> devices;  // ascending
  std::optional<Bytes> memory_cap;
  double link_rate = 1;  // of the class, or of the fastest pair that the device is in if slower
};

struct GroupNet {
  std::vector<int> groups;  // ascending, at least two
  double amount = 0;
  int producer = -1;  // group; -1 where it makes no difference, without pair rates
};

struct GroupWeight {
  std::vector<int> groups;  // its readers, ascending, at least two
  Bytes bytes = 0;
};

struct GroupGraph {
  std::vector<DeviceKind> kinds;             // at least one device each
  std::vector<std::vector<int>> nodes;       // [num_groups] ascending
  std::vector<std::vector<double>> time_ms;  // [num_kinds][num_groups]; kUnlimited: not allowed
  std::vector<Bytes> memory;                 // [num_groups] with the weights that nobody else reads
  std::vector<std::vector<int>>
      predecessors;                          // [num_groups] ascending, each smaller than the group
  std::vector<std::vector<int>> successors;  // [num_groups] ascending
  std::vector<GroupNet> nets;                // no two with the same groups and producer
  std::vector<GroupWeight> weights;          // no two with the same groups

  int num_groups() const { return static_cast<int>(nodes.size()); }
  int num_kinds() const { return static_cast<int>(kinds.size()); }
};

// Colours and what the order ties in a circle become one group: in a contiguous split they share a
// device anyway. Groups are numbered in a topological order, the smallest ready first node first.
// O(nodes * devices + pins * log). Precondition: a valid graph.
GroupGraph make_groups(const CostGraph& graph);

// The same from sets that are one group each already, pairs (before, after) that order the nodes,
// and the graph's kinds of devices. Circles are united in `sets`, too.
GroupGraph make_groups_of_sets(const CostGraph& graph,
                               const std::vector<std::pair<int, int>>& order,
                               std::vector<DeviceKind> kinds, DisjointSets& sets);

// Colours alone become one group. Nothing orders the groups (no predecessors, no successors), but
// they are numbered as make_groups would number what holds them.
GroupGraph make_colour_groups(const CostGraph& graph);

// Makes one group of those with equal entries of `cluster_of`, [num_groups] in [0, num_clusters),
// each of them used. The quotient's order is kept; where it is asked for (predecessors and
// successors) the caller sees to it that it has no circle and that numbers follow it.
GroupGraph merge_groups(const GroupGraph& groups, const std::vector<int>& cluster_of,
                        int num_clusters);

// [num_groups] the edges' indices, ascending.
std::vector<std::vector<int>> nets_of_groups(const GroupGraph& groups);
std::vector<std::vector<int>> weights_of_groups(const GroupGraph& groups);

}  // namespace plimsoll::partition
