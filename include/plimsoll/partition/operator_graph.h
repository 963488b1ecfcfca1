// The operator graph of a traced model, as torch.fx, torch.export or ONNX know it: what every
// operator reads, how many bytes it gives, what it works, and where in the model it stands. What it
// costs on devices is for operator_costs.h to say.
//
// Sources: docs/partition.md#real-models, docs/mathematics/placements.md#costs-of-traced-models.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "plimsoll/core/result.h"
#include "plimsoll/core/units.h"
#include "plimsoll/partition/graph.h"

#pragma GCC visibility push(default)
namespace plimsoll::partition {

struct OperatorNode {
  std::string name;  // unique, not empty
  OpKind op = OpKind::kCallFunction;
  std::string target;         // a get_attr's FQN; an operator's name, "aten.linear.default"
  std::string module;         // FQN of the innermost module; of a backward node, its forward node's
  std::vector<int> inputs;    // distinct, in order of first occurrence; each smaller than the node
  Bytes output_bytes = 0;     // >= 0, of all outputs; of a parameter, its size
  bool is_parameter = false;  // a get_attr (or placeholder) that holds a parameter
  bool is_buffer = false;     // a get_attr (or placeholder) that holds a buffer or a constant
  bool is_view = false;       // its storage is that of its first input: free to compute
  bool is_mutating = false;   // writes into its first input, which is also its value
  bool is_backward = false;
  double flops = 0;       // >= 0, finite; 2 for a multiply-add, matrix and convolution work only
  Bytes bytes_moved = 0;  // >= 0, distinct inputs and outputs; of gathers what they touch
  std::vector<std::optional<double>> time_ms;  // [num_time_columns] >= 0, finite; absent: not known
  std::optional<Bytes> memory;  // >= 0, what it holds on its device, where somebody measured it
  std::string dtype;            // of the first output; may be empty
  bool operator==(const OperatorNode&) const = default;
};

struct OperatorGraph {
  std::string name;                       // for people; may be empty
  std::vector<std::string> time_columns;  // distinct device classes with known times: "h100"
  std::vector<OperatorNode> nodes;        // in graph order, which is topological
  std::vector<std::pair<int, int>> ties;  // two weights that are one tensor, the earlier one first

  int num_nodes() const { return static_cast<int>(nodes.size()); }
  bool is_weight(int node) const { return nodes[node].is_parameter || nodes[node].is_buffer; }
  bool is_operator(int node) const { return partition::is_operator(nodes[node].op); }
  bool is_joint() const;  // has a backward node
  std::optional<int> find_time_column(std::string_view column) const;
  bool operator==(const OperatorGraph&) const = default;
};

// Errors, at "node 3 'conv'", "tie 0" or "time_columns". kValue: an empty name, an input that is
// not an earlier node or is the output, a size, count or time below 0 or not finite, a view or a
// mutating operator that reads nothing, a weight that is neither get_attr nor placeholder, a tie of
// nodes without weights; kSchema: times for another number of columns; kConflict: a name, input,
// column or output twice, a forward node (but the output) that reads a backward one, tied weights
// of different sizes; kOverflow: all bytes together exceed 62 bits.
Result<void> validate(const OperatorGraph& graph);

// "node 3 'conv'".
std::string place_of(const OperatorGraph& graph, int node);

// The weight of which a weight is another name, or itself. [num_nodes], the earliest of those tied.
std::vector<int> tied_weights(const OperatorGraph& graph);

// Bytes of all parameters, tied ones once.
Bytes parameter_bytes(const OperatorGraph& graph);
// Bytes of all buffers and constants, tied ones once.
Bytes buffer_bytes(const OperatorGraph& graph);

// Whether torch's naming says that the operator changes its first argument: the base name ends in
// one underscore ("aten.add_.Tensor", not "aten.__and__.Tensor").
bool is_mutating_target(std::string_view target);

// What a plan made elsewhere must agree on: BLAKE2b-256, in hexadecimal, over one line a node,
// "name<tab>target<tab>i,j,k<newline>", inputs by index.
std::string hash_of(const OperatorGraph& graph);

}  // namespace plimsoll::partition
#pragma GCC visibility pop
