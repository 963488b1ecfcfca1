// Which operators of a traced model share storage, and which must share a device: the rules at the
// head of operator_costs.h.
#pragma once

#include <vector>

#include "plimsoll/partition/operator_graph.h"

namespace plimsoll::partition {

// Takes one part out of an operator's outputs.
bool is_getitem(const OperatorNode& node);

// The node that made the storage of a node's value. Views and in-place results have that of their
// first input; what a getitem takes from an operator that is not a view is storage of its own.
// [num_nodes] at most the node.
std::vector<int> storage_roots(const OperatorGraph& graph);

// Cost nodes that share a device, by a representative of each class. `home[node]` is the operator
// that stands for the node's cost node, -1 where it has none. [num_nodes] at those operators; -1:
// no colour.
std::vector<int> find_colours(const OperatorGraph& graph, const std::vector<int>& home);

}  // namespace plimsoll::partition
