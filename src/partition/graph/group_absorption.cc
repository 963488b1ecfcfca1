#include "partition/graph/group_absorption.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "partition/graph/disjoint_sets.h"

namespace plimsoll::partition {
namespace {

bool everything_fits_anywhere(const GroupGraph& groups) {
  Bytes total = std::accumulate(groups.memory.begin(), groups.memory.end(), Bytes{0});
  for (const GroupWeight& weight : groups.weights) total += weight.bytes;
  return std::all_of(groups.kinds.begin(), groups.kinds.end(), [&](const DeviceKind& kind) {
    return !kind.memory_cap || *kind.memory_cap >= total;
  });
}

// On h's device, g holds no bytes that are not there anyway.
bool holds_nothing_beside(const GroupGraph& groups, const std::vector<std::vector<int>>& weights_of,
                          int g, int h) {
  return groups.memory[g] == 0 &&
         std::all_of(weights_of[g].begin(), weights_of[g].end(), [&](int w) {
           const auto& readers = groups.weights[w].groups;
           return std::binary_search(readers.begin(), readers.end(), h);
         });
}

bool may_absorb(const GroupGraph& groups, const std::vector<std::vector<int>>& nets_of, int g,
                int h) {
  double shared = 0;   // nets of g and h alone
  double foreign = 0;  // nets of g without h
  for (const int n : nets_of[g]) {
    const GroupNet& net = groups.nets[n];
    const bool has_h = std::binary_search(net.groups.begin(), net.groups.end(), h);
    if (!has_h) foreign += net.amount;
    if (has_h && net.groups.size() == 2) shared += net.amount;
  }
  if (shared < foreign) return false;
  for (int k = 0; k < groups.num_kinds(); ++k) {
    if (!std::isfinite(groups.time_ms[k][h])) continue;
    if ((shared - foreign) / groups.kinds[k].link_rate < groups.time_ms[k][g]) return false;
  }
  return true;
}

}  // namespace

GroupGraph absorb_groups(const CostGraph& graph, const GroupGraph& groups) {
  const std::vector<std::pair<int, int>> order = pipeline_order(graph);
  const bool is_memory_free = everything_fits_anywhere(groups);
  GroupGraph current = groups;
  for (bool has_changed = true; has_changed;) {
    has_changed = false;
    const std::vector<std::vector<int>> nets_of = nets_of_groups(current);
    const std::vector<std::vector<int>> weights_of = weights_of_groups(current);
    DisjointSets sets(graph.num_nodes());
    for (const auto& nodes : current.nodes) {
      for (const int node : nodes) sets.unite(node, nodes.front());
    }
    // All tests of a round are made for the groups as they were. Their merges form a forest, since
    // on a longer circle of a graph without circles some group has two successors; so from its
    // roots on, each group is still itself when it is absorbed, into one that has only grown.
    for (int g = 0; g < current.num_groups(); ++g) {
      for (const auto* neighbours : {&current.successors[g], &current.predecessors[g]}) {
        if (neighbours->size() != 1) continue;
        const int h = neighbours->front();
        if (!is_memory_free && !holds_nothing_beside(current, weights_of, g, h)) continue;
        if (!may_absorb(current, nets_of, g, h)) continue;
        sets.unite(current.nodes[g].front(), current.nodes[h].front());
        has_changed = true;
        break;
      }
    }
    if (has_changed) current = make_groups_of_sets(graph, order, std::move(current.kinds), sets);
  }
  return current;
}

GroupGraph absorb_unordered_groups(const GroupGraph& groups, std::vector<int>& cluster_of) {
  const bool is_memory_free = everything_fits_anywhere(groups);
  GroupGraph current = groups;
  cluster_of.resize(groups.nodes.size());
  std::iota(cluster_of.begin(), cluster_of.end(), 0);
  for (bool has_changed = true; has_changed;) {
    has_changed = false;
    const std::vector<std::vector<int>> nets_of = nets_of_groups(current);
    const std::vector<std::vector<int>> weights_of = weights_of_groups(current);
    std::vector<int> mate(current.nodes.size(), -1);
    for (int g = 0; g < current.num_groups(); ++g) {
      if (mate[g] >= 0) continue;
      for (const int n : nets_of[g]) {
        const auto& pins = current.nets[n].groups;
        if (pins.size() != 2) continue;
        const int h = pins[0] == g ? pins[1] : pins[0];
        if (mate[h] >= 0) continue;
        if (!is_memory_free && !holds_nothing_beside(current, weights_of, g, h)) continue;
        if (!may_absorb(current, nets_of, g, h)) continue;
        mate[g] = h;
        mate[h] = g;
        has_changed = true;
        break;
      }
    }
    if (!has_changed) break;
    int num_clusters = 0;
    std::vector<int> next(mate.size(), -1);
    for (std::size_t g = 0; g < mate.size(); ++g) {
      if (next[g] >= 0) continue;
      next[g] = num_clusters++;
      if (mate[g] >= 0) next[mate[g]] = next[g];
    }
    for (int& c : cluster_of) c = next[c];
    current = merge_groups(current, next, num_clusters);
  }
  return current;
}

}  // namespace plimsoll::partition
