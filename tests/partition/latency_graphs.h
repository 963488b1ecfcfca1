// Random cost graphs for latency, and the least latency of a small one by trying all.
#pragma once

#include <algorithm>
#include <map>
#include <random>
#include <vector>

#include "partition/cost_graphs.h"
#include "partition/latency/sample_latency.h"

namespace plimsoll::partition {

// With weights now and then, and rates between pairs of devices.
inline CostGraph random_latency_graph(std::mt19937_64& random, int max_nodes,
                                      bool has_limits = true) {
  RandomCostGraph shape;
  shape.max_nodes = max_nodes;
  shape.has_limits = has_limits;
  CostGraph graph = random_cost_graph(random, shape);
  for (int count = draw(random, 0, 2); count > 0; --count) {
    Weight weight;
    weight.bytes = draw(random, 0, 6);
    for (int node = 0; node < graph.num_nodes(); ++node) {
      if (draw(random, 0, 2) == 0) weight.readers.push_back(node);
    }
    graph.weights.push_back(std::move(weight));
  }
  if (draw(random, 0, 5) == 0) {
    const auto size = static_cast<std::size_t>(graph.num_devices());
    graph.pair_rates.assign(size, std::vector<double>(size, 1));
    for (std::size_t a = 0; a < size; ++a) {
      for (std::size_t b = 0; b < a; ++b) {
        graph.pair_rates[a][b] = graph.pair_rates[b][a] = 0.5 * draw(random, 1, 6);
      }
    }
  }
  return graph;
}

// Any device for each node; permissions and colours are not looked at.
inline DeviceAssignment random_assignment(std::mt19937_64& random, const CostGraph& graph) {
  DeviceAssignment plan;
  for (int node = 0; node < graph.num_nodes(); ++node) {
    plan.device.push_back(draw(random, 0, graph.num_devices() - 1));
  }
  return plan;
}

// kUnlimited where no placement is allowed.
class LeastLatency {
 public:
  explicit LeastLatency(const CostGraph& graph)
      : graph_(graph), latency_(graph), device_(graph.nodes.size(), -1) {}
  double find() {
    place(0);
    return best_;
  }

 private:
  void place(int node) {
    if (node == graph_.num_nodes()) {
      const std::vector<Bytes> memory = device_memory(graph_, {device_});
      for (int d = 0; d < graph_.num_devices(); ++d) {
        if (memory[d] > graph_.classes[graph_.class_of(d)].memory_cap.value_or(memory[d])) return;
      }
      best_ = std::min(best_, latency_.evaluate(device_));
      return;
    }
    for (int d = 0; d < graph_.num_devices(); ++d) {
      bool is_split = false;
      for (int other = 0; other < node; ++other) {
        is_split |= graph_.nodes[node].colour &&
                    graph_.nodes[other].colour == graph_.nodes[node].colour && device_[other] != d;
      }
      if (is_split || !graph_.is_allowed(node, d)) continue;
      device_[node] = d;
      place(node + 1);
    }
  }

  const CostGraph& graph_;
  SampleLatency latency_;
  std::vector<int> device_;
  double best_ = kUnlimited;
};

}  // namespace plimsoll::partition
