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

class Rounding {
 public:
  Rounding(const CostGraph& graph, const LatencyGroups& groups, std::int64_t& effort_left)
      : graph_(graph),
        groups_(groups),
        effort_left_(effort_left),
        state_(graph, groups),
        latency_(graph) {
    state_.clear();
  }

  std::vector<int> run(const std::vector<SpineRun>& runs) {
    place_by_votes(votes_for(runs));
    if (!place_others()) return {};
    improve();
    return state_.device();
  }

 private:
  // [num_groups] the devices of the runs that its nodes are in.
  std::vector<std::vector<int>> votes_for(const std::vector<SpineRun>& runs) const {
    const std::vector<int> devices = devices_for(graph_, runs);
    std::vector<std::vector<int>> votes(groups_.nodes.size());
    for (std::size_t r = 0; r < runs.size(); ++r) {
      for (const int node : runs[r].nodes) {
        if (devices[r] != kNowhere) votes[groups_.group_of[node]].push_back(devices[r]);
      }
    }
    return votes;
  }

  bool try_put(int group, int device) {
    const int from = state_.device_of_group(group);
    if (!state_.is_allowed(group, device)) return false;
    state_.move(group, device);
    if (state_.fits(device)) return true;
    state_.move(group, from);
    return false;
  }

  // Each group goes where most of its nodes' runs are, in the order of the sample; where it cannot,
  // it is one of the others.
  void place_by_votes(const std::vector<std::vector<int>>& votes) {
    std::vector<char> is_met(groups_.nodes.size());
    for (const int node : latency_.order()) {
      const int group = groups_.group_of[node];
      if (is_met[group] != 0) continue;
      is_met[group] = 1;
      int best = kNowhere;
      std::ptrdiff_t most = 0;
      for (const int device : votes[group]) {
        const auto count = std::count(votes[group].begin(), votes[group].end(), device);
        if (count > most) best = device;
        most = std::max<std::ptrdiff_t>(most, count);
      }
      if (best == kNowhere || !try_put(group, best)) others_.push_back(group);
    }
  }

  // Hosts first; false: one fits nowhere.
  bool place_others() {
    for (const int group : others_) {
      for (const bool wants_host : {true, false}) {
        for (const int device : groups_.allowed[group]) {
          if (state_.device_of_group(group) != kNowhere) break;
          if (is_host(graph_.classes[graph_.class_of(device)]) == wants_host) {
            try_put(group, device);
          }
        }
      }
      if (state_.device_of_group(group) == kNowhere) return false;
    }
    return true;
  }

  // Sweeps that move the others to where their neighbours are.
  void improve() {
    const std::vector<std::vector<int>> neighbours = neighbours_of_nodes();
    double value = latency_.evaluate(state_.device());
    bool has_changed = true;
    for (int sweep = 0; sweep < kMaxSweeps && has_changed; ++sweep) {
      has_changed = false;
      for (const int group : others_) {
        for (const int device : devices_beside(group, neighbours)) {
          const int from = state_.device_of_group(group);
          if (effort_left_ == 0 || device == from || !try_put(group, device)) continue;
          --effort_left_;
          const double next = latency_.evaluate(state_.device());
          if (next < value || (next == value && value == kUnlimited)) {
            has_changed = has_changed || next < value;
            value = next;
          } else {
            state_.move(group, from);
          }
        }
      }
    }
  }

  std::vector<std::vector<int>> neighbours_of_nodes() const {
    std::vector<std::vector<int>> neighbours(graph_.nodes.size());
    for (const Net& net : graph_.nets) {
      for (const int consumer : net.consumers) {
        neighbours[consumer].push_back(net.producer);
        neighbours[net.producer].push_back(consumer);
      }
    }
    return neighbours;
  }

  std::vector<int> devices_beside(int group,
                                  const std::vector<std::vector<int>>& neighbours) const {
    std::vector<int> devices;
    for (const int node : groups_.nodes[group]) {
      for (const int other : neighbours[node]) devices.push_back(state_.device()[other]);
    }
    std::sort(devices.begin(), devices.end());
    devices.erase(std::unique(devices.begin(), devices.end()), devices.end());
    return devices;
  }

  const CostGraph& graph_;
  const LatencyGroups& groups_;
  std::int64_t& effort_left_;
  LatencyState state_;
  SampleLatency latency_;
  std::vector<int> others_;  // groups
};

}  // namespace

std::vector<int> round_runs(const CostGraph& graph, const LatencyGroups& groups,
                            const std::vector<SpineRun>& runs, std::int64_t& effort_left) {
  return Rounding(graph, groups, effort_left).run(runs);
}

}  // namespace plimsoll::partition
