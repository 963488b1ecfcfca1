#include "partition/latency/latency_groups.h"

#include <algorithm>
#include <map>
#include <utility>

namespace plimsoll::partition {

LatencyGroups::LatencyGroups(const CostGraph& graph) {
  std::map<std::int64_t, int> group_of_colour;
  for (int node = 0; node < graph.num_nodes(); ++node) {
    int group = num_groups();
    if (graph.nodes[node].colour) {
      group = group_of_colour.emplace(*graph.nodes[node].colour, group).first->second;
    }
    if (group == num_groups()) nodes.emplace_back();
    nodes[group].push_back(node);
    group_of.push_back(group);
  }
  memory.resize(nodes.size());
  for (int node = 0; node < graph.num_nodes(); ++node) {
    memory[group_of[node]] += graph.nodes[node].memory;
  }
  for (const std::vector<int>& members : nodes) {
    std::vector<int>& list = allowed.emplace_back();
    for (int device = 0; device < graph.num_devices(); ++device) {
      if (std::all_of(members.begin(), members.end(),
                      [&](int node) { return graph.is_allowed(node, device); })) {
        list.push_back(device);
      }
    }
  }
  find_kinds(graph);
}

// Devices of a class that no group tells apart are of one kind.
void LatencyGroups::find_kinds(const CostGraph& graph) {
  std::vector<std::vector<int>> groups_of(static_cast<std::size_t>(graph.num_devices()));
  for (int group = 0; group < num_groups(); ++group) {
    for (const int device : allowed[group]) groups_of[device].push_back(group);
  }
  std::map<std::pair<int, std::vector<int>>, int> first;
  for (int device = 0; device < graph.num_devices(); ++device) {
    auto key = std::pair(graph.class_of(device), std::move(groups_of[device]));
    kind_of.push_back(first.emplace(std::move(key), device).first->second);
  }
}

double LatencyGroups::least_time(const CostGraph& graph, int node) const {
  double least = kUnlimited;
  int last_class = -1;
  for (const int device : allowed[group_of[node]]) {
    const int kind = graph.class_of(device);
    if (kind == last_class) continue;
    last_class = kind;
    least = std::min(least, graph.nodes[node].time_ms[kind]);
  }
  return least;
}

}  // namespace plimsoll::partition
