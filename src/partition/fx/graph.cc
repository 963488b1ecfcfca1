#include "plimsoll/partition/graph.h"

#include <algorithm>
#include <array>
#include <unordered_set>
#include <utility>

namespace plimsoll::partition {
namespace {

constexpr std::array<std::pair<OpKind, std::string_view>, 6> kOpKinds = {{
    {OpKind::kPlaceholder, "placeholder"},
    {OpKind::kGetAttr, "get_attr"},
    {OpKind::kCallFunction, "call_function"},
    {OpKind::kCallMethod, "call_method"},
    {OpKind::kCallModule, "call_module"},
    {OpKind::kOutput, "output"},
}};

void keep_first_occurrences(std::vector<int>& inputs) {
  std::vector<int> distinct;
  std::unordered_set<int> seen;
  for (const int input : inputs) {
    if (seen.insert(input).second) distinct.push_back(input);
  }
  inputs = std::move(distinct);
}

Result<void> check_node(const std::vector<Node>& nodes, int position) {
  const Node& node = nodes[position];
  for (const int input : node.inputs) {
    if (input < 0 || input >= position) {
      return fail(ErrorCode::kValue, node.name, "reads a node that is not listed before it",
                  "list the nodes in topological order");
    }
    if (nodes[input].op == OpKind::kOutput) {
      return fail(ErrorCode::kValue, node.name, "reads the output node",
                  "let it read what the output returns");
    }
  }
  if (node.size.output < 0 || node.size.total < 0) {
    return fail(ErrorCode::kValue, node.name, "a size is negative", "give sizes in bytes");
  }
  return {};
}

}  // namespace

std::string_view to_string(OpKind kind) { return kOpKinds[static_cast<std::size_t>(kind)].second; }

std::optional<OpKind> find_op_kind(std::string_view name) {
  for (const auto& [kind, known] : kOpKinds) {
    if (name == known) return kind;
  }
  return std::nullopt;
}

bool is_operator(OpKind kind) { return !is_source(kind) && kind != OpKind::kOutput; }
bool is_source(OpKind kind) { return kind == OpKind::kPlaceholder || kind == OpKind::kGetAttr; }

const std::string& target_of(const Node& node) {
  return node.target.empty() ? node.name : node.target;
}

Result<Graph> make_graph(std::vector<Node> nodes) {
  Graph graph;
  graph.nodes = std::move(nodes);
  const int n = graph.num_nodes();
  graph.num_sized = n;
  graph.users.resize(graph.nodes.size());
  std::unordered_set<std::string_view> names;
  // No partition can hold more than every node once and every input once for each of its readers.
  Int128 bound = 0;
  Int128 total = 0;
  for (int i = 0; i < n; ++i) {
    Node& node = graph.nodes[i];
    if (!names.insert(node.name).second) {
      return fail(ErrorCode::kConflict, node.name, "an earlier node has this name",
                  "give every node a name of its own");
    }
    PLIMSOLL_RETURN_IF_ERROR(check_node(graph.nodes, i));
    if (node.op == OpKind::kOutput) {
      if (graph.num_sized < n) {
        return fail(ErrorCode::kConflict, node.name, "is a second output",
                    "return several values from one output node");
      }
      graph.num_sized = i;
    }
    keep_first_occurrences(node.inputs);
    bound += node.size.total;
    for (const int input : node.inputs) {
      graph.users[input].push_back(i);
      bound += std::max(graph.nodes[input].size.output, graph.nodes[input].size.total);
    }
    if (graph.num_sized == n) total += node.size.total;
    if (bound > Int128{1} << 62) {
      return fail(ErrorCode::kOverflow, node.name, "the sizes up to here add up to 2^62 bytes");
    }
  }
  graph.total_size = static_cast<Bytes>(total);
  return graph;
}

Graph replace_targets(Graph graph, OpKind old_op, std::string_view old_target, OpKind new_op,
                      const std::string& new_target) {
  for (Node& node : graph.nodes) {
    if (node.op != old_op || target_of(node) != old_target) continue;
    node.op = new_op;
    node.target = new_target;
  }
  return graph;
}

}  // namespace plimsoll::partition
