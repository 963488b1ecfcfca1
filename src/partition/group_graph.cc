#include "partition/group_graph.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <queue>
#include <unordered_map>

namespace plimsoll::partition {
namespace {

// Union-find; the root of a set is its smallest element.
class Sets {
 public:
  explicit Sets(int size) : parent_(static_cast<std::size_t>(size)) {
    std::iota(parent_.begin(), parent_.end(), 0);
  }
  int find(int x) {
    while (parent_[x] != x) x = parent_[x] = parent_[parent_[x]];
    return x;
  }
  void unite(int a, int b) {
    a = find(a);
    b = find(b);
    if (a != b) parent_[std::max(a, b)] = std::min(a, b);
  }

 private:
  std::vector<int> parent_;
};

void sort_and_deduplicate(std::vector<int>& list) {
  std::sort(list.begin(), list.end());
  list.erase(std::unique(list.begin(), list.end()), list.end());
}

// Successors of each set, by root; without loops.
std::vector<std::vector<int>> successors_of_sets(const std::vector<std::pair<int, int>>& order,
                                                 Sets& sets, int num_nodes) {
  std::vector<std::vector<int>> successors(static_cast<std::size_t>(num_nodes));
  for (const auto& [before, after] : order) {
    const int a = sets.find(before);
    const int b = sets.find(after);
    if (a != b) successors[a].push_back(b);
  }
  for (auto& list : successors) sort_and_deduplicate(list);
  return successors;
}

// Tarjan's strongly connected components, without recursion.
void unite_circles(const std::vector<std::vector<int>>& successors, Sets& sets) {
  const int num_nodes = static_cast<int>(successors.size());
  std::vector<int> number(successors.size(), -1);
  std::vector<int> low(successors.size());
  std::vector<char> is_open(successors.size());
  std::vector<int> open;
  std::vector<std::pair<int, std::size_t>> path;  // node, next successor
  int count = 0;
  for (int start = 0; start < num_nodes; ++start) {
    if (number[start] >= 0) continue;
    path.emplace_back(start, 0);
    while (!path.empty()) {
      const int node = path.back().first;
      if (path.back().second == 0) {
        number[node] = low[node] = count++;
        open.push_back(node);
        is_open[node] = 1;
      }
      if (path.back().second < successors[node].size()) {
        const int next = successors[node][path.back().second++];
        if (number[next] < 0) {
          path.emplace_back(next, 0);
        } else if (is_open[next] != 0) {
          low[node] = std::min(low[node], number[next]);
        }
        continue;
      }
      path.pop_back();
      if (!path.empty()) low[path.back().first] = std::min(low[path.back().first], low[node]);
      if (low[node] != number[node]) continue;
      for (int member = -1; member != node;) {
        member = open.back();
        open.pop_back();
        is_open[member] = 0;
        sets.unite(node, member);
      }
    }
  }
}

// Devices are alike where class and permissions of all sets agree.
std::vector<DeviceKind> find_kinds(const CostGraph& graph) {
  std::map<std::pair<int, std::vector<int>>, int> index;
  std::vector<std::vector<int>> barred(static_cast<std::size_t>(graph.num_devices()));
  for (int node = 0; node < graph.num_nodes(); ++node) {
    const CostNode& n = graph.nodes[node];
    if (n.pinned_device) {
      for (int d = 0; d < graph.num_devices(); ++d) {
        if (d != *n.pinned_device) barred[d].push_back(node);
      }
    }
    for (const int d : n.forbidden_devices) barred[d].push_back(node);
  }
  std::vector<DeviceKind> kinds;
  for (int d = 0; d < graph.num_devices(); ++d) {
    const int c = graph.class_of(d);
    sort_and_deduplicate(barred[d]);
    const auto [place, is_new] = index.try_emplace({c, barred[d]}, static_cast<int>(kinds.size()));
    if (is_new) kinds.push_back({c, {}, graph.classes[c].memory_cap, graph.classes[c].link_rate});
    kinds[place->second].devices.push_back(d);
  }
  return kinds;
}

// Numbers the sets by Kahn's algorithm, the smallest root first.
std::vector<int> topological_roots(const std::vector<std::vector<int>>& successors, Sets& sets) {
  std::vector<int> missing(successors.size());
  for (const auto& list : successors) {
    for (const int next : list) ++missing[next];
  }
  std::priority_queue<int, std::vector<int>, std::greater<>> ready;
  for (int node = 0; node < static_cast<int>(successors.size()); ++node) {
    if (sets.find(node) == node && missing[node] == 0) ready.push(node);
  }
  std::vector<int> roots;
  while (!ready.empty()) {
    roots.push_back(ready.top());
    ready.pop();
    for (const int next : successors[roots.back()]) {
      if (--missing[next] == 0) ready.push(next);
    }
  }
  return roots;
}

GroupGraph build(const CostGraph& graph, const std::vector<std::pair<int, int>>& order,
                 std::vector<DeviceKind> kinds, Sets& sets) {
  unite_circles(successors_of_sets(order, sets, graph.num_nodes()), sets);
  const auto by_root = successors_of_sets(order, sets, graph.num_nodes());
  const std::vector<int> roots = topological_roots(by_root, sets);
  std::vector<int> group_of_root(graph.nodes.size(), -1);
  for (std::size_t g = 0; g < roots.size(); ++g) group_of_root[roots[g]] = static_cast<int>(g);

  GroupGraph groups;
  groups.kinds = std::move(kinds);
  groups.nodes.resize(roots.size());
  groups.memory.resize(roots.size());
  groups.predecessors.resize(roots.size());
  groups.successors.resize(roots.size());
  std::vector<int> group_of(graph.nodes.size());
  for (int node = 0; node < graph.num_nodes(); ++node) {
    group_of[node] = group_of_root[sets.find(node)];
    groups.nodes[group_of[node]].push_back(node);
    groups.memory[group_of[node]] += graph.nodes[node].memory;
  }
  for (const DeviceKind& kind : groups.kinds) {
    auto& times = groups.time_ms.emplace_back(roots.size());
    for (int node = 0; node < graph.num_nodes(); ++node) {
      times[group_of[node]] += graph.is_allowed(node, kind.devices.front())
                                   ? graph.nodes[node].time_ms[kind.device_class]
                                   : kUnlimited;
    }
  }
  for (std::size_t g = 0; g < roots.size(); ++g) {
    for (const int next : by_root[roots[g]]) {
      groups.successors[g].push_back(group_of_root[next]);
      groups.predecessors[group_of_root[next]].push_back(static_cast<int>(g));
    }
    std::sort(groups.successors[g].begin(), groups.successors[g].end());
  }
  std::map<std::vector<int>, double> nets;
  for (const Net& net : graph.nets) {
    std::vector<int> pins = {group_of[net.producer]};
    for (const int consumer : net.consumers) pins.push_back(group_of[consumer]);
    sort_and_deduplicate(pins);
    if (pins.size() > 1 && net.amount > 0) nets[pins] += net.amount;
  }
  for (auto& [pins, amount] : nets) groups.nets.push_back({pins, amount});
  return groups;
}

bool everything_fits_anywhere(const GroupGraph& groups) {
  const Bytes total = std::accumulate(groups.memory.begin(), groups.memory.end(), Bytes{0});
  return std::all_of(groups.kinds.begin(), groups.kinds.end(), [&](const DeviceKind& kind) {
    return !kind.memory_cap || *kind.memory_cap >= total;
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

GroupGraph make_groups(const CostGraph& graph) {
  Sets sets(graph.num_nodes());
  std::unordered_map<std::int64_t, int> first_of_colour;
  for (int node = 0; node < graph.num_nodes(); ++node) {
    if (!graph.nodes[node].colour) continue;
    sets.unite(node, first_of_colour.try_emplace(*graph.nodes[node].colour, node).first->second);
  }
  return build(graph, pipeline_order(graph), find_kinds(graph), sets);
}

GroupGraph absorb_groups(const CostGraph& graph, const GroupGraph& groups) {
  const std::vector<std::pair<int, int>> order = pipeline_order(graph);
  const bool is_memory_free = everything_fits_anywhere(groups);
  GroupGraph current = groups;
  for (bool has_changed = true; has_changed;) {
    has_changed = false;
    std::vector<std::vector<int>> nets_of(current.nodes.size());
    for (std::size_t n = 0; n < current.nets.size(); ++n) {
      for (const int g : current.nets[n].groups) nets_of[g].push_back(static_cast<int>(n));
    }
    Sets sets(graph.num_nodes());
    for (const auto& nodes : current.nodes) {
      for (const int node : nodes) sets.unite(node, nodes.front());
    }
    // All tests of a round are made for the groups as they were. Their merges form a forest, since
    // on a longer circle of a graph without circles some group has two successors; so from its
    // roots on, each group is still itself when it is absorbed, into one that has only grown.
    for (int g = 0; g < current.num_groups(); ++g) {
      if (current.memory[g] > 0 && !is_memory_free) continue;
      for (const auto* neighbours : {&current.successors[g], &current.predecessors[g]}) {
        if (neighbours->size() != 1) continue;
        const int h = neighbours->front();
        if (!may_absorb(current, nets_of, g, h)) continue;
        sets.unite(current.nodes[g].front(), current.nodes[h].front());
        has_changed = true;
        break;
      }
    }
    if (has_changed) current = build(graph, order, std::move(current.kinds), sets);
  }
  return current;
}

}  // namespace plimsoll::partition
