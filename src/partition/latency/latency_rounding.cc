#include "partition/latency/latency_rounding.h"

#include <algorithm>

#include "partition/latency/latency_state.h"
#include "partition/latency/sample_latency.h"

namespace plimsoll::partition {
namespace {

constexpr int kNowhere = -1;
constexpr int kMaxSweeps = 4;

// [num_runs] a device of its own for each run, while there are any.
std::vector<int> devices_for(const CostGraph& graph, const std::vector<SpineRun>& runs) {
  std::vector<bool> is_taken(static_cast<std::size_t>(graph.num_devices()));
  std::vector<int> devices;
  for (const SpineRun& run : runs) {
    int device = 0;
    while (device < graph.num_devices() &&
           (is_taken[device] || graph.class_of(device) != run.device_class)) {
      ++device;
    }
    devices.push_back(device < graph.num_devices() ? device : kNowhere);
    if (devices.back() != kNowhere) is_taken[device] = true;
  }
  return devices;
}

}  // namespace

std::vector<int> round_runs(const CostGraph& graph, const LatencyGroups& groups,
                            const std::vector<SpineRun>& runs, std::int64_t& effort_left) {
  const std::vector<int> devices = devices_for(graph, runs);
  std::vector<std::vector<int>> votes(groups.nodes.size());
  for (std::size_t r = 0; r < runs.size(); ++r) {
    for (const int node : runs[r].nodes) {
      if (devices[r] != kNowhere) votes[groups.group_of[node]].push_back(devices[r]);
    }
  }
  LatencyState state(graph, groups);
  state.clear();
  const auto try_put = [&](int group, int device) {
    const int from = state.device_of_group(group);
    if (!state.is_allowed(group, device)) return false;
    state.move(group, device);
    if (state.fits(device)) return true;
    state.move(group, from);
    return false;
  };
  std::vector<int> others;
  SampleLatency latency(graph);
  std::vector<char> is_met(groups.nodes.size());
  for (const int node : latency.order()) {
    const int group = groups.group_of[node];
    if (is_met[group] != 0) continue;
    is_met[group] = 1;
    int best = kNowhere;
    std::ptrdiff_t most = 0;
    for (const int device : votes[group]) {
      const auto count = std::count(votes[group].begin(), votes[group].end(), device);
      if (count > most) best = device;
      most = std::max<std::ptrdiff_t>(most, count);
    }
    if (best == kNowhere || !try_put(group, best)) others.push_back(group);
  }
  for (const int group : others) {
    for (const bool wants_host : {true, false}) {
      for (const int device : groups.allowed[group]) {
        if (state.device_of_group(group) != kNowhere) break;
        if (is_host(graph.classes[graph.class_of(device)]) == wants_host) try_put(group, device);
      }
    }
    if (state.device_of_group(group) == kNowhere) return {};
  }

  std::vector<std::vector<int>> neighbours(graph.nodes.size());
  for (const Net& net : graph.nets) {
    for (const int consumer : net.consumers) {
      neighbours[consumer].push_back(net.producer);
      neighbours[net.producer].push_back(consumer);
    }
  }
  double value = latency.evaluate(state.device());
  bool has_changed = true;
  for (int sweep = 0; sweep < kMaxSweeps && has_changed; ++sweep) {
    has_changed = false;
    for (const int group : others) {
      std::vector<int> candidates;
      for (const int node : groups.nodes[group]) {
        for (const int other : neighbours[node]) candidates.push_back(state.device()[other]);
      }
      std::sort(candidates.begin(), candidates.end());
      candidates.erase(std::unique(candidates.begin(), candidates.end()), candidates.end());
      for (const int device : candidates) {
        const int from = state.device_of_group(group);
        if (effort_left == 0 || device == from || !try_put(group, device)) continue;
        --effort_left;
        const double next = latency.evaluate(state.device());
        if (next < value || (next == value && value == kUnlimited)) {
          has_changed = has_changed || next < value;
          value = next;
        } else {
          state.move(group, from);
        }
      }
    }
  }
  return state.device();
}

}  // namespace plimsoll::partition
