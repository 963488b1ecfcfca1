#include "plimsoll/partition/operator_costs.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/check.h"
#include "core/suggest.h"
#include "partition/graph/operator_colours.h"

namespace plimsoll::partition {
namespace {

// The operator that each node's cost node is named after: itself, or what its getitem takes apart,
// or the first reader of a subgraph. -1: the node is none of the cost graph's.
std::vector<int> find_homes(const OperatorGraph& graph) {
  std::vector<int> num_readers(graph.nodes.size());
  for (const OperatorNode& node : graph.nodes) {
    for (const int input : node.inputs) ++num_readers[input];
  }
  std::vector<int> home(graph.nodes.size(), -1);
  for (int node = graph.num_nodes() - 1; node >= 0; --node) {
    if (!graph.is_operator(node)) continue;
    const OperatorNode& n = graph.nodes[node];
    if (n.output_bytes == 0 && num_readers[node] == 0) {
      for (const int input : n.inputs) --num_readers[input];
    } else {
      home[node] = node;
    }
  }
  for (int node = 0; node < graph.num_nodes(); ++node) {
    if (home[node] < 0) continue;
    const OperatorNode& n = graph.nodes[node];
    const auto is_subgraph = [&](int input) {
      return graph.nodes[input].op == OpKind::kGetAttr && !graph.is_weight(input);
    };
    if (is_getitem(n)) {
      const int whole = n.inputs[0];
      if (home[whole] >= 0 && !is_subgraph(whole) &&
          graph.nodes[whole].is_backward == n.is_backward) {
        home[node] = home[whole];
      }
    }
    for (const int input : n.inputs) {
      if (is_subgraph(input) && home[input] < 0) home[input] = home[node];
    }
  }
  return home;
}

// Times of the operators on one class, by a function made once.
class Clock {
 public:
  static Result<Clock> make(const OperatorGraph& graph, const OperatorDevices& devices) {
    const std::string place = "class '" + devices.devices.name + "'";
    Clock clock(graph, devices);
    if (!(devices.launch_floor_ms >= 0) || !std::isfinite(devices.launch_floor_ms)) {
      return fail(ErrorCode::kValue, place, "a launch floor below 0 or not finite",
                  "give a finite time of at least 0 ms");
    }
    const std::string& column = devices.time_column;
    const bool needs_roofline = column.empty() || !(devices.roofline == Roofline{});
    if (needs_roofline &&
        (!(devices.roofline.flops_per_ms > 0) || !(devices.roofline.bytes_per_ms > 0))) {
      return fail(ErrorCode::kValue, place, "a roofline without flops or without bandwidth",
                  "give both, above 0");
    }
    if (!column.empty()) {
      const std::optional<int> found = graph.find_time_column(column);
      if (!found) {
        return fail(ErrorCode::kNotFound, place, "the graph has no times for '" + column + "'",
                    graph.time_columns.empty() ? "give a roofline, or times in an overlay"
                                               : suggest(column, graph.time_columns));
      }
      clock.column_ = *found;
    }
    return clock;
  }

  Result<double> time_of(int index) const {
    const OperatorNode& node = graph_->nodes[index];
    if (node.is_view || is_getitem(node)) return 0;
    const Roofline& roofline = devices_->roofline;
    std::optional<double> time;
    if (!devices_->time_column.empty()) time = node.time_ms[column_];
    if (!time && roofline.flops_per_ms > 0) {
      time = std::max(node.flops / roofline.flops_per_ms,
                      static_cast<double>(node.bytes_moved) / roofline.bytes_per_ms);
    }
    if (!time) {
      return fail(ErrorCode::kNotFound, place_of(*graph_, index),
                  "has no time for '" + graph_->time_columns[column_] + "'",
                  "give one in an overlay, or use a roofline");
    }
    return std::max(*time, devices_->launch_floor_ms);
  }

 private:
  Clock(const OperatorGraph& graph, const OperatorDevices& devices)
      : graph_(&graph), devices_(&devices) {}

  const OperatorGraph* graph_;
  const OperatorDevices* devices_;
  int column_ = 0;
};

// Bytes that each operator holds under an option, where nobody measured them.
std::vector<Bytes> held_bytes(const OperatorGraph& graph, ActivationMemory activations) {
  std::vector<Bytes> held(graph.nodes.size());
  if (activations == ActivationMemory::kAll) {
    for (int node = 0; node < graph.num_nodes(); ++node) {
      const OperatorNode& n = graph.nodes[node];
      if (!n.is_view && !n.is_mutating) held[node] = n.output_bytes;
    }
    return held;
  }
  for (const OperatorNode& node : graph.nodes) {
    if (node.op != OpKind::kOutput) continue;
    for (const int gradient : node.inputs) {
      if (graph.nodes[gradient].is_backward) {
        held[gradient] = graph.nodes[gradient].output_bytes;
      }
    }
  }
  if (activations == ActivationMemory::kNone) return held;
  const std::vector<int> root = storage_roots(graph);
  for (const OperatorNode& node : graph.nodes) {
    if (!node.is_backward) continue;
    for (const int input : node.inputs) {
      const int storage = root[input];
      if (!graph.nodes[storage].is_backward) held[storage] = graph.nodes[storage].output_bytes;
    }
  }
  return held;
}

void add_memory(const OperatorGraph& graph, ActivationMemory activations, OperatorCosts& costs) {
  const std::vector<Bytes> none = held_bytes(graph, ActivationMemory::kNone);
  const std::vector<Bytes> stashed = held_bytes(graph, ActivationMemory::kStashed);
  const std::vector<Bytes> held = held_bytes(graph, activations);
  costs.stashed.assign(costs.operators.size(), 0);
  for (std::size_t i = 0; i < costs.operators.size(); ++i) {
    for (const int node : costs.operators[i]) {
      const std::optional<Bytes>& known = graph.nodes[node].memory;
      costs.graph.nodes[i].memory += known.value_or(held[node]);
      if (!known) costs.stashed[i] += stashed[node] - none[node];
    }
  }
}

void add_nets(const OperatorGraph& graph, OperatorCosts& costs) {
  std::vector<std::vector<int>> readers(graph.nodes.size());  // cost nodes, ascending in the end
  for (int node = 0; node < graph.num_nodes(); ++node) {
    if (costs.cost_node[node] < 0 || !graph.is_operator(node)) continue;
    for (const int input : graph.nodes[node].inputs) {
      readers[input].push_back(costs.cost_node[node]);
    }
  }
  for (auto& list : readers) {
    std::sort(list.begin(), list.end());
    list.erase(std::unique(list.begin(), list.end()), list.end());
  }
  for (int node = 0; node < graph.num_nodes(); ++node) {
    const int producer = costs.cost_node[node];
    if (producer < 0 || !graph.is_operator(node)) continue;
    std::vector<int> consumers = readers[node];
    std::erase(consumers, producer);
    if (consumers.empty()) continue;
    costs.graph.nets.push_back(
        {producer, std::move(consumers), static_cast<double>(graph.nodes[node].output_bytes)});
  }
  const std::vector<int> original = tied_weights(graph);
  std::vector<int> weight_of(graph.nodes.size(), -1);
  for (int node = 0; node < graph.num_nodes(); ++node) {
    if (!graph.is_weight(node)) continue;
    int& weight = weight_of[original[node]];
    if (weight < 0) {
      weight = static_cast<int>(costs.graph.weights.size());
      const OperatorNode& first = graph.nodes[node];
      costs.graph.weights.push_back(
          {first.target.empty() ? first.name : first.target, first.output_bytes, {}});
    }
    std::vector<int>& all = costs.graph.weights[weight].readers;
    const auto middle = static_cast<std::ptrdiff_t>(all.size());
    all.insert(all.end(), readers[node].begin(), readers[node].end());
    std::inplace_merge(all.begin(), all.begin() + middle, all.end());
    all.erase(std::unique(all.begin(), all.end()), all.end());
  }
}

}  // namespace

std::string_view to_string(ActivationMemory activations) {
  switch (activations) {
    case ActivationMemory::kNone:
      return "none";
    case ActivationMemory::kStashed:
      return "stashed";
    case ActivationMemory::kAll:
      return "all";
  }
  return "";
}

Result<OperatorCosts> make_cost_graph(const OperatorGraph& graph,
                                      const OperatorCostOptions& options) {
  PLIMSOLL_RETURN_IF_ERROR(validate(graph));
  OperatorCosts costs;
  std::vector<Clock> clocks;
  for (const OperatorDevices& devices : options.classes) {
    costs.graph.classes.push_back(devices.devices);
    PLIMSOLL_ASSIGN(Clock clock, Clock::make(graph, devices));
    clocks.push_back(clock);
  }
  const std::vector<int> home = find_homes(graph);
  const std::vector<int> colour = find_colours(graph, home);
  costs.cost_node.assign(graph.nodes.size(), -1);
  for (int node = 0; node < graph.num_nodes(); ++node) {
    if (home[node] != node) continue;
    costs.cost_node[node] = costs.graph.num_nodes();
    costs.operators.emplace_back();
    CostNode& entry = costs.graph.nodes.emplace_back();
    entry.name = graph.nodes[node].name;
    entry.time_ms.assign(clocks.size(), 0);
    entry.is_backward = graph.nodes[node].is_backward;
    if (colour[node] >= 0) entry.colour = colour[node];
  }
  for (int node = 0; node < graph.num_nodes(); ++node) {
    if (home[node] < 0) continue;
    const int index = costs.cost_node[home[node]];
    costs.cost_node[node] = index;
    costs.operators[index].push_back(node);
    CostNode& entry = costs.graph.nodes[index];
    if (!graph.is_operator(node)) continue;
    for (std::size_t c = 0; c < clocks.size(); ++c) {
      PLIMSOLL_ASSIGN(const double time, clocks[c].time_of(node));
      entry.time_ms[c] += time;
    }
  }
  add_memory(graph, options.activations, costs);
  add_nets(graph, costs);
  PLIMSOLL_RETURN_IF_ERROR(validate(costs.graph));
  return costs;
}

std::vector<int> operator_devices(const OperatorGraph& graph, const OperatorCosts& costs,
                                  const DeviceAssignment& assignment) {
  PLIMSOLL_CHECK(costs.cost_node.size() == graph.nodes.size(), "the costs are those of the graph");
  const auto has_device = [&](int cost_node) {
    return cost_node < static_cast<int>(assignment.device.size());
  };
  PLIMSOLL_CHECK(std::all_of(costs.cost_node.begin(), costs.cost_node.end(), has_device),
                 "every node of the costs has a device");
  std::vector<int> device(graph.nodes.size(), -1);
  for (int node = 0; node < graph.num_nodes(); ++node) {
    if (costs.cost_node[node] >= 0) {
      device[node] = assignment.device[costs.cost_node[node]];
    } else if (graph.is_operator(node)) {
      device[node] = 0;
      for (const int input : graph.nodes[node].inputs) {
        if (device[input] >= 0) device[node] = device[input];
      }
    }
  }
  return device;
}

}  // namespace plimsoll::partition
