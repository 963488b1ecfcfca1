#include "plimsoll/checkpoint/module_tree.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <unordered_map>

namespace plimsoll::checkpoint {
namespace {

using Positions = std::unordered_map<std::string_view, int>;

// First occurrence of each name, counted over first occurrences.
Positions first_positions(const std::vector<std::string>& order) {
  Positions positions;
  for (const std::string& fqn : order) {
    positions.emplace(fqn, static_cast<int>(positions.size()));
  }
  return positions;
}

// The nearest executed module above `fqn`, -1 if there is none.
int find_parent(std::string_view fqn, const Positions& index_of) {
  for (std::size_t dot = fqn.rfind('.'); dot != std::string_view::npos; dot = fqn.rfind('.')) {
    fqn = fqn.substr(0, dot);
    if (const auto found = index_of.find(fqn); found != index_of.end()) return found->second;
  }
  return -1;
}

// Quirk, kept: a substring test, over the modules that follow in the list until the first that
// fails.
std::vector<int> upstream_descendants(const ModuleStats& stats, int node) {
  const std::string above = stats.mod_stats[node].fqn + ".";
  std::vector<int> below;
  const int n = static_cast<int>(stats.mod_stats.size());
  for (int j = node + 1; j < n && stats.mod_stats[j].fqn.find(above) != std::string::npos; ++j) {
    below.push_back(j);
  }
  return below;
}

// Nested: every subtree takes as many positions as it has nodes, its root the last of them, and the
// children come in the order in which their forwards began.
bool is_nested(const ModuleTree& tree) {
  std::vector<int> first = tree.position;  // of the subtree
  std::vector<int> size(first.size(), 1);
  for (int node : tree.post_order) {
    int last = -1;
    for (int child : tree.children[node]) {
      first[node] = std::min(first[node], first[child]);
      size[node] += size[child];
      if (tree.position[child] <= last || tree.position[child] >= tree.position[node]) return false;
      last = tree.position[child];
    }
    if (tree.position[node] - first[node] + 1 != size[node]) return false;
  }
  return true;
}

void find_descendants(const ModuleStats& stats, Ancestry ancestry, ModuleTree& tree) {
  for (std::size_t i = 0; i < tree.parent.size(); ++i) {
    if (ancestry == Ancestry::kSubstring) {
      tree.descendants[i] = upstream_descendants(stats, static_cast<int>(i));
      continue;
    }
    for (int above = tree.parent[i]; above >= 0; above = tree.parent[above]) {
      tree.descendants[above].push_back(static_cast<int>(i));
    }
  }
}

}  // namespace

Result<ModuleTree> make_module_tree(const ModuleStats& stats, Ancestry ancestry) {
  const std::size_t n = stats.mod_stats.size();
  const std::size_t num_calls = stats.mod_order.fw_pre_order.size();
  const std::string& root = stats.mod_stats[0].fqn;
  if (ancestry == Ancestry::kSubstring && n != num_calls) {
    return fail(ErrorCode::kConflict, "fw_pre_order",
                fmt::format("{} modules in mod_stats, {} entries in fw_pre_order", n, num_calls),
                "torch's planner does not support a model that calls a module twice");
  }
  Positions index_of;
  for (const ModuleInfo& module : stats.mod_stats) {
    index_of.emplace(module.fqn, static_cast<int>(index_of.size()));
  }
  const Positions pre = first_positions(stats.mod_order.fw_pre_order);
  const Positions post = first_positions(stats.mod_order.fw_post_order);

  ModuleTree tree;
  tree.parent.resize(n);
  tree.children.resize(n);
  tree.post_order.resize(n);
  tree.position.resize(n);
  tree.descendants.resize(n);
  for (std::size_t i = 0; i < n; ++i) {
    const std::string& fqn = stats.mod_stats[i].fqn;
    tree.parent[i] = find_parent(fqn, index_of);
    if (tree.parent[i] < 0 && i > 0) {
      return fail(
          ErrorCode::kConflict, fqn, "this module is not below the first, " + root,
          "put the root first in mod_stats, and begin every other name with the root's and a dot");
    }
    if (tree.parent[i] >= 0) tree.children[tree.parent[i]].push_back(static_cast<int>(i));
    tree.position[i] = post.at(fqn);
    tree.post_order[tree.position[i]] = static_cast<int>(i);
  }
  if (tree.parent[0] >= 0) {
    return fail(ErrorCode::kConflict, root, "the first module is not the root",
                "put the root first in mod_stats");
  }
  for (std::vector<int>& children : tree.children) {
    std::sort(children.begin(), children.end(), [&](int a, int b) {
      return pre.at(stats.mod_stats[a].fqn) < pre.at(stats.mod_stats[b].fqn);
    });
  }
  find_descendants(stats, ancestry, tree);
  tree.is_nested = is_nested(tree);
  return tree;
}

}  // namespace plimsoll::checkpoint
