#include "partition/assignment/device_trading.h"

#include <algorithm>
#include <functional>
#include <utility>
#include <vector>

#include "partition/graph/assignment_figures.h"

namespace plimsoll::partition {
namespace {

constexpr std::int64_t kMaxTradeWork = 20'000'000;  // nodes looked at

}  // namespace

void trade_devices(const CostGraph& graph, DeviceAssignment& plan) {
  const auto sorted_loads = [&](const DeviceAssignment& candidate) {
    std::vector<double> loads = device_loads(graph, candidate);
    std::sort(loads.begin(), loads.end(), std::greater<>());
    return loads;
  };
  std::vector<double> best = sorted_loads(plan);
  std::int64_t trades_left = kMaxTradeWork / std::max(1, graph.num_nodes());
  for (bool has_changed = true; has_changed;) {
    has_changed = false;
    for (int a = 0; a < graph.num_devices(); ++a) {
      for (int b = a + 1; b < graph.num_devices(); ++b) {
        if (--trades_left < 0) return;
        DeviceAssignment trade = plan;
        bool is_allowed = true;
        for (int node = 0; node < graph.num_nodes() && is_allowed; ++node) {
          int& device = trade.device[node];
          if (device != a && device != b) continue;
          device = device == a ? b : a;
          is_allowed = graph.is_allowed(node, device);
        }
        if (!is_allowed || !fits_caps(graph, trade)) continue;
        std::vector<double> loads = sorted_loads(trade);
        if (loads >= best) continue;
        best = std::move(loads);
        plan = std::move(trade);
        has_changed = true;
      }
    }
  }
}

}  // namespace plimsoll::partition
