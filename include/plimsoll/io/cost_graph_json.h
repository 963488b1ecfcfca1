// Cost graphs as JSON: "plimsoll.cost_graph/1", all that our own searches see of a graph and its
// devices. Any number of classes with a rate each or a matrix of pair rates, nets, weights,
// colours, pins, forbidden devices, backward nodes.
//
// Nodes and classes stand by name. A class that a node's `time_ms` leaves out cannot run it; one
// without `link_rate` moves for free. Strictness as in model_json.h.
#pragma once

#include <string>
#include <string_view>

#include "plimsoll/core/result.h"
#include "plimsoll/partition/cost_graph.h"

#pragma GCC visibility push(default)
namespace plimsoll::io {

// Besides the shape: what validate() asks; names of nodes that are distinct and not empty; nodes
// and classes that exist. Errors: kSyntax, kSchema, kValue, kOverflow, kConflict.
Result<partition::CostGraph> read_cost_graph(std::string_view text, std::string_view file);

// Errors, as places say: kUsage where two nodes have one name or a node has none; as validate().
Result<std::string> write_cost_graph(const partition::CostGraph& graph);

}  // namespace plimsoll::io
#pragma GCC visibility pop
