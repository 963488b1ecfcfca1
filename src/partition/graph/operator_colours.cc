#include "partition/graph/operator_colours.h"

#include <algorithm>
#include <numeric>
#include <string_view>
#include <unordered_map>

namespace plimsoll::partition {
namespace {

// Classes under union; the smallest member stands for each.
class Classes {
 public:
  explicit Classes(std::size_t size) : parent_(size), has_mates_(size) {
    std::iota(parent_.begin(), parent_.end(), 0);
  }
  int find(int node) {
    while (parent_[node] != node) node = parent_[node] = parent_[parent_[node]];
    return node;
  }
  void unite(int a, int b) {
    a = find(a);
    b = find(b);
    if (a == b) return;
    parent_[std::max(a, b)] = std::min(a, b);
    has_mates_[std::min(a, b)] = true;
  }
  bool is_alone(int node) { return !has_mates_[find(node)]; }

 private:
  std::vector<int> parent_;
  std::vector<bool> has_mates_;
};

// Ties every class of aliases that is written to, and whoever would see the wrong version of it.
void unite_written(const OperatorGraph& graph, const std::vector<int>& home, Classes& classes) {
  const std::vector<int> root = storage_roots(graph);
  std::vector<int> last_write(graph.nodes.size(), -1);  // [num_nodes] by root
  for (int node = 0; node < graph.num_nodes(); ++node) {
    if (graph.nodes[node].is_mutating && home[node] >= 0) last_write[root[node]] = node;
  }
  std::vector<int> first_of(graph.nodes.size(), -1);  // [num_nodes] by root, of those tied
  const auto tie = [&](int storage, int node) {
    if (first_of[storage] < 0) first_of[storage] = home[node];
    classes.unite(first_of[storage], home[node]);
  };
  for (int node = 0; node < graph.num_nodes(); ++node) {
    if (home[node] < 0 || !graph.is_operator(node)) continue;
    if (last_write[root[node]] >= 0) tie(root[node], node);
    for (const int input : graph.nodes[node].inputs) {
      const int storage = root[input];
      if (last_write[storage] < 0) continue;
      const bool is_base_outside = !graph.is_operator(storage);
      if (node < last_write[storage] || (is_base_outside && input == storage)) tie(storage, node);
    }
  }
}

// Ties every piece of the forward pass to its backward operators.
void unite_passes(const OperatorGraph& graph, const std::vector<int>& home, Classes& classes) {
  std::vector<std::vector<int>> pieces;                              // [num_pieces] operators
  std::unordered_map<std::string_view, std::vector<int>> pieces_of;  // ascending
  std::string_view module;
  for (int node = 0; node < graph.num_nodes(); ++node) {
    const OperatorNode& n = graph.nodes[node];
    if (home[node] != node || !graph.is_operator(node) || n.is_backward) continue;
    if (n.module != module || pieces.empty()) {
      module = n.module;
      if (!module.empty()) pieces_of[module].push_back(static_cast<int>(pieces.size()));
      pieces.emplace_back();
    }
    pieces.back().push_back(node);
  }
  int previous = static_cast<int>(pieces.size()) - 1;
  for (int node = 0; node < graph.num_nodes(); ++node) {
    const OperatorNode& n = graph.nodes[node];
    if (home[node] != node || !n.is_backward || n.module.empty()) continue;
    const auto found = pieces_of.find(n.module);
    if (found == pieces_of.end()) continue;
    const std::vector<int>& own = found->second;
    const auto after = std::upper_bound(own.begin(), own.end(), previous);
    previous = after == own.begin() ? own.front() : *std::prev(after);
    for (const int mate : pieces[previous]) classes.unite(mate, node);
  }
}

}  // namespace

bool is_getitem(const OperatorNode& node) {
  constexpr std::string_view kGetitem = "getitem";
  const std::string_view target = node.target;
  return node.op == OpKind::kCallFunction && node.inputs.size() == 1 &&
         target.size() >= kGetitem.size() &&
         target.substr(target.size() - kGetitem.size()) == kGetitem;
}

std::vector<int> storage_roots(const OperatorGraph& graph) {
  std::vector<int> root(graph.nodes.size());
  for (int node = 0; node < graph.num_nodes(); ++node) {
    const OperatorNode& n = graph.nodes[node];
    const bool is_alias = n.is_view || n.is_mutating;
    const bool is_part = is_alias && is_getitem(n) && !graph.nodes[n.inputs[0]].is_view;
    root[node] = is_alias && !is_part ? root[n.inputs[0]] : node;
  }
  return root;
}

std::vector<int> find_colours(const OperatorGraph& graph, const std::vector<int>& home) {
  Classes classes(graph.nodes.size());
  unite_written(graph, home, classes);
  if (graph.is_joint()) unite_passes(graph, home, classes);
  std::vector<int> colour(graph.nodes.size(), -1);
  for (int node = 0; node < graph.num_nodes(); ++node) {
    if (home[node] == node && !classes.is_alone(node)) colour[node] = classes.find(node);
  }
  return colour;
}

}  // namespace plimsoll::partition
