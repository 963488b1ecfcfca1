// Cost graphs by hand and at random, and the best contiguous split of a small one by trying all.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "partition/graphs.h"
#include "plimsoll/partition/cost_graph.h"

namespace plimsoll::partition {

inline CostNode cost_node(const std::string& name, std::vector<double> time_ms, Bytes memory = 0) {
  CostNode node;
  node.name = name;
  node.time_ms = std::move(time_ms);
  node.memory = memory;
  return node;
}

// Accelerators with link rate 1 and CPUs that move for free; caps on accelerators only.
inline std::vector<DeviceClass> accelerators_and_cpus(int num_accelerators, int num_cpus,
                                                      std::optional<Bytes> cap = {}) {
  return {{"accelerator", num_accelerators, cap, 1}, {"cpu", num_cpus, {}, kUnlimited}};
}

// The same graph with node i called by its place in `new_index`.
inline CostGraph relabel(const CostGraph& graph, const std::vector<int>& new_index) {
  CostGraph result = graph;
  for (int node = 0; node < graph.num_nodes(); ++node) {
    result.nodes[new_index[node]] = graph.nodes[node];
  }
  for (Net& net : result.nets) {
    net.producer = new_index[net.producer];
    for (int& consumer : net.consumers) consumer = new_index[consumer];
  }
  for (Weight& weight : result.weights) {
    for (int& reader : weight.readers) reader = new_index[reader];
  }
  return result;
}

inline std::vector<int> random_permutation(std::mt19937_64& random, int size) {
  std::vector<int> list;
  for (int i = 0; i < size; ++i) {
    list.push_back(i);
    std::swap(list[draw(random, 0, i)], list[i]);
  }
  return list;
}

struct RandomCostGraph {
  int max_nodes = 7;
  int max_amount = 12;
  bool has_limits = true;  // caps, pins, forbidden devices, unsupported nodes
  bool has_weights = false;
  bool has_pair_rates = false;
};

// Forward nodes, then backward nodes, edges from earlier to later; labels shuffled. Costs are small
// numbers of tenths, zero among them, so ties and zero-cost nodes are frequent.
inline CostGraph random_cost_graph(std::mt19937_64& random, const RandomCostGraph& shape = {}) {
  CostGraph graph;
  const int num_nodes = draw(random, 1, shape.max_nodes);
  const int num_forward = draw(random, (num_nodes + 1) / 2, num_nodes);
  const int density = draw(random, 1, 4);
  graph.classes = accelerators_and_cpus(draw(random, 1, 3), draw(random, 0, 1));
  if (draw(random, 0, 3) == 0) graph.classes[0].link_rate = 2;
  for (int i = 0; i < num_nodes; ++i) {
    const double time = draw(random, 0, 2) == 0 ? 0 : 0.1 * draw(random, 1, 30);
    CostNode node = cost_node("n" + std::to_string(i), {time, time * draw(random, 1, 5)});
    node.memory = draw(random, 0, 1) * draw(random, 1, 10);
    node.is_backward = i >= num_forward;
    if (node.is_backward && draw(random, 0, 3) != 0) {
      const int mate = draw(random, 0, num_forward - 1);
      if (!graph.nodes[mate].colour) graph.nodes[mate].colour = mate;
      node.colour = graph.nodes[mate].colour;
    } else if (draw(random, 0, 5) == 0) {
      node.colour = 100 + draw(random, 0, 1);
    }
    Net net;
    net.producer = i;
    for (int k = i + 1; k < num_nodes; ++k) {
      if (draw(random, 0, 5) < density) net.consumers.push_back(k);
    }
    net.amount = 0.1 * draw(random, 0, shape.max_amount);
    graph.nodes.push_back(std::move(node));
    if (!net.consumers.empty()) graph.nets.push_back(std::move(net));
  }
  if (shape.has_limits) {
    if (draw(random, 0, 1) == 0) graph.classes[0].memory_cap = draw(random, 4, 25);
    if (draw(random, 0, 3) == 0) graph.classes[1].memory_cap = draw(random, 4, 25);
    const int last = graph.num_devices() - 1;
    if (draw(random, 0, 3) == 0) {
      graph.nodes[draw(random, 0, num_nodes - 1)].pinned_device = draw(random, 0, last);
    }
    if (draw(random, 0, 3) == 0) {
      graph.nodes[draw(random, 0, num_nodes - 1)].forbidden_devices = {draw(random, 0, last)};
    }
    if (draw(random, 0, 3) == 0) {
      graph.nodes[draw(random, 0, num_nodes - 1)].time_ms[draw(random, 0, 1)] = kUnlimited;
    }
  }
  for (int i = draw(random, 0, 4); shape.has_weights && i > 0; --i) {
    Weight weight;
    weight.bytes = draw(random, 0, 8);
    for (int k = 0; k < num_nodes; ++k) {
      if (draw(random, 0, 2) == 0) weight.readers.push_back(k);
    }
    graph.weights.push_back(std::move(weight));
  }
  if (shape.has_pair_rates) {
    const auto num_devices = static_cast<std::size_t>(graph.num_devices());
    graph.pair_rates.assign(num_devices, std::vector<double>(num_devices));
    for (std::size_t a = 0; a < num_devices; ++a) {
      for (std::size_t b = 0; b < a; ++b) {
        graph.pair_rates[a][b] = graph.pair_rates[b][a] = 0.25 * draw(random, 1, 8);
      }
    }
  }
  return relabel(graph, random_permutation(random, num_nodes));
}

// Pairs (a, b): where devices stand in a line, a may not be behind b. The backward pass runs
// through the line the other way; where it has no forward counterpart it is held to that itself.
inline std::vector<std::pair<int, int>> line_order(const CostGraph& graph) {
  std::vector<std::pair<int, int>> order;
  std::map<std::int64_t, bool> has_forward;
  for (const CostNode& node : graph.nodes) {
    if (node.colour && !node.is_backward) has_forward[*node.colour] = true;
  }
  const auto is_orphan = [&](const CostNode& node) {
    return node.is_backward && (!node.colour || has_forward.count(*node.colour) == 0);
  };
  for (const Net& net : graph.nets) {
    const CostNode& producer = graph.nodes[net.producer];
    for (const int c : net.consumers) {
      const CostNode& consumer = graph.nodes[c];
      if (!producer.is_backward && !consumer.is_backward) order.emplace_back(net.producer, c);
      if (producer.is_backward && (is_orphan(producer) || is_orphan(consumer))) {
        order.emplace_back(c, net.producer);
      }
    }
  }
  return order;
}

// Tries every assignment; kUnlimited where none is allowed. At most 31 devices.
class BruteForce {
 public:
  explicit BruteForce(const CostGraph& graph, bool is_contiguous = true)
      : graph_(graph),
        is_contiguous_(is_contiguous),
        device_(graph.nodes.size(), -1),
        order_(line_order(graph)) {}
  double best() {
    place(0);
    return best_;
  }

 private:
  void place(int node) {
    if (node == graph_.num_nodes()) {
      if (fits() && (!is_contiguous_ || stands_in_line())) best_ = std::min(best_, largest_load());
      return;
    }
    for (int d = 0; d < graph_.num_devices(); ++d) {
      bool is_mate_elsewhere = false;
      for (int other = 0; other < node; ++other) {
        is_mate_elsewhere |= graph_.nodes[node].colour &&
                             graph_.nodes[other].colour == graph_.nodes[node].colour &&
                             device_[other] != d;
      }
      if (is_mate_elsewhere || !graph_.is_allowed(node, d)) continue;
      device_[node] = d;
      place(node + 1);
    }
  }
  bool fits() const {
    std::vector<Bytes> used(static_cast<std::size_t>(graph_.num_devices()));
    for (int i = 0; i < graph_.num_nodes(); ++i) used[device_[i]] += graph_.nodes[i].memory;
    for (const Weight& weight : graph_.weights) {
      std::uint32_t touched = 0;
      for (const int reader : weight.readers) touched |= 1U << device_[reader];
      for (int d = 0; d < graph_.num_devices(); ++d) {
        if ((touched >> d & 1U) != 0) used[d] += weight.bytes;
      }
    }
    for (int d = 0; d < graph_.num_devices(); ++d) {
      if (used[d] > graph_.classes[graph_.class_of(d)].memory_cap.value_or(used[d])) return false;
    }
    return true;
  }
  // Transitive closure of "some node there is read here".
  bool stands_in_line() const {
    std::vector<std::uint32_t> reach(static_cast<std::size_t>(graph_.num_devices()));
    for (const auto& [a, b] : order_) {
      if (device_[a] != device_[b]) reach[device_[a]] |= 1U << device_[b];
    }
    for (std::size_t middle = 0; middle < reach.size(); ++middle) {
      for (std::uint32_t& set : reach) {
        if ((set >> middle & 1U) != 0) set |= reach[middle];
      }
    }
    for (std::size_t d = 0; d < reach.size(); ++d) {
      if ((reach[d] >> d & 1U) != 0) return false;
    }
    return true;
  }
  double largest_load() const {
    std::vector<double> load(static_cast<std::size_t>(graph_.num_devices()));
    for (int i = 0; i < graph_.num_nodes(); ++i) {
      load[device_[i]] += graph_.nodes[i].time_ms[graph_.class_of(device_[i])];
    }
    for (const Net& net : graph_.nets) {
      std::uint32_t touched = 1U << device_[net.producer];
      for (const int c : net.consumers) touched |= 1U << device_[c];
      if ((touched & (touched - 1)) == 0) continue;
      for (int d = 0; d < graph_.num_devices(); ++d) {
        if ((touched >> d & 1U) != 0) {
          load[d] += net.amount / rate_of(net, touched, d);
        }
      }
    }
    return *std::max_element(load.begin(), load.end());
  }
  double rate_of(const Net& net, std::uint32_t touched, int d) const {
    double rate = graph_.classes[graph_.class_of(d)].link_rate;
    if (graph_.pair_rates.empty()) return rate;
    const int source = device_[net.producer];
    for (int other = 0; other < graph_.num_devices(); ++other) {
      if ((touched >> other & 1U) == 0 || other == d || (d != source && other != source)) continue;
      rate = std::min(rate, graph_.pair_rates[d][other]);
    }
    return rate;
  }

  const CostGraph& graph_;
  const bool is_contiguous_;
  std::vector<int> device_;
  std::vector<std::pair<int, int>> order_;
  double best_ = kUnlimited;
};

}  // namespace plimsoll::partition
