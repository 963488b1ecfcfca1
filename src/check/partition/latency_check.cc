#include "plimsoll/check/latency_check.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <set>
#include <string>
#include <utility>

#include "plimsoll/core/numbers.h"

namespace plimsoll::check {
namespace {

using partition::CostGraph;
using partition::DeviceAssignment;
using partition::Net;
using Code = FindingCode;

class LatencyJudge {
 public:
  LatencyJudge(const CostGraph& graph, const DeviceAssignment& assignment)
      : graph_(graph), device_(assignment.device), task_(device_.size(), -1) {}

  // False where tasks wait for each other in a circle.
  bool run() {
    for (int d = 0; d < graph_.num_devices(); ++d) cut_device(d);
    for (int t = 0; t < static_cast<int>(tasks.size()); ++t) cost(t);
    return schedule();
  }

  std::vector<LatencyTask> tasks;

 private:
  bool is_host(int device) const {
    return std::isinf(graph_.classes[graph_.class_of(device)].link_rate);
  }
  int add_task(int device) {
    tasks.emplace_back().device = device;
    return static_cast<int>(tasks.size()) - 1;
  }
  void put(int node, int task) {
    tasks[task].nodes.push_back(node);
    task_[node] = task;
  }

  // How often a path to each node has entered the device: raised along edges until nothing changes.
  void cut_device(int device) {
    if (is_host(device)) {
      for (int node = 0; node < graph_.num_nodes(); ++node) {
        if (device_[node] == device) put(node, add_task(device));
      }
      return;
    }
    std::vector<int> entries(device_.size());
    for (std::size_t i = 0; i < entries.size(); ++i) entries[i] = device_[i] == device ? 1 : 0;
    for (bool has_changed = true; has_changed;) {
      has_changed = false;
      for (const Net& net : graph_.nets) {
        for (const int consumer : net.consumers) {
          const bool enters = device_[consumer] == device && device_[net.producer] != device;
          const int through = entries[net.producer] + (enters ? 1 : 0);
          if (through <= entries[consumer]) continue;
          entries[consumer] = through;
          has_changed = true;
        }
      }
    }
    const int num_pieces = *std::max_element(entries.begin(), entries.end());
    for (int piece = 1; piece <= num_pieces; ++piece) {
      int task = -1;
      for (int node = 0; node < graph_.num_nodes(); ++node) {
        if (device_[node] != device || entries[node] != piece) continue;
        if (task < 0) task = add_task(device);
        put(node, task);
      }
    }
  }

  void cost(int index) {
    LatencyTask& task = tasks[index];
    const int kind = graph_.class_of(task.device);
    for (const int node : task.nodes) task.compute_ms += graph_.nodes[node].time_ms[kind];
    if (is_host(task.device)) return;
    for (const Net& net : graph_.nets) {
      const bool is_made_here = task_[net.producer] == index;
      double slowest = 0;
      for (const int consumer : net.consumers) {
        const bool is_read_here = task_[consumer] == index;
        if (is_made_here == is_read_here) continue;
        const int other = device_[is_made_here ? consumer : net.producer];
        double rate = graph_.classes[kind].link_rate;
        if (!graph_.pair_rates.empty() && other != task.device) {
          rate = std::min(rate, graph_.pair_rates[task.device][other]);
        }
        slowest = std::max(slowest, net.amount / rate);
      }
      (is_made_here ? task.take_out_ms : task.bring_in_ms) += slowest;
    }
  }

  // Depths are raised until nothing changes; a change after as many rounds as there are tasks is a
  // circle.
  bool schedule() {
    std::set<std::pair<int, int>> edges;
    for (const Net& net : graph_.nets) {
      for (const int consumer : net.consumers) {
        if (task_[net.producer] != task_[consumer]) {
          edges.emplace(task_[net.producer], task_[consumer]);
        }
      }
    }
    std::vector<int> depth(tasks.size());
    bool has_changed = true;
    for (std::size_t round = 0; has_changed; ++round) {
      if (round > tasks.size()) return false;
      has_changed = false;
      for (const auto& [from, to] : edges) {
        if (depth[from] + 1 <= depth[to]) continue;
        depth[to] = depth[from] + 1;
        has_changed = true;
      }
    }
    std::vector<int> order(tasks.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return depth[a] < depth[b]; });
    for (const int t : order) {
      LatencyTask& task = tasks[t];
      for (const auto& [from, to] : edges) {
        if (to == t) task.start_ms = std::max(task.start_ms, tasks[from].finish_ms);
      }
      task.finish_ms = task.start_ms + task.bring_in_ms + task.compute_ms + task.take_out_ms;
    }
    return true;
  }

  const CostGraph& graph_;
  const std::vector<int>& device_;
  std::vector<int> task_;  // [num_nodes]
};

}  // namespace

Result<LatencyReport> check_latency(const CostGraph& graph, const DeviceAssignment& assignment,
                                    std::optional<double> stated_latency) {
  PLIMSOLL_ASSIGN(PlacementReport placement, check_placement(graph, assignment, {false, {}}));
  LatencyReport report;
  report.findings = std::move(placement.findings);
  report.memory = std::move(placement.memory);
  report.latency_ms = kInfinity;
  const bool has_devices =
      std::none_of(report.findings.begin(), report.findings.end(),
                   [](const Finding& violation) { return violation.code == Code::kUnknownDevice; });
  if (has_devices) {
    LatencyJudge judge(graph, assignment);
    if (judge.run()) {
      report.tasks = std::move(judge.tasks);
      report.latency_ms = 0;
      for (const LatencyTask& task : report.tasks) {
        report.latency_ms = std::max(report.latency_ms, task.finish_ms);
      }
    } else {
      report.violate(Code::kTasksWait, "pieces of several devices wait for each other in a cycle");
    }
  }
  if (stated_latency &&
      !(std::abs(*stated_latency - report.latency_ms) <= 1e-9 * std::abs(report.latency_ms))) {
    report.violate(Code::kLatencyMismatch, "stated " + std::to_string(*stated_latency) +
                                               ", found " + std::to_string(report.latency_ms));
  }
  return report;
}

}  // namespace plimsoll::check
