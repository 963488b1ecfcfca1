#include "partition/graph/group_graph.h"

#include <algorithm>
#include <map>
#include <queue>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "core/check.h"

namespace plimsoll::partition {
namespace {

void sort_and_deduplicate(std::vector<int>& list) {
  std::sort(list.begin(), list.end());
  list.erase(std::unique(list.begin(), list.end()), list.end());
}

// Successors of each set, by root; without loops.
std::vector<std::vector<int>> successors_of_sets(const std::vector<std::pair<int, int>>& order,
                                                 DisjointSets& sets, int num_nodes) {
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
void unite_circles(const std::vector<std::vector<int>>& successors, DisjointSets& sets) {
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

// What a device can move in a ms at best: whatever it moves, it moves to or from another device.
double fastest_rate(const CostGraph& graph, int device) {
  const double link_rate = graph.classes[graph.class_of(device)].link_rate;
  double fastest = 0;
  for (int other = 0; other < static_cast<int>(graph.pair_rates.size()); ++other) {
    if (other != device) fastest = std::max(fastest, graph.pair_rates[device][other]);
  }
  return fastest > 0 ? std::min(fastest, link_rate) : link_rate;
}

// Devices are alike where class, rate and permissions of all sets agree.
std::vector<DeviceKind> find_kinds(const CostGraph& graph) {
  std::map<std::tuple<int, double, std::vector<int>>, int> index;
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
    const double rate = fastest_rate(graph, d);
    const auto [place, is_new] =
        index.try_emplace({c, rate, barred[d]}, static_cast<int>(kinds.size()));
    if (is_new) kinds.push_back({c, {}, graph.classes[c].memory_cap, rate});
    kinds[place->second].devices.push_back(d);
  }
  return kinds;
}

// Numbers the sets by Kahn's algorithm, the smallest root first.
std::vector<int> topological_roots(const std::vector<std::vector<int>>& successors,
                                   DisjointSets& sets) {
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

// Adds up nets with the same groups.
class NetMerger {
 public:
  void add(std::vector<int> pins, int producer, double amount) {
    sort_and_deduplicate(pins);
    if (pins.size() > 1 && amount > 0) nets_.push_back({std::move(pins), amount, producer});
  }
  // In order of groups and producer; amounts are added in the order they came in.
  std::vector<GroupNet> take() && {
    const auto key = [](const GroupNet& net) { return std::tie(net.groups, net.producer); };
    std::stable_sort(nets_.begin(), nets_.end(),
                     [&](const GroupNet& a, const GroupNet& b) { return key(a) < key(b); });
    std::vector<GroupNet> merged;
    merged.reserve(nets_.size());
    for (GroupNet& net : nets_) {
      if (!merged.empty() && key(merged.back()) == key(net)) {
        merged.back().amount += net.amount;
      } else {
        merged.push_back(std::move(net));
      }
    }
    return merged;
  }

 private:
  std::vector<GroupNet> nets_;
};

// Adds up weights with the same readers; a single reader's become its memory.
class WeightMerger {
 public:
  void add(std::vector<int> readers, Bytes bytes, std::vector<Bytes>& memory) {
    sort_and_deduplicate(readers);
    if (readers.size() == 1) memory[readers.front()] += bytes;
    if (readers.size() > 1 && bytes > 0) bytes_of_[std::move(readers)] += bytes;
  }
  std::vector<GroupWeight> take() const {
    std::vector<GroupWeight> weights;
    for (const auto& [readers, bytes] : bytes_of_) weights.push_back({readers, bytes});
    return weights;
  }

 private:
  std::map<std::vector<int>, Bytes> bytes_of_;
};

void tie_colours(const CostGraph& graph, DisjointSets& sets) {
  std::unordered_map<std::int64_t, int> first_of_colour;
  for (int node = 0; node < graph.num_nodes(); ++node) {
    if (!graph.nodes[node].colour) continue;
    sets.unite(node, first_of_colour.try_emplace(*graph.nodes[node].colour, node).first->second);
  }
}

// One group for each of `roots`, in that order; all that does not depend on what orders them.
GroupGraph build_groups(const CostGraph& graph, std::vector<DeviceKind> kinds,
                        const std::vector<int>& roots, DisjointSets& sets) {
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
  NetMerger nets;
  for (const Net& net : graph.nets) {
    std::vector<int> pins;
    pins.reserve(net.consumers.size() + 1);
    pins.push_back(group_of[net.producer]);
    for (const int consumer : net.consumers) pins.push_back(group_of[consumer]);
    nets.add(std::move(pins), graph.pair_rates.empty() ? -1 : group_of[net.producer], net.amount);
  }
  groups.nets = std::move(nets).take();
  WeightMerger weights;
  for (const Weight& weight : graph.weights) {
    std::vector<int> readers;
    for (const int reader : weight.readers) readers.push_back(group_of[reader]);
    weights.add(std::move(readers), weight.bytes, groups.memory);
  }
  groups.weights = weights.take();
  return groups;
}

template <class Hyperedge>
std::vector<std::vector<int>> incidence(const GroupGraph& groups,
                                        const std::vector<Hyperedge>& edges) {
  std::vector<std::vector<int>> edges_of(groups.nodes.size());
  for (std::size_t e = 0; e < edges.size(); ++e) {
    for (const int g : edges[e].groups) edges_of[g].push_back(static_cast<int>(e));
  }
  return edges_of;
}

struct OrderedSets {
  std::vector<std::vector<int>> successors;  // by root
  std::vector<int> roots;                    // topological order
};

// Sets of which each waits for the other become one.
OrderedSets order_sets(const std::vector<std::pair<int, int>>& order, int num_nodes,
                       DisjointSets& sets) {
  unite_circles(successors_of_sets(order, sets, num_nodes), sets);
  OrderedSets ordered{successors_of_sets(order, sets, num_nodes), {}};
  ordered.roots = topological_roots(ordered.successors, sets);
  return ordered;
}

}  // namespace

GroupGraph make_groups_of_sets(const CostGraph& graph,
                               const std::vector<std::pair<int, int>>& order,
                               std::vector<DeviceKind> kinds, DisjointSets& sets) {
  const auto [by_root, roots] = order_sets(order, graph.num_nodes(), sets);
  GroupGraph groups = build_groups(graph, std::move(kinds), roots, sets);
  std::vector<int> group_of_root(graph.nodes.size(), -1);
  for (std::size_t g = 0; g < roots.size(); ++g) group_of_root[roots[g]] = static_cast<int>(g);
  for (std::size_t g = 0; g < roots.size(); ++g) {
    for (const int next : by_root[roots[g]]) {
      groups.successors[g].push_back(group_of_root[next]);
      groups.predecessors[group_of_root[next]].push_back(static_cast<int>(g));
    }
    std::sort(groups.successors[g].begin(), groups.successors[g].end());
  }
  return groups;
}

GroupGraph make_groups(const CostGraph& graph) {
  PLIMSOLL_DCHECK(validate(graph).has_value(), "the graph is valid");
  DisjointSets sets(graph.num_nodes());
  tie_colours(graph, sets);
  return make_groups_of_sets(graph, pipeline_order(graph), find_kinds(graph), sets);
}

GroupGraph make_colour_groups(const CostGraph& graph) {
  DisjointSets colours(graph.num_nodes());
  tie_colours(graph, colours);
  DisjointSets sets = colours;
  const OrderedSets ordered = order_sets(pipeline_order(graph), graph.num_nodes(), sets);
  std::vector<std::vector<int>> colours_of(graph.nodes.size());  // by root of the set
  for (int node = 0; node < graph.num_nodes(); ++node) {
    if (colours.find(node) == node) colours_of[sets.find(node)].push_back(node);
  }
  std::vector<int> roots;
  for (const int root : ordered.roots) {
    roots.insert(roots.end(), colours_of[root].begin(), colours_of[root].end());
  }
  return build_groups(graph, find_kinds(graph), roots, colours);
}

GroupGraph merge_groups(const GroupGraph& groups, const std::vector<int>& cluster_of,
                        int num_clusters) {
  const auto size = static_cast<std::size_t>(num_clusters);
  GroupGraph merged;
  merged.kinds = groups.kinds;
  merged.nodes.resize(size);
  merged.time_ms.assign(groups.kinds.size(), std::vector<double>(size));
  merged.memory.resize(size);
  merged.predecessors.resize(size);
  merged.successors.resize(size);
  for (int g = 0; g < groups.num_groups(); ++g) {
    const int c = cluster_of[g];
    merged.nodes[c].insert(merged.nodes[c].end(), groups.nodes[g].begin(), groups.nodes[g].end());
    merged.memory[c] += groups.memory[g];
    for (std::size_t k = 0; k < groups.kinds.size(); ++k) {
      merged.time_ms[k][c] += groups.time_ms[k][g];
    }
    for (const int next : groups.successors[g]) {
      if (cluster_of[next] == c) continue;
      merged.successors[c].push_back(cluster_of[next]);
      merged.predecessors[cluster_of[next]].push_back(c);
    }
  }
  for (auto* lists : {&merged.nodes, &merged.predecessors, &merged.successors}) {
    for (auto& list : *lists) sort_and_deduplicate(list);
  }
  NetMerger nets;
  for (const GroupNet& net : groups.nets) {
    std::vector<int> pins;
    for (const int g : net.groups) pins.push_back(cluster_of[g]);
    nets.add(std::move(pins), net.producer < 0 ? -1 : cluster_of[net.producer], net.amount);
  }
  merged.nets = std::move(nets).take();
  WeightMerger weights;
  for (const GroupWeight& weight : groups.weights) {
    std::vector<int> readers;
    for (const int g : weight.groups) readers.push_back(cluster_of[g]);
    weights.add(std::move(readers), weight.bytes, merged.memory);
  }
  merged.weights = weights.take();
  return merged;
}

std::vector<std::vector<int>> nets_of_groups(const GroupGraph& groups) {
  return incidence(groups, groups.nets);
}

std::vector<std::vector<int>> weights_of_groups(const GroupGraph& groups) {
  return incidence(groups, groups.weights);
}

}  // namespace plimsoll::partition
