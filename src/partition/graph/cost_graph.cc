#include "plimsoll/partition/cost_graph.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <unordered_set>
#include <utility>

#include "core/check.h"
#include "partition/graph/assignment_figures.h"
#include "partition/graph/cycle.h"

namespace plimsoll::partition {
namespace {

std::string class_place(std::size_t c) { return "class " + std::to_string(c); }
std::string net_place(std::size_t n) { return "net " + std::to_string(n); }

bool has_duplicates(std::vector<int> list) {
  std::sort(list.begin(), list.end());
  return std::adjacent_find(list.begin(), list.end()) != list.end();
}

Result<void> check_classes(const CostGraph& graph) {
  std::set<std::string> names;
  for (std::size_t c = 0; c < graph.classes.size(); ++c) {
    const DeviceClass& devices = graph.classes[c];
    if (devices.count < 0) {
      return fail(ErrorCode::kValue, class_place(c), "a negative number of devices",
                  "give at least 0");
    }
    if (devices.memory_cap && *devices.memory_cap < 0) {
      return fail(ErrorCode::kValue, class_place(c), "a negative memory cap", "give at least 0");
    }
    if (!(devices.link_rate > 0)) {
      return fail(ErrorCode::kValue, class_place(c), "a link rate that is not above 0",
                  "give a rate above 0, or infinity where moving is free");
    }
    if (!names.insert(devices.name).second) {
      return fail(ErrorCode::kConflict, class_place(c),
                  "the class name '" + devices.name + "' occurs twice", "name classes apart");
    }
  }
  std::int64_t total = 0;
  for (const DeviceClass& devices : graph.classes) total += devices.count;
  constexpr std::int64_t kMaxDevices = 1 << 20;
  if (total < 1 || total > kMaxDevices) {
    return fail(ErrorCode::kValue, "classes", std::to_string(total) + " devices in all",
                "give from 1 to " + std::to_string(kMaxDevices));
  }
  return {};
}

Result<void> check_node(const CostGraph& graph, int index) {
  const CostNode& node = graph.nodes[index];
  if (node.time_ms.size() != graph.classes.size()) {
    return fail(ErrorCode::kSchema, place_of(graph, index),
                std::to_string(node.time_ms.size()) + " times for " +
                    std::to_string(graph.classes.size()) + " classes",
                "give one time for each class of devices");
  }
  for (const double time : node.time_ms) {
    if (!(time >= 0)) {
      return fail(ErrorCode::kValue, place_of(graph, index), "a time below 0 or not a number",
                  "give at least 0, or infinity where the class cannot run the node");
    }
  }
  if (node.memory < 0) {
    return fail(ErrorCode::kValue, place_of(graph, index), "a negative memory", "give at least 0");
  }
  const auto exists = [&](int device) { return device >= 0 && device < graph.num_devices(); };
  if ((node.pinned_device && !exists(*node.pinned_device)) ||
      !std::all_of(node.forbidden_devices.begin(), node.forbidden_devices.end(), exists)) {
    return fail(ErrorCode::kValue, place_of(graph, index), "names a device that does not exist",
                "give devices below " + std::to_string(graph.num_devices()));
  }
  if (has_duplicates(node.forbidden_devices)) {
    return fail(ErrorCode::kConflict, place_of(graph, index), "a forbidden device occurs twice",
                "name it once");
  }
  return {};
}

Result<void> check_net(const CostGraph& graph, std::size_t index) {
  const Net& net = graph.nets[index];
  const auto exists = [&](int node) { return node >= 0 && node < graph.num_nodes(); };
  if (!exists(net.producer) || !std::all_of(net.consumers.begin(), net.consumers.end(), exists)) {
    return fail(ErrorCode::kValue, net_place(index), "names a node that does not exist",
                "give nodes below " + std::to_string(graph.num_nodes()));
  }
  if (!(net.amount >= 0) || !std::isfinite(net.amount)) {
    return fail(ErrorCode::kValue, net_place(index), "an amount below 0 or not finite",
                "give a finite amount of at least 0");
  }
  if (has_duplicates(net.consumers)) {
    return fail(ErrorCode::kConflict, net_place(index), "a consumer occurs twice", "name it once");
  }
  for (const int consumer : net.consumers) {
    if (consumer == net.producer) {
      return fail(ErrorCode::kConflict, net_place(index),
                  place_of(graph, consumer) + " reads its own value", "drop that consumer");
    }
    if (graph.nodes[net.producer].is_backward && !graph.nodes[consumer].is_backward) {
      return fail(ErrorCode::kConflict, net_place(index),
                  place_of(graph, consumer) + " is forward and reads a backward node",
                  "mark it as backward, or reverse the edge");
    }
  }
  return {};
}

Result<void> check_weight(const CostGraph& graph, std::size_t index) {
  const Weight& weight = graph.weights[index];
  const std::string place = "weight " + std::to_string(index);
  if (weight.bytes < 0) {
    return fail(ErrorCode::kValue, place, "negative bytes", "give at least 0");
  }
  const auto exists = [&](int node) { return node >= 0 && node < graph.num_nodes(); };
  if (!std::all_of(weight.readers.begin(), weight.readers.end(), exists)) {
    return fail(ErrorCode::kValue, place, "names a node that does not exist",
                "give nodes below " + std::to_string(graph.num_nodes()));
  }
  if (has_duplicates(weight.readers)) {
    return fail(ErrorCode::kConflict, place, "a reader occurs twice", "name it once");
  }
  return {};
}

Result<void> check_pair_rates(const CostGraph& graph) {
  if (graph.pair_rates.empty()) return {};
  const auto num_devices = static_cast<std::size_t>(graph.num_devices());
  const auto has_width = [&](const std::vector<double>& row) { return row.size() == num_devices; };
  if (!(graph.pair_rates.size() == num_devices &&
        std::all_of(graph.pair_rates.begin(), graph.pair_rates.end(), has_width))) {
    return fail(ErrorCode::kSchema, "pair_rates",
                "not a row and a column for each of " + std::to_string(num_devices) + " devices",
                "give a rate for each pair of devices, or leave pair rates out");
  }
  for (std::size_t a = 0; a < num_devices; ++a) {
    for (std::size_t b = 0; b < num_devices; ++b) {
      if (a != b &&
          !(graph.pair_rates[a][b] > 0 && graph.pair_rates[a][b] == graph.pair_rates[b][a])) {
        return fail(ErrorCode::kValue, "pair_rates",
                    "the rate between devices " + std::to_string(a) + " and " + std::to_string(b) +
                        " is not above 0, or differs by direction",
                    "give one rate above 0 for both directions");
      }
    }
  }
  return {};
}

Result<void> check_acyclic(const CostGraph& graph) {
  std::vector<std::pair<int, int>> edges;
  for (const Net& net : graph.nets) {
    for (const int consumer : net.consumers) edges.emplace_back(net.producer, consumer);
  }
  const std::vector<int> cycle = find_cycle(graph.num_nodes(), edges);
  if (cycle.empty()) return {};
  const auto name_of = [&](int node) { return place_of(graph, node); };
  return fail(ErrorCode::kConflict, name_of(cycle.front()),
              "waits for itself in a cycle of nets: " + cycle_text(cycle, name_of),
              "break the cycle");
}

}  // namespace

int CostGraph::num_devices() const {
  int total = 0;
  for (const DeviceClass& devices : classes) total += devices.count;
  return total;
}

int CostGraph::class_of(int device) const {
  PLIMSOLL_DCHECK(0 <= device && device < num_devices(), "the device exists");
  int c = 0;
  while (device >= classes[c].count) device -= classes[c++].count;
  return c;
}

bool CostGraph::is_allowed(int node, int device) const {
  const CostNode& n = nodes[node];
  if (n.pinned_device && *n.pinned_device != device) return false;
  const auto& forbidden = n.forbidden_devices;
  if (std::find(forbidden.begin(), forbidden.end(), device) != forbidden.end()) return false;
  return std::isfinite(n.time_ms[class_of(device)]);
}

Result<void> validate(const CostGraph& graph) {
  PLIMSOLL_RETURN_IF_ERROR(check_classes(graph));
  for (int node = 0; node < graph.num_nodes(); ++node) {
    PLIMSOLL_RETURN_IF_ERROR(check_node(graph, node));
  }
  Bytes total = 0;
  for (int node = 0; node < graph.num_nodes(); ++node) {
    if (__builtin_add_overflow(total, graph.nodes[node].memory, &total)) {
      return fail(ErrorCode::kOverflow, place_of(graph, node),
                  "the memory of all nodes together exceeds 2^63 - 1 bytes", "give smaller sizes");
    }
  }
  for (std::size_t w = 0; w < graph.weights.size(); ++w) {
    PLIMSOLL_RETURN_IF_ERROR(check_weight(graph, w));
    if (__builtin_add_overflow(total, graph.weights[w].bytes, &total)) {
      return fail(ErrorCode::kOverflow, "weight " + std::to_string(w),
                  "the memory of all nodes and weights together exceeds 2^63 - 1 bytes",
                  "give smaller sizes");
    }
  }
  for (std::size_t net = 0; net < graph.nets.size(); ++net) {
    PLIMSOLL_RETURN_IF_ERROR(check_net(graph, net));
  }
  PLIMSOLL_RETURN_IF_ERROR(check_pair_rates(graph));
  return check_acyclic(graph);
}

std::string place_of(const CostGraph& graph, int node) {
  const std::string& name = graph.nodes[node].name;
  return "node " + std::to_string(node) + (name.empty() ? "" : " '" + name + "'");
}

std::vector<int> holders_of(const Net& net, const DeviceAssignment& assignment) {
  std::vector<int> holders = {assignment.device[net.producer]};
  for (const int consumer : net.consumers) holders.push_back(assignment.device[consumer]);
  std::sort(holders.begin(), holders.end());
  holders.erase(std::unique(holders.begin(), holders.end()), holders.end());
  return holders;
}

double transfer_ms(const CostGraph& graph, const Net& net, int source, std::span<const int> holders,
                   int device) {
  double rate = graph.classes[graph.class_of(device)].link_rate;
  if (!graph.pair_rates.empty()) {
    for (const int other : holders) {
      const bool talks = other != device && (device == source || other == source);
      if (talks) rate = std::min(rate, graph.pair_rates[device][other]);
    }
  }
  return net.amount / rate;
}

std::vector<double> device_loads(const CostGraph& graph, const DeviceAssignment& assignment) {
  PLIMSOLL_DCHECK(validate(graph).has_value(), "the graph is valid");
  PLIMSOLL_DCHECK(is_assignment_of(graph, assignment), "every node has a device that exists");
  std::vector<int> class_of(static_cast<std::size_t>(graph.num_devices()));
  for (std::size_t d = 0; d < class_of.size(); ++d)
    class_of[d] = graph.class_of(static_cast<int>(d));
  std::vector<double> loads(class_of.size());
  for (int node = 0; node < graph.num_nodes(); ++node) {
    const int device = assignment.device[node];
    loads[device] += graph.nodes[node].time_ms[class_of[device]];
  }
  for (const Net& net : graph.nets) {
    const int source = assignment.device[net.producer];
    const bool stays = std::all_of(net.consumers.begin(), net.consumers.end(),
                                   [&](int node) { return assignment.device[node] == source; });
    if (stays) continue;
    const std::vector<int> holders = holders_of(net, assignment);
    for (const int device : holders) {
      loads[device] += transfer_ms(graph, net, source, holders, device);
    }
  }
  return loads;
}

std::vector<Bytes> device_memory(const CostGraph& graph, const DeviceAssignment& assignment) {
  PLIMSOLL_DCHECK(validate(graph).has_value(), "the graph is valid");
  PLIMSOLL_DCHECK(is_assignment_of(graph, assignment), "every node has a device that exists");
  std::vector<Bytes> memory(static_cast<std::size_t>(graph.num_devices()));
  for (int node = 0; node < graph.num_nodes(); ++node) {
    memory[assignment.device[node]] += graph.nodes[node].memory;
  }
  std::vector<int> last_weight(memory.size(), -1);  // that the device was charged for
  for (std::size_t w = 0; w < graph.weights.size(); ++w) {
    for (const int reader : graph.weights[w].readers) {
      const int device = assignment.device[reader];
      if (std::exchange(last_weight[device], static_cast<int>(w)) != static_cast<int>(w)) {
        memory[device] += graph.weights[w].bytes;
      }
    }
  }
  return memory;
}

std::vector<std::pair<int, int>> pipeline_order(const CostGraph& graph) {
  std::unordered_set<std::int64_t> forward_colours;
  for (const CostNode& node : graph.nodes) {
    if (!node.is_backward && node.colour) forward_colours.insert(*node.colour);
  }
  const auto has_forward_mate = [&](int node) {
    return graph.nodes[node].colour && forward_colours.count(*graph.nodes[node].colour) != 0;
  };
  std::vector<std::pair<int, int>> order;
  for (const Net& net : graph.nets) {
    for (const int consumer : net.consumers) {
      const bool is_read_backward = graph.nodes[consumer].is_backward;
      if (!is_read_backward) {
        order.emplace_back(net.producer, consumer);
      } else if (graph.nodes[net.producer].is_backward &&
                 !(has_forward_mate(net.producer) && has_forward_mate(consumer))) {
        order.emplace_back(consumer, net.producer);
      }
    }
  }
  return order;
}

}  // namespace plimsoll::partition
