#include "check/partition/placement_claims.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <set>

#include "check/partition/placement_order.h"
#include "core/check.h"
#include "plimsoll/check/critical_path_check.h"
#include "plimsoll/check/latency_check.h"
#include "plimsoll/check/placement_check.h"
#include "plimsoll/core/numbers.h"
#include "plimsoll/core/units.h"

namespace plimsoll::check {
namespace {

using partition::CostGraph;
using partition::DeviceAssignment;
using partition::Net;

// Nodes that share a device, and the devices that may run all of them.
struct Group {
  std::vector<int> nodes;
  std::vector<int> devices;
  double least_ms = kInfinity;
};

std::vector<Group> find_groups(const CostGraph& graph) {
  std::map<std::int64_t, std::size_t> of_colour;
  std::vector<Group> groups;
  for (int node = 0; node < graph.num_nodes(); ++node) {
    const auto& colour = graph.nodes[node].colour;
    std::size_t group = groups.size();
    if (colour) group = of_colour.emplace(*colour, group).first->second;
    if (group == groups.size()) groups.emplace_back();
    groups[group].nodes.push_back(node);
  }
  for (Group& group : groups) {
    for (int device = 0; device < graph.num_devices(); ++device) {
      const bool is_allowed = std::all_of(group.nodes.begin(), group.nodes.end(),
                                          [&](int node) { return graph.is_allowed(node, device); });
      if (!is_allowed) continue;
      group.devices.push_back(device);
      double ms = 0;
      for (const int node : group.nodes) ms += graph.nodes[node].time_ms[graph.class_of(device)];
      group.least_ms = std::min(group.least_ms, ms);
    }
  }
  return groups;
}

// Nodes and ends of nets.
std::int64_t size_of(const CostGraph& graph) {
  auto size = static_cast<std::int64_t>(graph.nodes.size());
  for (const Net& net : graph.nets) size += 1 + static_cast<std::int64_t>(net.consumers.size());
  return size;
}

// Devices that no rule tells apart, by the first of them.
std::vector<int> find_twins(const CostGraph& graph) {
  std::vector<int> twin(static_cast<std::size_t>(graph.num_devices()));
  std::vector<bool> is_named(twin.size(), !graph.pair_rates.empty());
  for (const partition::CostNode& node : graph.nodes) {
    if (node.pinned_device) is_named[*node.pinned_device] = true;
    for (const int device : node.forbidden_devices) is_named[device] = true;
  }
  for (int d = 0; d < graph.num_devices(); ++d) {
    twin[d] = d;
    for (int before = 0; before < d && !is_named[d]; ++before) {
      if (is_named[before] || graph.class_of(before) != graph.class_of(d)) continue;
      twin[d] = before;
      break;
    }
  }
  return twin;
}

// Loads of what is placed so far: no placement of all has less.
class PartialLoads {
 public:
  explicit PartialLoads(const CostGraph& graph)
      : graph_(graph),
        load_(graph.num_devices(), 0),
        memory_(graph.num_devices(), 0),
        nets_of_(graph.nodes.size()),
        weights_of_(graph.nodes.size()),
        held_(graph.nets.size(), std::vector<int>(graph.num_devices(), 0)),
        read_(graph.weights.size(), std::vector<int>(graph.num_devices(), 0)) {
    for (std::size_t k = 0; k < graph.nets.size(); ++k) {
      nets_of_[graph.nets[k].producer].push_back(k);
      for (const int reader : graph.nets[k].consumers) nets_of_[reader].push_back(k);
    }
    for (std::size_t w = 0; w < graph.weights.size(); ++w) {
      for (const int reader : graph.weights[w].readers) weights_of_[reader].push_back(w);
    }
  }

  void put(const Group& group, int device) {
    for (const int node : group.nodes) {
      load_[device] += graph_.nodes[node].time_ms[graph_.class_of(device)];
      memory_[device] += graph_.nodes[node].memory;
      for (const std::size_t k : nets_of_[node]) {
        if (held_[k][device]++ == 0) charge(k, device, 1);
      }
      for (const std::size_t w : weights_of_[node]) {
        if (read_[w][device]++ == 0) memory_[device] += graph_.weights[w].bytes;
      }
    }
  }

  void take(const Group& group, int device) {
    for (const int node : group.nodes) {
      load_[device] -= graph_.nodes[node].time_ms[graph_.class_of(device)];
      memory_[device] -= graph_.nodes[node].memory;
      for (const std::size_t k : nets_of_[node]) {
        if (--held_[k][device] == 0) charge(k, device, -1);
      }
      for (const std::size_t w : weights_of_[node]) {
        if (--read_[w][device] == 0) memory_[device] -= graph_.weights[w].bytes;
      }
    }
  }

  double highest() const { return *std::max_element(load_.begin(), load_.end()); }
  bool fits(int device) const {
    const auto& cap = graph_.classes[graph_.class_of(device)].memory_cap;
    return !cap || memory_[device] <= *cap;
  }

 private:
  // A holder comes or goes: it pays where there are others, and so does the only other.
  void charge(std::size_t net, int device, int sign) {
    int others = 0, other = -1;
    for (int d = 0; d < static_cast<int>(load_.size()); ++d) {
      if (d == device || held_[net][d] == 0) continue;
      ++others;
      other = d;
    }
    if (others >= 1) load_[device] += sign * ms_of(net, device);
    if (others == 1) load_[other] += sign * ms_of(net, other);
  }
  // At the device's own link: with pair rates it is no faster.
  double ms_of(std::size_t net, int device) const {
    return graph_.nets[net].amount / graph_.classes[graph_.class_of(device)].link_rate;
  }

  const CostGraph& graph_;
  std::vector<double> load_;
  std::vector<Bytes> memory_;
  std::vector<std::vector<std::size_t>> nets_of_, weights_of_;
  std::vector<std::vector<int>> held_, read_;  // nodes on each device
};

// Places group after group; `is_hopeless` says of what is placed so far that nothing below the
// limit comes of it, `value_of` what a whole placement takes, absent where it is not legal.
class AssignmentSearch {
 public:
  AssignmentSearch(const CostGraph& graph, std::vector<Group> groups)
      : groups_(std::move(groups)), twin_(find_twins(graph)), is_used_(twin_.size(), 0) {
    assignment_.device.assign(graph.nodes.size(), -1);
    steps_of_whole_ = graph.num_devices() * size_of(graph);
  }

  std::function<void(const Group&, int)> put = [](const Group&, int) {};
  std::function<void(const Group&, int)> take = put;
  std::function<bool(const DeviceAssignment&, int)> is_hopeless;  // after placing on that device
  std::function<std::optional<double>(const DeviceAssignment&)> value_of;
  std::int64_t steps_of_state = 1;  // of is_hopeless()

  SearchedBelow run(double limit) {
    limit_ = limit;
    result_.is_complete = true;
    place(0);
    return result_;
  }

 private:
  bool is_over() const { return result_.found || !result_.is_complete; }

  void place(std::size_t next) {
    if (is_over()) return;
    ++result_.num_states;
    const bool is_whole = next == groups_.size();
    num_steps_ += is_whole ? steps_of_whole_ : steps_of_state;
    if (num_steps_ > kMaxSteps) {
      result_.is_complete = false;
      return;
    }
    if (is_whole) {
      if (const auto value = value_of(assignment_); value && *value < limit_) {
        result_.found = value;
      }
      return;
    }
    const Group& group = groups_[next];
    std::vector<int> tried;  // classes of empty twins
    for (const int device : group.devices) {
      if (is_used_[device] == 0) {
        if (std::count(tried.begin(), tried.end(), twin_[device]) != 0) continue;
        tried.push_back(twin_[device]);
      }
      for (const int node : group.nodes) assignment_.device[node] = device;
      ++is_used_[device];
      put(group, device);
      if (!is_hopeless(assignment_, device)) place(next + 1);
      take(group, device);
      --is_used_[device];
      for (const int node : group.nodes) assignment_.device[node] = -1;
      if (is_over()) return;
    }
  }

  std::vector<Group> groups_;
  std::vector<int> twin_;
  std::vector<int> is_used_;  // groups on each device
  DeviceAssignment assignment_;
  double limit_ = 0;
  std::int64_t steps_of_whole_ = 1, num_steps_ = 0;
  SearchedBelow result_;
};

// No device is told from its twins.
bool has_no_rules(const CostGraph& graph) {
  return graph.pair_rates.empty() &&
         std::all_of(graph.nodes.begin(), graph.nodes.end(), [](const partition::CostNode& node) {
           return !node.pinned_device && node.forbidden_devices.empty();
         });
}

// Contiguous stages one after another, on devices that classes alone tell apart.
class ChainSearch {
 public:
  ChainSearch(const CostGraph& graph, const std::vector<Group>& groups)
      : graph_(graph), groups_(groups), group_of_(graph.nodes.size()), before_(groups.size()) {
    for (std::size_t g = 0; g < groups.size(); ++g) {
      for (const int node : groups[g].nodes) group_of_[node] = static_cast<int>(g);
    }
    for (const auto& [a, b] : placement_order(graph)) {
      if (group_of_[a] != group_of_[b]) before_[group_of_[b]].insert(group_of_[a]);
    }
  }

  SearchedBelow run(double limit) {
    limit_ = limit;
    result_.is_complete = true;
    std::vector<int> left;
    for (const auto& devices : graph_.classes) left.push_back(devices.count);
    const Done nothing(groups_.size(), false);
    reached_.emplace(State{nothing, left}, std::nullopt);
    open_.push_back({nothing, left});
    for (std::size_t k = 0; k < open_.size() && !is_over(); ++k) extend(State(open_[k]));
    return result_;
  }

 private:
  using Done = std::vector<bool>;  // [groups] closed under what comes before
  struct State {
    Done done;
    std::vector<int> left;  // devices, by class
    auto operator<=>(const State&) const = default;
  };

  bool is_over() const { return result_.found || !result_.is_complete; }

  void extend(const State& state) {
    for (std::size_t c = 0; c < graph_.classes.size(); ++c) {
      if (state.left[c] == 0) continue;
      std::set<Done> seen{state.done};
      std::vector<Done> stages{state.done};
      for (std::size_t k = 0; k < stages.size() && !is_over(); ++k) {
        const Done here = stages[k];
        for (std::size_t g = 0; g < groups_.size() && !is_over(); ++g) {
          if (here[g] || !is_ready(g, here)) continue;
          Done next = here;
          next[g] = true;
          if (!seen.insert(next).second) continue;
          ++result_.num_states;
          num_steps_ += size_of(graph_);
          if (num_steps_ > kMaxSteps) result_.is_complete = false;
          if (!may_grow(state.done, next, c)) continue;
          if (load_of(state.done, next, c) < limit_) reach(state, next, c);
          stages.push_back(std::move(next));
        }
      }
    }
  }

  bool is_ready(std::size_t group, const Done& done) const {
    return std::all_of(before_[group].begin(), before_[group].end(),
                       [&](int other) { return done[other]; });
  }

  bool is_in(int node, const Done& from, const Done& to) const {
    const int group = group_of_[node];
    return to[group] && !from[group];
  }

  // Its own work and bytes only grow with it.
  bool may_grow(const Done& from, const Done& to, std::size_t c) const {
    double ms = 0;
    Bytes memory = 0;
    for (int node = 0; node < graph_.num_nodes(); ++node) {
      if (!is_in(node, from, to)) continue;
      ms += graph_.nodes[node].time_ms[c];
      memory += graph_.nodes[node].memory;
    }
    for (const partition::Weight& weight : graph_.weights) {
      const bool is_read = std::any_of(weight.readers.begin(), weight.readers.end(),
                                       [&](int reader) { return is_in(reader, from, to); });
      if (is_read) memory += weight.bytes;
    }
    const auto& cap = graph_.classes[c].memory_cap;
    return ms < limit_ && (!cap || memory <= *cap);
  }

  double load_of(const Done& from, const Done& to, std::size_t c) const {
    double ms = 0;
    for (int node = 0; node < graph_.num_nodes(); ++node) {
      if (is_in(node, from, to)) ms += graph_.nodes[node].time_ms[c];
    }
    for (const Net& net : graph_.nets) {
      bool has_inside = is_in(net.producer, from, to), has_outside = !has_inside;
      for (const int reader : net.consumers) {
        (is_in(reader, from, to) ? has_inside : has_outside) = true;
      }
      if (has_inside && has_outside) ms += net.amount / graph_.classes[c].link_rate;
    }
    return ms;
  }

  void reach(const State& state, const Done& next, std::size_t c) {
    State after{next, state.left};
    --after.left[c];
    if (!reached_.emplace(after, state).second) return;
    if (std::all_of(next.begin(), next.end(), [](bool is_done) { return is_done; })) {
      judge(after);
    } else {
      open_.push_back(std::move(after));
    }
  }

  // The chain that led there, as a placement.
  void judge(State state) {
    DeviceAssignment assignment;
    assignment.device.assign(graph_.nodes.size(), -1);
    while (const auto from = reached_.at(state)) {
      int device = 0;
      for (std::size_t c = 0; c < graph_.classes.size(); ++c) {
        if (from->left[c] != state.left[c]) {
          device += state.left[c];
          break;
        }
        device += graph_.classes[c].count;
      }
      for (int node = 0; node < graph_.num_nodes(); ++node) {
        if (is_in(node, from->done, state.done)) assignment.device[node] = device;
      }
      state = *from;
    }
    const auto judged = check_placement(graph_, assignment, {});
    if (judged && judged->is_right() && judged->max_load < limit_) {
      result_.found = judged->max_load;
    } else {
      result_.is_complete = false;
    }
  }

  const CostGraph& graph_;
  const std::vector<Group>& groups_;
  std::vector<int> group_of_;          // [nodes]
  std::vector<std::set<int>> before_;  // [groups] that must be done before
  std::map<State, std::optional<State>> reached_;
  std::vector<State> open_;
  double limit_ = 0;
  std::int64_t num_steps_ = 0;
  SearchedBelow result_;
};

void raise_bound(double bound, const char* proof, KnownOptimum& known) {
  if (known.bound && *known.bound >= bound) return;
  known.bound = bound;
  known.proof = proof;
}

// All work on all devices, and the slowest group.
void add_work_bounds(const CostGraph& graph, const std::vector<Group>& groups,
                     KnownOptimum& known) {
  double work = 0, slowest = 0;
  for (const Group& group : groups) {
    if (std::isinf(group.least_ms)) return;
    work += group.least_ms;
    slowest = std::max(slowest, group.least_ms);
  }
  raise_bound(work / graph.num_devices(), "all work shared evenly by all devices takes as long",
              known);
  raise_bound(slowest, "one operator alone takes as long wherever it runs", known);
}

std::vector<Group> by_work(std::vector<Group> groups) {
  std::stable_sort(groups.begin(), groups.end(),
                   [](const Group& a, const Group& b) { return a.least_ms > b.least_ms; });
  return groups;
}

// Nodes in an order in which every net leads forward. The graph has no cycle.
std::vector<int> topological_order(const CostGraph& graph) {
  std::vector<int> waits(graph.nodes.size(), 0), order;
  std::vector<std::vector<int>> next(graph.nodes.size());
  for (const Net& net : graph.nets) {
    for (const int reader : net.consumers) {
      next[net.producer].push_back(reader);
      ++waits[reader];
    }
  }
  for (int node = 0; node < graph.num_nodes(); ++node) {
    if (waits[node] == 0) order.push_back(node);
  }
  for (std::size_t k = 0; k < order.size(); ++k) {
    for (const int reader : next[order[k]]) {
      if (--waits[reader] == 0) order.push_back(reader);
    }
  }
  return order;
}

// The longest path: what is placed at its device's times, with what is moved for certain, the rest
// at the least. A piece computes after it has brought in what it reads, and is done after it has
// taken out what others do.
class LongestPath {
 public:
  LongestPath(const CostGraph& graph, const std::vector<Group>& groups)
      : graph_(graph),
        order_(topological_order(graph)),
        least_(graph.nodes.size(), kInfinity),
        nets_from_(graph.nodes.size()),
        done_(graph.nodes.size(), 0) {
    for (const Group& group : groups) {
      for (const int node : group.nodes) {
        for (const int device : group.devices) {
          least_[node] = std::min(least_[node], graph.nodes[node].time_ms[graph.class_of(device)]);
        }
      }
    }
    for (std::size_t k = 0; k < graph.nets.size(); ++k) {
      nets_from_[graph.nets[k].producer].push_back(k);
    }
  }

  double of(const DeviceAssignment& assignment) const {
    std::fill(done_.begin(), done_.end(), 0);
    double longest = 0;
    for (const int node : order_) {
      const int device = assignment.device[node];
      done_[node] +=
          device < 0 ? least_[node] : graph_.nodes[node].time_ms[graph_.class_of(device)];
      longest = std::max(longest, done_[node]);
      for (const std::size_t k : nets_from_[node]) {
        const Net& net = graph_.nets[k];
        for (const int reader : net.consumers) {
          const int other = assignment.device[reader];
          double moved = 0;
          if (device >= 0 && other >= 0 && device != other) {
            moved = net.amount / rate_of(device) + net.amount / rate_of(other);
          }
          done_[reader] = std::max(done_[reader], done_[node] + moved);
        }
      }
    }
    return longest;
  }

 private:
  double rate_of(int device) const { return graph_.classes[graph_.class_of(device)].link_rate; }

  const CostGraph& graph_;
  const std::vector<int> order_;
  std::vector<double> least_;
  std::vector<std::vector<std::size_t>> nets_from_;
  mutable std::vector<double> done_;
};

}  // namespace

CertificateJudgement judge_throughput_claims(const CostGraph& graph,
                                             const CertificateClaims& claims,
                                             std::optional<double> value, bool is_contiguous) {
  PLIMSOLL_CHECK(validate(graph).has_value(), "the graph is valid");
  KnownOptimum known;
  known.value = value;
  const std::vector<Group> groups = find_groups(graph);
  add_work_bounds(graph, groups, known);
  const auto limit = searched_limit(claims, known);
  if (limit && is_contiguous && has_no_rules(graph)) {
    note_search(ChainSearch(graph, groups).run(*limit), claims, known);
  } else if (limit) {
    PartialLoads loads(graph);
    AssignmentSearch search(graph, by_work(groups));
    search.steps_of_state = std::int64_t{16} * graph.num_devices();  // loads before and after
    search.put = [&](const Group& group, int device) { loads.put(group, device); };
    search.take = [&](const Group& group, int device) { loads.take(group, device); };
    search.is_hopeless = [&](const DeviceAssignment&, int device) {
      return !loads.fits(device) || loads.highest() >= *limit;
    };
    search.value_of = [&](const DeviceAssignment& whole) -> std::optional<double> {
      PlacementCheckOptions options;
      options.requires_contiguity = is_contiguous;
      const auto judged = check_placement(graph, whole, options);
      if (!judged || !judged->is_right()) return std::nullopt;
      return judged->max_load;
    };
    note_search(search.run(*limit), claims, known);
  }
  return judge_certificate(claims, known);
}

CertificateJudgement judge_latency_claims(const CostGraph& graph, const CertificateClaims& claims,
                                          std::optional<double> value) {
  PLIMSOLL_CHECK(validate(graph).has_value(), "the graph is valid");
  KnownOptimum known;
  known.value = value;
  const std::vector<Group> groups = find_groups(graph);
  const LongestPath path(graph, groups);
  DeviceAssignment nowhere;
  nowhere.device.assign(graph.nodes.size(), -1);
  raise_bound(path.of(nowhere), "one path alone takes as long on the fastest devices", known);
  if (const auto limit = searched_limit(claims, known)) {
    PartialLoads loads(graph);
    AssignmentSearch search(graph, groups);
    search.steps_of_state = size_of(graph);
    search.put = [&](const Group& group, int device) { loads.put(group, device); };
    search.take = [&](const Group& group, int device) { loads.take(group, device); };
    search.is_hopeless = [&](const DeviceAssignment& placed, int device) {
      return !loads.fits(device) || path.of(placed) >= *limit;
    };
    search.value_of = [&](const DeviceAssignment& whole) -> std::optional<double> {
      const auto judged = check_latency(graph, whole);
      if (!judged || !judged->is_right()) return std::nullopt;
      return judged->latency_ms;
    };
    note_search(search.run(*limit), claims, known);
  }
  return judge_certificate(claims, known);
}

// ---------------------------------------------------------------- torch.fx

namespace {

using partition::Graph;
using partition::PartitionerConfig;

double latency_of(const PartitionerConfig& config, int node) {
  const auto& latency = *config.node_to_latency_mapping[node];
  return std::max(latency.mem_latency_sec, latency.computer_latency_sec);
}

// Every operator a partition of its own, which no partitions are faster than: they run side by side
// on one device, and talk for free there.
partition::Placement alone(const Graph& graph, const PartitionerConfig& config,
                           const std::vector<int>& device) {
  partition::Placement placement;
  placement.node_to_partition.resize(graph.nodes.size());
  for (int node = 0; node < graph.num_nodes(); ++node) {
    if (!graph.is_operator(node)) continue;
    partition::Partition& own = placement.partitions.emplace_back();
    own.id = static_cast<int>(placement.partitions.size()) - 1;
    own.nodes = {node};
    for (const int input : graph.nodes[node].inputs) {
      if (graph.is_source(input)) own.nodes.push_back(input);
    }
    std::sort(own.nodes.begin(), own.nodes.end());
    own.nodes.erase(std::unique(own.nodes.begin(), own.nodes.end()), own.nodes.end());
    own.logical_device_ids = {config.devices[device[node]].logical_id};
    placement.node_to_partition[node] = own.id;
  }
  return placement;
}

class PathSearch {
 public:
  PathSearch(const Graph& graph, const PartitionerConfig& config)
      : graph_(graph), config_(config), device_(graph.nodes.size(), -1) {
    for (int node = 0; node < graph.num_nodes(); ++node) {
      if (graph.is_operator(node)) operators_.push_back(node);
    }
  }

  // Of what has a device, the longest path; the rest at its own latency alone.
  double longest_sec() const {
    std::vector<double> done(graph_.nodes.size(), 0);
    double longest = 0;
    for (const int node : operators_) {  // in graph order, which is topological
      for (const int input : graph_.nodes[node].inputs) {
        if (!graph_.is_operator(input)) continue;
        const bool is_moved =
            device_[input] >= 0 && device_[node] >= 0 && device_[input] != device_[node];
        const double moved = is_moved ? static_cast<double>(graph_.nodes[input].size.output) /
                                            config_.transfer_rate_bytes_per_sec
                                      : 0;
        done[node] = std::max(done[node], done[input] + moved);
      }
      done[node] += latency_of(config_, node);
      longest = std::max(longest, done[node]);
    }
    return longest;
  }

  SearchedBelow run(double limit_sec) {
    limit_ = limit_sec;
    result_.is_complete = true;
    place(0);
    return result_;
  }

 private:
  void place(std::size_t next) {
    if (result_.found || !result_.is_complete) return;
    ++result_.num_states;
    num_steps_ += static_cast<std::int64_t>(operators_.size() * config_.devices.size());
    if (num_steps_ > kMaxSteps) {
      result_.is_complete = false;
      return;
    }
    if (next == operators_.size()) {
      const auto judged = check_critical_path(graph_, config_, alone(graph_, config_, device_));
      if (judged && judged->is_right() && judged->critical_path_sec < limit_) {
        result_.found = judged->critical_path_sec * kMsPerSecond;
      }
      return;
    }
    const int node = operators_[next];
    std::vector<Bytes> empty;  // equal devices without an operator
    for (int d = 0; d < static_cast<int>(config_.devices.size()); ++d) {
      if (std::count(device_.begin(), device_.end(), d) == 0) {
        const Bytes bytes = config_.devices[d].available_mem_bytes;
        if (std::count(empty.begin(), empty.end(), bytes) != 0) continue;
        empty.push_back(bytes);
      }
      device_[node] = d;
      if (fits(d) && longest_sec() < limit_) place(next + 1);
      device_[node] = -1;
    }
  }

  // The operators that it has, each value from elsewhere left out.
  bool fits(int d) const {
    Bytes bytes = 0;
    for (const int node : operators_) {
      if (device_[node] == d) bytes += graph_.nodes[node].size.total;
    }
    return bytes <= config_.devices[d].available_mem_bytes;
  }

  const Graph& graph_;
  const PartitionerConfig& config_;
  std::vector<int> operators_, device_;
  double limit_ = 0;
  std::int64_t num_steps_ = 0;
  SearchedBelow result_;
};

bool has_latencies(const Graph& graph, const PartitionerConfig& config) {
  const auto& latencies = config.node_to_latency_mapping;
  for (int node = 0; node < graph.num_nodes(); ++node) {
    if (graph.is_operator(node) && (latencies.empty() || !latencies[node])) return false;
  }
  return true;
}

}  // namespace

CertificateJudgement judge_path_claims(const Graph& graph, const PartitionerConfig& config,
                                       const CertificateClaims& claims,
                                       std::optional<double> value) {
  PLIMSOLL_CHECK(validate(config, graph).has_value(), "the configuration is valid");
  PLIMSOLL_CHECK(has_latencies(graph, config), "every operator has a latency");
  KnownOptimum known;
  known.value = value;
  PathSearch search(graph, config);
  raise_bound(search.longest_sec() * kMsPerSecond, "one path of operators alone takes as long",
              known);
  if (const auto limit = searched_limit(claims, known)) {
    note_search(search.run(*limit / kMsPerSecond), claims, known);
  }
  return judge_certificate(claims, known);
}

}  // namespace plimsoll::check
