#include "partition/contraction.h"

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <limits>
#include <utility>

#include "partition/working_parts.h"

namespace plimsoll::partition {
namespace {

constexpr double kNoCost = std::numeric_limits<double>::infinity();

std::vector<int> unite_sorted(const std::vector<int>& a, const std::vector<int>& b) {
  std::vector<int> both;
  both.reserve(a.size() + b.size());
  std::set_union(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(both));
  return both;
}

DeviceQueue make_queue(const DeviceTable& table) {
  std::vector<Bytes> room;
  for (const Device& device : table.devices) room.push_back(device.available_mem_bytes);
  return DeviceQueue(std::move(room));
}

}  // namespace

Contraction::Contraction(const Graph& graph, const PartitionerConfig& config)
    : graph_(graph),
      config_(config),
      table_(config.devices),
      empty_devices_(make_queue(table_)),
      owner_(graph.nodes.size(), kNone),
      sums_(graph.nodes.size()),
      seen_(graph.num_nodes()),
      prefix_(empty_devices_),
      queue_(empty_devices_),
      saved_(table_.devices.size()) {
  for (int node = 0; node < graph.num_nodes(); ++node) {
    if (!graph.is_operator(node)) continue;
    owner_[node] = num_clusters();
    list_.push_back(owner_[node]);
  }
  for (const Device& device : table_.devices) logical_ids_.push_back(device.logical_id);
  const std::size_t max_clusters = 2 * list_.size();
  clusters_.reserve(max_clusters);
  clusters_.resize(list_.size());
  below_.resize(max_clusters);
  in_.resize(max_clusters);
  out_.resize(max_clusters);
  counted_.resize(max_clusters);
  device_.resize(max_clusters);
  way_.resize(max_clusters);
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
  order_clusters();
}

// Puts the links of a cluster, or of the union of clusters a and b, into `in_` and `out_`.
void Contraction::collect_links(const Cluster& cluster, int a, int b) {
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

std::vector<Contraction::Link> Contraction::take_links(const std::vector<Link>& found) const {
  std::vector<Link> links;
  for (const int number : linked_) {
    if (found[number].other == kNone) continue;
    links.push_back(found[number]);
    links.back().transfer =
        static_cast<double>(found[number].sent) / config_.transfer_rate_bytes_per_sec;
  }
  return links;
}

void Contraction::order_clusters() {
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
  for (auto number = order_.rbegin(); number != order_.rend(); ++number) {
    auto& set = below_[*number];
    set.assign(below_.size() / 64 + 1, 0);
    for (const Link& link : clusters_[*number].children) {
      const auto& others = below_[link.other];
      for (std::size_t word = 0; word < set.size(); ++word) set[word] |= others[word];
      set[static_cast<std::size_t>(link.other) / 64] |= std::uint64_t{1} << (link.other % 64);
    }
  }
}

bool Contraction::is_allowed(int a, int b) const {
  if (std::abs(clusters_[a].level - clusters_[b].level) <= 1) return true;
  const auto has_edge = [this](int from, int to) {
    const auto& children = clusters_[from].children;
    return std::any_of(children.begin(), children.end(),
                       [to](const Link& link) { return link.other == to; });
  };
  return has_edge(a, b) || has_edge(b, a);
}

// Is there a way from one to the other through a third?
bool Contraction::closes_cycle(int a, int b) const {
  const auto has_detour = [this](int from, int to) {
    const auto& children = clusters_[from].children;
    return std::any_of(children.begin(), children.end(), [&](const Link& link) {
      return link.other != to && is_in(below_[link.other], to);
    });
  };
  return has_detour(a, b) || has_detour(b, a);
}

// All but the links.
void Contraction::unite(int a, int b, Cluster& both) {
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

// Adds what the devices of these parents hold already to `saved_`.
void Contraction::charge(const std::vector<Link>& parents) {
  for (const Link& link : parents) {
    if (device_[link.other] != kNone) saved_[device_[link.other]] += link.carried;
  }
}

// The first device with more room than needed, which then has it no more; kNone if there is none.
int Contraction::find_device(Bytes used, DeviceQueue& queue) {
  const auto order = queue.order();
  const auto found = std::find_if(order.begin(), order.end(), [&](int device) {
    return used - saved_[device] < queue.left(device);
  });
  if (found == order.end()) return kNone;
  const int device = *found;
  queue.take(device, used - saved_[device]);
  return device;
}

// False where no device has room.
bool Contraction::place(int number, DeviceQueue& queue) {
  std::fill(saved_.begin(), saved_.end(), 0);
  charge(clusters_[number].parents);
  device_[number] = find_device(clusters_[number].used, queue);
  return device_[number] != kNone;
}

// Those of the clusters from a place of the list on.
void Contraction::forget_devices(int first) {
  for (auto number = list_.begin() + first; number != list_.end(); ++number) {
    device_[*number] = kNone;
  }
}

// Nothing between clusters on devices of one logical id.
double Contraction::transfer_time(int r, int s, double seconds) const {
  const bool is_together = device_[r] != kNone && device_[s] != kNone &&
                           logical_ids_[device_[r]] == logical_ids_[device_[s]];
  return is_together ? 0.0 : seconds;
}

// The longest path to cluster s, its own latency left out; a and b stand for their union.
double Contraction::way_to(const Cluster& cluster, int s, int a, int b) const {
  const int both = static_cast<int>(clusters_.size());
  const auto seconds = [this](const Link& link) {
    return static_cast<double>(link.sent) / config_.transfer_rate_bytes_per_sec;
  };
  double prefix = 0;
  for (const Link& link : cluster.parents) {
    const int r = link.other;
    if (r == a || r == b) {
      if (s == both) continue;
      prefix = std::max(prefix, way_[both] + transfer_time(both, s, seconds(out_[s])));
    } else {
      const double time = s == both ? seconds(in_[r]) : link.transfer;
      prefix = std::max(prefix, way_[r] + transfer_time(r, s, time));
    }
  }
  return prefix;
}

// Under the devices in `device_`. Clusters that do not come after a or b, the union, the others.
double Contraction::longest_way(int a, int b, double limit) {
  double longest = 0;
  const auto visit = [&](int number) {
    const Cluster& cluster = clusters_[number];
    way_[number] = way_to(cluster, number, a, b) + cluster.latency;
    longest = std::max(longest, way_[number]);
  };
  if (a == kNone) {
    for (const int number : order_) visit(number);
    return longest;
  }
  after_ = below_[a];
  for (std::size_t word = 0; word < after_.size(); ++word) after_[word] |= below_[b][word];
  const auto comes_after = [&](int number) { return is_in(after_, number); };
  const auto is_merged = [&](int number) { return number == a || number == b; };
  for (const int number : order_) {
    if (!is_merged(number) && !comes_after(number)) visit(number);
  }
  const int both = static_cast<int>(clusters_.size());
  const double prefix =
      std::max(way_to(clusters_[a], both, a, b), way_to(clusters_[b], both, a, b));
  way_[both] = prefix + trial_.latency;
  longest = std::max(longest, way_[both]);
  if (longest > limit) return kNoCost;
  for (const int number : order_) {
    if (!is_merged(number) && comes_after(number)) visit(number);
  }
  return longest;
}

double Contraction::critical_path() {
  for (const int number : list_) device_[number] = clusters_[number].device;
  return longest_way(kNone, kNone, kNoCost);
}

// The critical path after the merge; infinite where it may not be, or is longer than `limit`. What
// stands before place j, cluster i left out, is mapped already.
double Contraction::try_merge(int i, int j, double limit) {
  const int a = list_[i];
  const int b = list_[j];
  if (!is_allowed(a, b) || closes_cycle(a, b)) return kNoCost;
  unite(a, b, trial_);
  if (trial_.latency > limit) return kNoCost;

  queue_ = prefix_;
  forget_devices(j);
  for (auto number = list_.begin() + j + 1; number != list_.end(); ++number) {
    if (!place(*number, queue_)) return kNoCost;
  }
  std::fill(saved_.begin(), saved_.end(), 0);
  charge(clusters_[a].parents);
  charge(clusters_[b].parents);
  const std::size_t both = clusters_.size();
  device_[both] = find_device(trial_.used, queue_);
  if (device_[both] == kNone) return kNoCost;

  collect_links(trial_, a, b);
  return longest_way(a, b, limit);
}

std::optional<std::pair<int, int>> Contraction::find_best_merge() {
  double cost = critical_path();
  std::optional<std::pair<int, int>> best;
  const int n = num_clusters();
  for (int i = 0; i < n; ++i) {
    prefix_ = empty_devices_;
    forget_devices(0);
    bool has_room = true;
    for (int j = 0; j < n && has_room; ++j) {
      if (j == i) continue;
      if (j > i) {
        const double trial = try_merge(i, j, cost);
        if (trial <= cost) {
          cost = trial;
          best = {i, j};
        }
        forget_devices(j);
      }
      has_room = place(list_[j], prefix_);
    }
  }
  return best;
}

void Contraction::merge(int i, int j) {
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

void Contraction::settle() {
  order_clusters();
  queue_ = empty_devices_;
  forget_devices(0);
  for (const int number : list_) {
    if (!place(number, queue_)) break;
  }
  for (const int number : list_) clusters_[number].device = device_[number];
}

std::vector<Partition> Contraction::partitions() const {
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
    if (cluster.device != kNone) {
      partition.logical_device_ids = {table_.devices[cluster.device].logical_id};
    }
    partition.parents = indices(cluster.parents);
    partition.children = indices(cluster.children);
    partition.bfs_level = cluster.level;
  }
  return partitions;
}

}  // namespace plimsoll::partition
