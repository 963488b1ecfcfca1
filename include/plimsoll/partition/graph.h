// The operator graph that is to be spread over devices: nodes in graph order, who reads whom, and
// how many bytes each node holds.
//
// Graph order is a topological order and the only order in which anything here is iterated. Source:
// docs/mathematics/torch-fx-partitioner.md#graph-and-sizes.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "plimsoll/core/result.h"
#include "plimsoll/core/units.h"

#pragma GCC visibility push(default)
namespace plimsoll::partition {

enum class OpKind {
  kPlaceholder,   // an input of the graph
  kGetAttr,       // a parameter or constant
  kCallFunction,  // the three kinds of operators
  kCallMethod,
  kCallModule,
  kOutput,  // at most one; what follows it has no size
};
std::string_view to_string(OpKind kind);  // "call_module"
std::optional<OpKind> find_op_kind(std::string_view name);

// Neither an input, nor a constant, nor the output: only operators are placed.
bool is_operator(OpKind kind);
// Placeholder or get_attr: copied into every partition that reads it.
bool is_source(OpKind kind);

struct NodeSize {
  Bytes output = 0;  // >= 0, of the value
  Bytes total = 0;   // >= 0, of the value and of what the node owns (a module's parameters)
  bool operator==(const NodeSize&) const = default;
};

struct Node {
  std::string name;  // unique
  OpKind op = OpKind::kCallFunction;
  std::string target;         // what is fetched or called; empty: the name
  std::vector<int> inputs;    // distinct, in order of first occurrence; each smaller than the node
  NodeSize size;              // unused from the output on
  bool is_embedding = false;  // a module whose description speaks of an embedding (sparse_nn)
  bool operator==(const Node&) const = default;
};

struct Graph {
  std::vector<Node> nodes;              // in graph order
  std::vector<std::vector<int>> users;  // [num_nodes] ascending
  int num_sized = 0;                    // nodes before the output; all of them without one
  Bytes total_size = 0;                 // sum of their total sizes

  int num_nodes() const { return static_cast<int>(nodes.size()); }
  bool is_operator(int node) const { return partition::is_operator(nodes[node].op); }
  bool is_source(int node) const { return partition::is_source(nodes[node].op); }
  bool operator==(const Graph&) const = default;
};

// Drops repeated inputs and derives the rest. Errors at a node's name: kConflict (a name twice, a
// second output), kValue (an input that is no earlier node, or is the output; a negative size),
// kOverflow (sizes whose sums exceed 62 bits).
Result<Graph> make_graph(std::vector<Node> nodes);

// The graph in which every node of that kind and target is of the new kind and target; names,
// inputs and sizes stay.
Graph replace_targets(Graph graph, OpKind old_op, std::string_view old_target, OpKind new_op,
                      const std::string& new_target);

// The node's target, which is its name where none is given.
const std::string& target_of(const Node& node);

}  // namespace plimsoll::partition
#pragma GCC visibility pop
