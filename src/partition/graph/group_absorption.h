// Groups that may share a device without harm become one.
#pragma once

#include <vector>

#include "partition/graph/group_graph.h"
#include "plimsoll/partition/cost_graph.h"

namespace plimsoll::partition {

// Merges groups where that never costs anything. Let h be the only predecessor of g, or its only
// successor, allowed wherever g is needed. If the nets that g shares with h alone weigh at least as
// much as g's nets without h and, on every kind that may hold h, as g's time on top, then moving g
// to h's device raises no load and closes no circle. Without room for everything on one device, g
// must hold no bytes, except weights that h reads too. Repeated until nothing changes.
GroupGraph absorb_groups(const CostGraph& graph, const GroupGraph& groups);

// The same without an order: h may be any group that shares a net with g, one for each g and round.
// `cluster_of`: [num_groups of the input] where each group went. Precondition: no pair rates.
GroupGraph absorb_unordered_groups(const GroupGraph& groups, std::vector<int>& cluster_of);

}  // namespace plimsoll::partition
