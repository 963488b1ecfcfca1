#include "check/partition/placement_order.h"

#include <cstdint>
#include <set>

namespace plimsoll::check {

std::vector<std::pair<int, int>> placement_order(const partition::CostGraph& graph) {
  std::set<std::int64_t> forward_colours;
  for (const partition::CostNode& node : graph.nodes) {
    if (node.colour && !node.is_backward) forward_colours.insert(*node.colour);
  }
  const auto is_orphan = [&](int index) {
    const partition::CostNode& node = graph.nodes[index];
    return node.is_backward && !(node.colour && forward_colours.count(*node.colour) != 0);
  };
  std::vector<std::pair<int, int>> order;
  for (const partition::Net& net : graph.nets) {
    const bool from_backward = graph.nodes[net.producer].is_backward;
    for (const int consumer : net.consumers) {
      const bool to_backward = graph.nodes[consumer].is_backward;
      if (!from_backward && !to_backward) {
        order.emplace_back(net.producer, consumer);
      } else if (from_backward && to_backward && (is_orphan(net.producer) || is_orphan(consumer))) {
        order.emplace_back(consumer, net.producer);
      }
    }
  }
  return order;
}

}  // namespace plimsoll::check
