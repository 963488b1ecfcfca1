#include "partition/latency/latency_state.h"

#include <algorithm>

namespace plimsoll::partition {

LatencyState::LatencyState(const CostGraph& graph, const LatencyGroups& groups)
    : graph_(graph),
      groups_(groups),
      device_(graph.nodes.size()),
      memory_(static_cast<std::size_t>(graph.num_devices())),
      allowed_(memory_.size() * groups.nodes.size()),
      weights_of_(groups.nodes.size()),
      holders_(graph.weights.size() * memory_.size()) {
  for (int d = 0; d < graph.num_devices(); ++d) {
    caps_.push_back(graph.classes[graph.class_of(d)].memory_cap.value_or(-1));
  }
  for (std::size_t group = 0; group < groups.nodes.size(); ++group) {
    for (const int device : groups.allowed[group]) {
      allowed_[static_cast<std::size_t>(device) * groups.nodes.size() + group] = 1;
    }
  }
  for (std::size_t w = 0; w < graph.weights.size(); ++w) {
    for (const int reader : graph.weights[w].readers) {
      std::vector<int>& list = weights_of_[groups.group_of[reader]];
      if (list.empty() || list.back() != static_cast<int>(w)) list.push_back(static_cast<int>(w));
    }
  }
}

void LatencyState::assign(const std::vector<int>& device) {
  clear();
  for (int group = 0; group < groups_.num_groups(); ++group) {
    move(group, device[groups_.nodes[group].front()]);
  }
}

void LatencyState::clear() {
  device_.assign(graph_.nodes.size(), -1);
  std::fill(memory_.begin(), memory_.end(), 0);
  std::fill(holders_.begin(), holders_.end(), 0);
}

void LatencyState::move(int group, int to) {
  const int from = device_of_group(group);
  if (from >= 0) memory_[from] -= groups_.memory[group];
  if (to >= 0) memory_[to] += groups_.memory[group];
  for (const int w : weights_of_[group]) {
    int* row = holders_.data() + static_cast<std::size_t>(w) * memory_.size();
    if (from >= 0 && --row[from] == 0) memory_[from] -= graph_.weights[w].bytes;
    if (to >= 0 && row[to]++ == 0) memory_[to] += graph_.weights[w].bytes;
  }
  for (const int node : groups_.nodes[group]) device_[node] = to;
}

}  // namespace plimsoll::partition
