#include "partition/graph/assignment_figures.h"

#include <algorithm>

namespace plimsoll::partition {

bool is_assignment_of(const CostGraph& graph, const DeviceAssignment& assignment) {
  const std::vector<int>& device = assignment.device;
  return device.size() == graph.nodes.size() &&
         std::all_of(device.begin(), device.end(),
                     [end = graph.num_devices()](int d) { return d >= 0 && d < end; });
}

double largest_load(const CostGraph& graph, const DeviceAssignment& plan) {
  const std::vector<double> loads = device_loads(graph, plan);
  return *std::max_element(loads.begin(), loads.end());
}

bool fits_caps(const CostGraph& graph, const DeviceAssignment& plan) {
  const std::vector<Bytes> used = device_memory(graph, plan);
  for (int d = 0; d < graph.num_devices(); ++d) {
    const auto& cap = graph.classes[graph.class_of(d)].memory_cap;
    if (cap && used[d] > *cap) return false;
  }
  return true;
}

}  // namespace plimsoll::partition
