#include "partition/fx/cluster_graph.h"

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <utility>

#include "core/check.h"
#include "partition/fx/working_parts.h"

namespace plimsoll::partition {
namespace {

std::vector<int> unite_sorted(const std::vector<int>& a, const std::vector<int>& b) {
  std::vector<int> both;
  both.reserve(a.size() + b.size());
  std::set_union(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(both));
  return both;
}

}  // namespace

bool is_costed(const Graph& graph, const PartitionerConfig& config) {
  if (!validate(config, graph)) return false;
  const auto& latencies = config.node_to_latency_mapping;
  for (int node = 0; node < graph.num_nodes(); ++node) {
    if (!graph.is_operator(node)) continue;
    if (node >= graph.num_sized || latencies.empty() || !latencies[node]) return false;
    const std::vector<int>& inputs = graph.nodes[node].inputs;
    if (!(config.transfer_rate_bytes_per_sec > 0) &&
        std::any_of(inputs.begin(), inputs.end(), [&](int i) { return graph.is_operator(i); })) {
      return false;
    }
  }
  return true;
}

ClusterGraph::ClusterGraph(const Graph& graph, const PartitionerConfig& config)
    : graph_(graph),
      config_(config),
      owner_(graph.nodes.size(), kNone),
      sums_(graph.nodes.size()),
      seen_(graph.num_nodes()) {
  PLIMSOLL_DCHECK(
      is_costed(graph, config),
      "the configuration is valid, every operator has a size and a latency, values a rate");
  for (int node = 0; node < graph.num_nodes(); ++node) {
    if (!graph.is_operator(node)) continue;
    owner_[node] = static_cast<int>(list_.size());
    list_.push_back(owner_[node]);
  }
  const std::size_t max_numbers = 2 * list_.size();
  clusters_.reserve(max_numbers);
  clusters_.resize(list_.size());
  below_.resize(max_numbers);
  above_.resize(max_numbers);
  place_in_order_.resize(max_numbers);
  in_.resize(max_numbers);
  out_.resize(max_numbers);
  counted_.resize(max_numbers);
  for (int node = 0; node < graph.num_nodes(); ++node) {
    const int number = owner_[node];
    if (number == kNone) continue;
    Cluster& cluster = clusters_[number];
    cluster.operators = {node};
    for (const int input : graph.nodes[node].inputs) {
      if (graph.is_source(input)) insert_sorted(cluster.sources, input);
    }
    cluster.used = used_bytes(graph, unite_sorted(cluster.sources, cluster.operators), seen_);
    const NodeLatency& latency = *config.node_to_latency_mapping[node];
    cluster.latency = std::max(latency.computer_latency_sec, latency.mem_latency_sec);
    collect_links(cluster, number, number);
    cluster.parents = take_links(in_);
    cluster.children = take_links(out_);
  }
  update_order();
}

// Puts the links of a cluster, or of the union of clusters a and b, into `in_` and `out_`.
void ClusterGraph::collect_links(const Cluster& cluster, int a, int b) {
  for (const int number : linked_) in_[number] = out_[number] = Link{};
  linked_.clear();
  const auto open_link = [this](std::vector<Link>& links, int other) -> Link& {
    if (in_[other].other == kNone && out_[other].other == kNone) linked_.push_back(other);
    links[other].other = other;
    return links[other];
  };
  const auto is_first = [this](int other) {
    return std::exchange(counted_[other], num_counted_) != num_counted_;
  };
  const auto is_other = [&](int number) { return number != kNone && number != a && number != b; };
  seen_.clear();
  for (const int node : cluster.operators) {
    ++num_counted_;
    for (const int input : graph_.nodes[node].inputs) {
      const int other = owner_[input];
      if (!is_other(other)) continue;
      Link& link = open_link(in_, other);
      link.carried += graph_.nodes[input].size.output;
      if (seen_.insert(input)) link.sent += graph_.nodes[input].size.output;
    }
    for (const int user : graph_.users[node]) {
      const int other = owner_[user];
      if (!is_other(other)) continue;
      Link& link = open_link(out_, other);
      link.carried += graph_.nodes[node].size.output;
      if (is_first(other)) link.sent += graph_.nodes[node].size.output;
    }
  }
  if (linked_.empty()) return;
  for (const int source : cluster.sources) {
    ++num_counted_;
    for (const int user : graph_.users[source]) {
      const int other = owner_[user];
      if (!is_other(other) || !is_first(other)) continue;
      for (Link* link : {&in_[other], &out_[other]}) {
        if (link->other != kNone) link->sent += graph_.nodes[source].size.output;
      }
    }
  }
}

std::vector<ClusterGraph::Link> ClusterGraph::take_links(const std::vector<Link>& found) const {
  std::vector<Link> links;
  for (const int number : linked_) {
    if (found[number].other == kNone) continue;
    links.push_back(found[number]);
    links.back().transfer = transfer_time(found[number]);
  }
  return links;
}

void ClusterGraph::update_order() {
  std::vector<int> open(clusters_.size());  // parents that are not yet in the order
  order_.clear();
  for (const int number : list_) {
    open[number] = static_cast<int>(clusters_[number].parents.size());
    clusters_[number].level = 0;
    if (open[number] == 0) order_.push_back(number);
  }
  for (std::size_t i = 0; i < order_.size(); ++i) {
    const int level = clusters_[order_[i]].level;
    for (const Link& link : clusters_[order_[i]].children) {
      clusters_[link.other].level = std::max(clusters_[link.other].level, level + 1);
      if (--open[link.other] == 0) order_.push_back(link.other);
    }
  }
  for (std::size_t place = 0; place < order_.size(); ++place) {
    place_in_order_[order_[place]] = static_cast<int>(place);
  }
  for (const int number : order_) {
    collect(clusters_[number].parents, above_, above_[number]);
  }
  for (auto number = order_.rbegin(); number != order_.rend(); ++number) {
    collect(clusters_[*number].children, below_, below_[*number]);
  }
}

// Those at the other ends, and all that `sets` holds of them.
void ClusterGraph::collect(const std::vector<Link>& links, const std::vector<Set>& sets,
                           Set& set) const {
  set.assign(order_.size() / 64 + 1, 0);
  for (const Link& link : links) {
    const Set& others = sets[link.other];
    for (std::size_t word = 0; word < set.size(); ++word) set[word] |= others[word];
    const auto place = static_cast<std::size_t>(place_in_order_[link.other]);
    set[place / 64] |= std::uint64_t{1} << (place % 64);
  }
}

bool ClusterGraph::is_adjacent(int a, int b) const {
  const auto has_edge = [this](int from, int to) {
    const auto& children = clusters_[from].children;
    return std::any_of(children.begin(), children.end(),
                       [to](const Link& link) { return link.other == to; });
  };
  return has_edge(a, b) || has_edge(b, a);
}

// Is there a way from one to the other through a third?
bool ClusterGraph::closes_cycle(int a, int b) const {
  const auto has_detour = [this](int from, int to) {
    const auto& children = clusters_[from].children;
    return std::any_of(children.begin(), children.end(), [&](const Link& link) {
      return link.other != to && is_in(below_[link.other], place_in_order_[to]);
    });
  };
  return has_detour(a, b) || has_detour(b, a);
}

// A way through a third cluster takes two levels at least.
bool ClusterGraph::may_merge(int a, int b) const {
  if (std::abs(clusters_[a].level - clusters_[b].level) <= 1) return true;
  return is_adjacent(a, b) && !closes_cycle(a, b);
}

void ClusterGraph::unite(int a, int b, Cluster& both) {
  const Cluster& first = clusters_[a];
  const Cluster& second = clusters_[b];
  both.operators.clear();
  std::merge(first.operators.begin(), first.operators.end(), second.operators.begin(),
             second.operators.end(), std::back_inserter(both.operators));
  both.sources.clear();
  std::set_union(first.sources.begin(), first.sources.end(), second.sources.begin(),
                 second.sources.end(), std::back_inserter(both.sources));
  both.used = first.used + second.used;
  for (const Link& link : first.parents) {
    if (link.other == b) both.used -= link.carried;
  }
  for (const Link& link : first.children) {
    if (link.other == b) both.used -= link.carried;
  }
  seen_.assign(first.sources);
  for (const int source : second.sources) {
    if (seen_.contains(source)) both.used -= graph_.nodes[source].size.total;
  }
  both.latency = 0;
  for (const int node : both.operators) {
    double prefix = 0;
    for (const int input : graph_.nodes[node].inputs) {
      if (owner_[input] == a || owner_[input] == b) prefix = std::max(prefix, sums_[input]);
    }
    const NodeLatency& latency = *config_.node_to_latency_mapping[node];
    sums_[node] = prefix + std::max(latency.computer_latency_sec, latency.mem_latency_sec);
    both.latency = std::max(both.latency, sums_[node]);
  }
}

ClusterGraph::Links ClusterGraph::links_of_union(const Cluster& both, int a, int b) {
  collect_links(both, a, b);
  return {in_, out_};
}

void ClusterGraph::merge(int i, int j) {
  const int a = list_[i];
  const int b = list_[j];
  const int number = static_cast<int>(clusters_.size());
  Cluster& both = clusters_.emplace_back();
  unite(a, b, both);
  collect_links(both, a, b);
  list_.erase(list_.begin() + j);
  list_.erase(list_.begin() + i);
  both.parents = take_links(in_);
  both.children = take_links(out_);
  list_.push_back(number);
  for (const int node : both.operators) owner_[node] = number;

  const auto replace = [&](std::vector<Link>& links, Link link) {
    std::erase_if(links, [&](const Link& old) { return old.other == a || old.other == b; });
    link.other = number;
    links.push_back(link);
  };
  for (const Link& link : both.parents) replace(clusters_[link.other].children, link);
  for (const Link& link : both.children) replace(clusters_[link.other].parents, link);
}

std::vector<Partition> ClusterGraph::partitions() const {
  std::vector<int> index_of(clusters_.size());
  for (std::size_t i = 0; i < list_.size(); ++i) index_of[list_[i]] = static_cast<int>(i);
  const auto indices = [&](const std::vector<Link>& links) {
    std::vector<int> list;
    for (const Link& link : links) insert_sorted(list, index_of[link.other]);
    return list;
  };
  std::vector<Partition> partitions;
  for (const int number : list_) {
    const Cluster& cluster = clusters_[number];
    Partition& partition = partitions.emplace_back();
    partition.id = index_of[number];
    partition.nodes = unite_sorted(cluster.sources, cluster.operators);
    partition.used_mem_bytes = cluster.used;
    partition.parents = indices(cluster.parents);
    partition.children = indices(cluster.children);
    partition.bfs_level = cluster.level;
  }
  return partitions;
}

}  // namespace plimsoll::partition
