#include "partition/graph/placement_bill.h"

#include <algorithm>
#include <functional>
#include <queue>
#include <utility>

#include "core/check.h"
#include "partition/graph/assignment_figures.h"

namespace plimsoll::partition {

std::vector<int> line_up(std::span<const int> first, std::vector<std::pair<int, int>> edges) {
  std::sort(edges.begin(), edges.end());
  edges.erase(std::unique(edges.begin(), edges.end()), edges.end());
  std::vector<int> num_before(first.size());
  for (const auto& edge : edges) ++num_before[edge.second];
  using Ready = std::pair<int, int>;  // first, device
  std::priority_queue<Ready, std::vector<Ready>, std::greater<>> ready;
  for (std::size_t d = 0; d < first.size(); ++d) {
    if (first[d] >= 0 && num_before[d] == 0) ready.emplace(first[d], static_cast<int>(d));
  }
  std::vector<int> line;
  while (!ready.empty()) {
    const int device = ready.top().second;
    ready.pop();
    line.push_back(device);
    auto edge = std::lower_bound(edges.begin(), edges.end(), std::pair(device, 0));
    for (; edge != edges.end() && edge->first == device; ++edge) {
      if (--num_before[edge->second] == 0) ready.emplace(first[edge->second], edge->second);
    }
  }
  return line;
}

std::optional<std::vector<int>> find_line(const CostGraph& graph,
                                          const DeviceAssignment& assignment) {
  PLIMSOLL_DCHECK(validate(graph).has_value(), "the graph is valid");
  PLIMSOLL_DCHECK(is_assignment_of(graph, assignment), "every node has a device that exists");
  std::vector<int> first(static_cast<std::size_t>(graph.num_devices()), -1);
  for (int node = graph.num_nodes() - 1; node >= 0; --node) first[assignment.device[node]] = node;
  std::vector<std::pair<int, int>> edges;  // of devices
  for (const auto& [a, b] : pipeline_order(graph)) {
    if (assignment.device[a] != assignment.device[b]) {
      edges.emplace_back(assignment.device[a], assignment.device[b]);
    }
  }
  std::vector<int> line = line_up(first, std::move(edges));
  const auto num_used = std::count_if(first.begin(), first.end(), [](int f) { return f >= 0; });
  if (static_cast<std::ptrdiff_t>(line.size()) != num_used) return std::nullopt;
  return line;
}

PlacementBill make_placement_bill(const CostGraph& graph, const DeviceAssignment& assignment) {
  PLIMSOLL_DCHECK(validate(graph).has_value(), "the graph is valid");
  PLIMSOLL_DCHECK(is_assignment_of(graph, assignment), "every node has a device that exists");
  const std::vector<double> loads = device_loads(graph, assignment);
  const std::vector<Bytes> memory = device_memory(graph, assignment);
  std::vector<Stage> by_device(loads.size());
  for (std::size_t d = 0; d < loads.size(); ++d) {
    by_device[d].device = static_cast<int>(d);
    by_device[d].load_ms = loads[d];
    by_device[d].memory = memory[d];
  }
  for (int node = 0; node < graph.num_nodes(); ++node) {
    Stage& stage = by_device[assignment.device[node]];
    stage.nodes.push_back(node);
    stage.compute_ms += graph.nodes[node].time_ms[graph.class_of(stage.device)];
  }
  PlacementBill bill;
  for (std::size_t n = 0; n < graph.nets.size(); ++n) {
    const Net& net = graph.nets[n];
    const std::vector<int> holders = holders_of(net, assignment);
    if (holders.size() == 1) continue;
    CutValue cut{static_cast<int>(n), assignment.device[net.producer], {}, 0};
    for (const int device : holders) {
      const double ms = transfer_ms(graph, net, cut.from, holders, device);
      by_device[device].transfer_ms += ms;
      cut.ms = std::max(cut.ms, ms);
      if (device != cut.from) cut.to.push_back(device);
    }
    bill.cuts.push_back(std::move(cut));
  }
  std::optional<std::vector<int>> line = find_line(graph, assignment);
  bill.is_line = line.has_value();
  if (!line) {
    line.emplace();
    for (const Stage& stage : by_device) {
      if (!stage.nodes.empty()) line->push_back(stage.device);
    }
  }
  for (const int device : *line) bill.stages.push_back(std::move(by_device[device]));
  return bill;
}

}  // namespace plimsoll::partition
