// A cost graph whose nodes that must share a device have become one: groups in topological order,
// with the devices that are interchangeable for all of them.
#pragma once

#include <vector>

#include "plimsoll/partition/cost_graph.h"

namespace plimsoll::partition {

// Devices of one class that every group may use alike.
struct DeviceKind {
  int device_class = 0;
  std::vector<int> devices;  // ascending
  std::optional<Bytes> memory_cap;
  double link_rate = 1;
};

struct GroupNet {
  std::vector<int> groups;  // ascending, at least two
  double amount = 0;
};

struct GroupGraph {
  std::vector<DeviceKind> kinds;             // at least one device each
  std::vector<std::vector<int>> nodes;       // [num_groups] ascending
  std::vector<std::vector<double>> time_ms;  // [num_kinds][num_groups]; kUnlimited: not allowed
  std::vector<Bytes> memory;                 // [num_groups]
  std::vector<std::vector<int>>
      predecessors;                          // [num_groups] ascending, each smaller than the group
  std::vector<std::vector<int>> successors;  // [num_groups] ascending
  std::vector<GroupNet> nets;                // no two with the same groups

  int num_groups() const { return static_cast<int>(nodes.size()); }
  int num_kinds() const { return static_cast<int>(kinds.size()); }
};

// Colours and what the order ties in a circle become one group: in a contiguous split they share a
// device anyway. Groups are numbered in a topological order, the smallest ready first node first.
// O(nodes * devices + pins * log). Precondition: a valid graph.
GroupGraph make_groups(const CostGraph& graph);

// Merges groups where that never costs anything. Let h be the only predecessor of g, or its only
// successor, allowed wherever g is needed. If the nets that g shares with h alone weigh at least as
// much as g's nets without h and, on every kind that may hold h, as g's time on top, then moving g
// to h's device raises no load and closes no circle. Without room for everything on one device, g
// must hold no bytes. Repeated until nothing changes.
GroupGraph absorb_groups(const CostGraph& graph, const GroupGraph& groups);

}  // namespace plimsoll::partition
