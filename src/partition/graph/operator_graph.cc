#include "plimsoll/partition/operator_graph.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <unordered_set>

#include "plimsoll/core/digest.h"

namespace plimsoll::partition {
namespace {

constexpr Bytes kMaxTotal = Bytes{1} << 62;

tl::unexpected<Error> fail_at(const OperatorGraph& graph, int node, ErrorCode code,
                              std::string message, std::string remedy) {
  return fail(code, place_of(graph, node), std::move(message), std::move(remedy));
}

Result<void> check_inputs(const OperatorGraph& graph, int index) {
  const OperatorNode& node = graph.nodes[index];
  for (const int input : node.inputs) {
    if (input < 0 || input >= index) {
      return fail_at(graph, index, ErrorCode::kValue,
                     "reads node " + std::to_string(input) + ", which is not listed before it",
                     "give the nodes in topological order");
    }
    const OperatorNode& producer = graph.nodes[input];
    if (producer.op == OpKind::kOutput) {
      return fail_at(graph, index, ErrorCode::kValue, "reads the output",
                     "read the node whose value it returns");
    }
    if (producer.is_backward && !node.is_backward && node.op != OpKind::kOutput) {
      return fail_at(graph, index, ErrorCode::kConflict,
                     "is forward and reads the backward " + place_of(graph, input),
                     "mark it as backward");
    }
  }
  std::vector<int> sorted = node.inputs;
  std::sort(sorted.begin(), sorted.end());
  if (std::adjacent_find(sorted.begin(), sorted.end()) != sorted.end()) {
    return fail_at(graph, index, ErrorCode::kConflict, "reads a node twice", "name it once");
  }
  return {};
}

Result<void> check_kind(const OperatorGraph& graph, int index) {
  const OperatorNode& node = graph.nodes[index];
  if (graph.is_weight(index) && !is_source(node.op)) {
    return fail_at(graph, index, ErrorCode::kValue,
                   "is a weight and neither get_attr nor placeholder",
                   "leave the parameter and buffer flags to nodes that fetch them");
  }
  if ((node.is_view || node.is_mutating) && node.inputs.empty()) {
    return fail_at(graph, index, ErrorCode::kValue,
                   node.is_view ? "is a view of nothing" : "changes nothing",
                   "give its base as the first input");
  }
  return {};
}

Result<void> check_costs(const OperatorGraph& graph, int index) {
  const OperatorNode& node = graph.nodes[index];
  if (node.output_bytes < 0 || node.bytes_moved < 0 || node.memory.value_or(0) < 0) {
    return fail_at(graph, index, ErrorCode::kValue, "a negative number of bytes",
                   "give at least 0");
  }
  if (!(node.flops >= 0) || !std::isfinite(node.flops)) {
    return fail_at(graph, index, ErrorCode::kValue, "a number of flops below 0 or not finite",
                   "give a finite number of at least 0");
  }
  if (node.time_ms.size() != graph.time_columns.size()) {
    return fail_at(graph, index, ErrorCode::kSchema,
                   std::to_string(node.time_ms.size()) + " times for " +
                       std::to_string(graph.time_columns.size()) + " columns",
                   "give one time, known or not, for each column");
  }
  for (const std::optional<double>& time : node.time_ms) {
    if (time && (!(*time >= 0) || !std::isfinite(*time))) {
      return fail_at(graph, index, ErrorCode::kValue, "a time below 0 or not finite",
                     "give a finite time of at least 0 ms");
    }
  }
  return {};
}

Result<void> check_ties(const OperatorGraph& graph) {
  for (std::size_t i = 0; i < graph.ties.size(); ++i) {
    const auto [first, second] = graph.ties[i];
    const std::string place = "tie " + std::to_string(i);
    if (first < 0 || second <= first || second >= graph.num_nodes() || !graph.is_weight(first) ||
        !graph.is_weight(second)) {
      return fail(ErrorCode::kValue, place, "is not a pair of weights with the earlier one first",
                  "tie parameters and buffers only");
    }
    if (graph.nodes[first].output_bytes != graph.nodes[second].output_bytes) {
      return fail(ErrorCode::kConflict, place,
                  place_of(graph, first) + " and " + place_of(graph, second) + " differ in size",
                  "tie weights that are one tensor");
    }
  }
  return {};
}

Bytes weight_bytes(const OperatorGraph& graph, bool OperatorNode::*kind) {
  const std::vector<int> original = tied_weights(graph);
  Bytes bytes = 0;
  for (int node = 0; node < graph.num_nodes(); ++node) {
    if (graph.nodes[node].*kind && original[node] == node) bytes += graph.nodes[node].output_bytes;
  }
  return bytes;
}

}  // namespace

bool OperatorGraph::is_joint() const {
  return std::any_of(nodes.begin(), nodes.end(),
                     [](const OperatorNode& node) { return node.is_backward; });
}

std::optional<int> OperatorGraph::find_time_column(std::string_view column) const {
  const auto found = std::find(time_columns.begin(), time_columns.end(), column);
  if (found == time_columns.end()) return {};
  return static_cast<int>(found - time_columns.begin());
}

Result<void> validate(const OperatorGraph& graph) {
  std::unordered_set<std::string_view> seen;
  for (const std::string& column : graph.time_columns) {
    if (!seen.insert(column).second) {
      return fail(ErrorCode::kConflict, "time_columns", "'" + column + "' occurs twice",
                  "name each class of devices once");
    }
  }
  seen.clear();
  bool has_output = false;
  Bytes total = 0;
  for (int index = 0; index < graph.num_nodes(); ++index) {
    const OperatorNode& node = graph.nodes[index];
    if (node.name.empty()) {
      return fail_at(graph, index, ErrorCode::kValue, "has no name", "give every node a name");
    }
    if (!seen.insert(node.name).second) {
      return fail_at(graph, index, ErrorCode::kConflict, "the name occurs twice",
                     "give every node its own name");
    }
    if (node.op == OpKind::kOutput && std::exchange(has_output, true)) {
      return fail_at(graph, index, ErrorCode::kConflict, "is a second output", "give one output");
    }
    PLIMSOLL_RETURN_IF_ERROR(check_inputs(graph, index));
    PLIMSOLL_RETURN_IF_ERROR(check_kind(graph, index));
    PLIMSOLL_RETURN_IF_ERROR(check_costs(graph, index));
    for (const Bytes bytes : {node.output_bytes, node.bytes_moved, node.memory.value_or(0)}) {
      if (bytes > kMaxTotal - total) {
        return fail_at(graph, index, ErrorCode::kOverflow,
                       "the bytes of all nodes together exceed 2^62", "give smaller sizes");
      }
      total += bytes;
    }
  }
  return check_ties(graph);
}

std::string place_of(const OperatorGraph& graph, int node) {
  const std::string& name = graph.nodes[node].name;
  return "node " + std::to_string(node) + (name.empty() ? "" : " '" + name + "'");
}

std::vector<int> tied_weights(const OperatorGraph& graph) {
  std::vector<int> original(graph.nodes.size());
  std::iota(original.begin(), original.end(), 0);
  const auto find = [&](int node) {
    while (original[node] != node) node = original[node] = original[original[node]];
    return node;
  };
  for (const auto& [first, second] : graph.ties) {
    const int a = find(first);
    const int b = find(second);
    original[std::max(a, b)] = std::min(a, b);
  }
  for (int node = 0; node < graph.num_nodes(); ++node) original[node] = find(node);
  return original;
}

Bytes parameter_bytes(const OperatorGraph& graph) {
  return weight_bytes(graph, &OperatorNode::is_parameter);
}

Bytes buffer_bytes(const OperatorGraph& graph) {
  return weight_bytes(graph, &OperatorNode::is_buffer);
}

bool is_mutating_target(std::string_view target) {
  const std::size_t space = target.find('.');
  if (space == std::string_view::npos) return false;
  std::string_view base = target.substr(space + 1);
  base = base.substr(0, base.find('.'));
  return base.size() > 1 && base.back() == '_' && base[base.size() - 2] != '_';
}

std::string hash_of(const OperatorGraph& graph) {
  std::string text;
  for (const OperatorNode& node : graph.nodes) {
    text += node.name;
    text += '\t';
    text += node.target;
    text += '\t';
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      if (i > 0) text += ',';
      text += std::to_string(node.inputs[i]);
    }
    text += '\n';
  }
  return blake2b_hex(text);
}

}  // namespace plimsoll::partition
