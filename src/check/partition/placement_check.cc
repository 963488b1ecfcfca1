#include "plimsoll/check/placement_check.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "check/partition/node_finding.h"
#include "check/partition/placement_order.h"

namespace plimsoll::check {
namespace {

using partition::CostGraph;
using partition::CostNode;
using partition::DeviceAssignment;
using partition::Net;
using partition::Weight;
using Code = FindingCode;

class PlacementJudge {
 public:
  PlacementJudge(const CostGraph& graph, const DeviceAssignment& assignment,
                 const PlacementCheckOptions& options)
      : graph_(graph), device_(assignment.device), options_(options) {
    for (std::size_t c = 0; c < graph.classes.size(); ++c) {
      for (int i = 0; i < graph.classes[c].count; ++i) class_of_.push_back(c);
    }
  }

  PlacementReport judge() {
    const std::size_t num_devices = class_of_.size();
    report_.compute_ms.resize(num_devices);
    report_.transfer_ms.resize(num_devices);
    report_.memory.resize(num_devices);
    report_.is_contiguous.assign(num_devices, true);
    for (int node = 0; node < graph_.num_nodes(); ++node) judge_node(node);
    judge_colours();
    for (std::size_t d = 0; d < num_devices; ++d) judge_device(static_cast<int>(d));
    judge_order();
    judge_stated();
    return std::move(report_);
  }

 private:
  void find(Code code, std::optional<int> node, std::optional<int> device, std::string message) {
    report_.findings.push_back(find_at(graph_, code, node, device, std::move(message)));
  }
  bool is_known(int device) const {
    return device >= 0 && device < static_cast<int>(class_of_.size());
  }

  void judge_node(int index) {
    const CostNode& node = graph_.nodes[index];
    const int device = device_[index];
    if (!is_known(device)) {
      find(Code::kUnknownDevice, index, {}, "there is no device " + std::to_string(device));
      return;
    }
    const double time = node.time_ms[class_of_[device]];
    if (std::isinf(time)) {
      find(Code::kNotSupported, index, device, "the device cannot run the node");
    }
    if (node.pinned_device && *node.pinned_device != device) {
      find(Code::kPinBroken, index, device,
           "the node is pinned to device " + std::to_string(*node.pinned_device));
    }
    for (const int forbidden : node.forbidden_devices) {
      if (forbidden == device) {
        find(Code::kForbiddenDevice, index, device, "the node forbids the device");
      }
    }
    report_.compute_ms[device] += time;
    report_.memory[device] += node.memory;
  }

  void judge_colours() {
    std::map<std::int64_t, int> first;
    for (int node = 0; node < graph_.num_nodes(); ++node) {
      if (!graph_.nodes[node].colour) continue;
      const int mate = first.emplace(*graph_.nodes[node].colour, node).first->second;
      if (device_[mate] != device_[node]) {
        find(Code::kColourSplit, node, device_[node],
             "node " + std::to_string(mate) + " of the same colour is on device " +
                 std::to_string(device_[mate]));
      }
    }
  }

  void judge_device(int device) {
    for (const Net& net : graph_.nets) {
      bool has_inside = device_[net.producer] == device;
      bool has_outside = !has_inside;
      for (const int consumer : net.consumers) {
        (device_[consumer] == device ? has_inside : has_outside) = true;
      }
      if (has_inside && has_outside) report_.transfer_ms[device] += transfer_ms(net, device);
    }
    for (const Weight& weight : graph_.weights) {
      if (std::any_of(weight.readers.begin(), weight.readers.end(),
                      [&](int reader) { return device_[reader] == device; })) {
        report_.memory[device] += weight.bytes;
      }
    }
    report_.load_ms.push_back(report_.compute_ms[device] + report_.transfer_ms[device]);
    report_.max_load = std::max(report_.max_load, report_.load_ms.back());
    const auto& cap = graph_.classes[class_of_[device]].memory_cap;
    if (cap && report_.memory[device] > *cap) {
      find(
          Code::kOverMemory, {}, device,
          std::to_string(report_.memory[device]) + " bytes on a device of " + std::to_string(*cap));
    }
  }

  // In or out, at the slowest of the links that the device uses for it.
  double transfer_ms(const Net& net, int device) const {
    double slowest = graph_.classes[class_of_[device]].link_rate;
    const auto talk_to = [&](int other) {
      if (!graph_.pair_rates.empty() && other != device && is_known(other)) {
        slowest = std::min(slowest, graph_.pair_rates[device][other]);
      }
    };
    const int source = device_[net.producer];
    if (source != device) {
      talk_to(source);
    } else {
      for (const int consumer : net.consumers) talk_to(device_[consumer]);
    }
    return net.amount / slowest;
  }

  // Colours are walked as wholes: what one node of a colour reaches, all of them reach.
  void judge_order() {
    std::map<std::int64_t, int> first;
    std::vector<int> unit(graph_.nodes.size());  // its colour's first node
    for (int node = 0; node < graph_.num_nodes(); ++node) {
      const CostNode& n = graph_.nodes[node];
      unit[node] = n.colour ? first.emplace(*n.colour, node).first->second : node;
    }
    std::vector<std::vector<int>> next(graph_.nodes.size());
    for (const auto& [a, b] : placement_order(graph_)) next[unit[a]].push_back(unit[b]);
    for (int d = 0; d < static_cast<int>(class_of_.size()); ++d) {
      if (!returns_to(d, next)) continue;
      report_.is_contiguous[d] = false;
      if (options_.requires_contiguity) {
        find(Code::kNotContiguous, {}, d, "a path leaves the device and comes back to it");
      }
    }
    report_.is_line = can_stand_in_a_line(next);
    const bool is_explained =
        std::count(report_.is_contiguous.begin(), report_.is_contiguous.end(), false) != 0;
    if (!report_.is_line && !is_explained && options_.requires_contiguity) {
      find(Code::kNoLineOfDevices, {}, {}, "some devices wait for each other in a cycle");
    }
  }

  // Does a path from the device's units through others come back?
  bool returns_to(int device, const std::vector<std::vector<int>>& next) const {
    std::vector<bool> is_seen(next.size());
    std::vector<int> open;
    for (std::size_t unit = 0; unit < next.size(); ++unit) {
      if (device_[unit] != device) continue;
      for (const int other : next[unit]) {
        if (device_[other] != device && !is_seen[other]) {
          is_seen[other] = true;
          open.push_back(other);
        }
      }
    }
    while (!open.empty()) {
      const int unit = open.back();
      open.pop_back();
      for (const int other : next[unit]) {
        if (device_[other] == device) return true;
        if (is_seen[other]) continue;
        is_seen[other] = true;
        open.push_back(other);
      }
    }
    return false;
  }

  // Takes devices away that wait for no other, as long as there are any.
  bool can_stand_in_a_line(const std::vector<std::vector<int>>& next) const {
    std::vector<std::pair<int, int>> edges;
    for (std::size_t unit = 0; unit < next.size(); ++unit) {
      for (const int other : next[unit]) {
        if (device_[unit] != device_[other]) edges.emplace_back(device_[unit], device_[other]);
      }
    }
    while (!edges.empty()) {
      const std::size_t before = edges.size();
      const std::vector<std::pair<int, int>> old = edges;
      edges.erase(std::remove_if(edges.begin(), edges.end(),
                                 [&](const auto& edge) {
                                   return std::none_of(old.begin(), old.end(), [&](const auto& e) {
                                     return e.second == edge.first;
                                   });
                                 }),
                  edges.end());
      if (edges.size() == before) return false;
    }
    return true;
  }

  bool is_same_time(double stated, double found) const {
    return std::abs(stated - found) <= 1e-9 * report_.max_load;
  }

  void judge_stated() {
    if (!options_.stated_classes.empty() && options_.stated_classes != graph_.classes) {
      find(Code::kWrongDevices, {}, {}, "made for other devices than these");
    }
    if (options_.stated_max_load && !is_same_time(*options_.stated_max_load, report_.max_load)) {
      find(Code::kLoadMismatch, {}, {},
           "stated " + std::to_string(*options_.stated_max_load) + ", found " +
               std::to_string(report_.max_load));
    }
    for (std::size_t d = 0; d < options_.stated.size(); ++d) {
      const StatedDevice& stated = options_.stated[d];
      judge_time(d, "compute", stated.compute_ms, report_.compute_ms[d]);
      judge_time(d, "transfer", stated.transfer_ms, report_.transfer_ms[d]);
      judge_time(d, "load", stated.load_ms, report_.load_ms[d]);
      if (!stated.memory || *stated.memory == report_.memory[d]) continue;
      find(Code::kMemoryMismatch, {}, static_cast<int>(d),
           "stated " + std::to_string(*stated.memory) + " bytes, found " +
               std::to_string(report_.memory[d]));
    }
  }

  void judge_time(std::size_t device, const char* what, std::optional<double> stated,
                  double found) {
    if (!stated || is_same_time(*stated, found)) return;
    find(Code::kTimeMismatch, {}, static_cast<int>(device),
         std::string(what) + ": stated " + std::to_string(*stated) + " ms, found " +
             std::to_string(found));
  }

  const CostGraph& graph_;
  const std::vector<int>& device_;
  const PlacementCheckOptions& options_;
  std::vector<std::size_t> class_of_;  // [num_devices]
  PlacementReport report_;
};

}  // namespace

Result<PlacementReport> check_placement(const CostGraph& graph, const DeviceAssignment& assignment,
                                        const PlacementCheckOptions& options) {
  PLIMSOLL_RETURN_IF_ERROR(partition::validate(graph));
  if (assignment.device.size() != graph.nodes.size()) {
    return fail(ErrorCode::kSchema, "assignment",
                std::to_string(assignment.device.size()) + " devices for " +
                    std::to_string(graph.nodes.size()) + " nodes",
                "give one device for each node");
  }
  if (!options.stated.empty() &&
      options.stated.size() != static_cast<std::size_t>(graph.num_devices())) {
    return fail(ErrorCode::kSchema, "stated",
                std::to_string(options.stated.size()) + " stated devices for " +
                    std::to_string(graph.num_devices()),
                "give one for each device, or none");
  }
  return PlacementJudge(graph, assignment, options).judge();
}

}  // namespace plimsoll::check
