// Nodes that share a device: colours, and every node without one by itself.
#pragma once

#include <vector>

#include "plimsoll/core/units.h"
#include "plimsoll/partition/cost_graph.h"

namespace plimsoll::partition {

struct LatencyGroups {
  explicit LatencyGroups(const CostGraph& graph);

  int num_groups() const { return static_cast<int>(nodes.size()); }
  // The least that any device which its group may use needs for the node; kUnlimited: none may.
  double least_time(const CostGraph& graph, int node) const;

  std::vector<int> group_of;              // [num_nodes]
  std::vector<std::vector<int>> nodes;    // [num_groups] ascending; groups by their first node
  std::vector<std::vector<int>> allowed;  // [num_groups] devices, ascending
  std::vector<Bytes> memory;              // [num_groups] of the nodes; weights are not in it
  std::vector<int> kind_of;  // [num_devices] the first device of the class that the same groups may
                             // use

 private:
  void find_kinds(const CostGraph& graph);
};

}  // namespace plimsoll::partition
