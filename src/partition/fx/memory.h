// How many bytes a set of nodes is charged with.
//
// Quirk, kept: a tensor that comes from outside the set is charged once for each node of the set
// that reads it, although one copy would do. Source:
// docs/mathematics/torch-fx-partitioner.md#graph-and-sizes.
#pragma once

#include <span>

#include "plimsoll/core/units.h"
#include "plimsoll/partition/graph.h"

namespace plimsoll::partition {

// What a node is charged with when nothing else is on the device: its total size and its inputs.
// Precondition: the node has a size.
Bytes lonely_bytes(const Graph& graph, int node);

// The sum over the set of each node's total size and its inputs from outside. O(edges of the set).
Bytes used_bytes(const Graph& graph, std::span<const int> nodes);

}  // namespace plimsoll::partition
