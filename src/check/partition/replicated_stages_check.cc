#include "plimsoll/check/replicated_stages_check.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <string>

#include "check/partition/node_finding.h"
#include "check/partition/placement_order.h"

namespace plimsoll::check {
namespace {

using partition::CostGraph;
using partition::CostNode;
using partition::Net;
using partition::PipelineTerms;
using partition::ReplicatedStage;
using partition::ReplicatedStages;
using partition::Weight;
using Code = FindingCode;

class ReplicatedStagesJudge {
 public:
  ReplicatedStagesJudge(const CostGraph& graph, const PipelineTerms& terms,
                        const ReplicatedStages& placement,
                        const ReplicatedStagesCheckOptions& options)
      : graph_(graph), terms_(terms), options_(options) {
    for (std::size_t c = 0; c < graph.classes.size(); ++c) {
      for (int i = 0; i < graph.classes[c].count; ++i) class_of_.push_back(c);
    }
    for (const CostNode& node : graph.nodes) trains_ |= node.is_backward;
    for (const ReplicatedStage& stage : placement.stages) stages_.push_back({&stage, {}, {}, 0});
  }

  PlacementReport judge() {
    const std::size_t num_devices = class_of_.size();
    for (auto* list :
         {&report_.compute_ms, &report_.transfer_ms, &report_.load_ms, &report_.sync_ms}) {
      list->resize(num_devices);
    }
    report_.memory.resize(num_devices);
    report_.in_flight.resize(num_devices);
    report_.is_contiguous.assign(num_devices, true);
    judge_members();
    judge_colours();
    judge_order();
    double sum = 0;
    for (std::size_t s = 0; s < stages_.size(); ++s) sum += judge_stage(s);
    report_.batch_ms = sum + (terms_.num_microbatches - 1.0) * report_.max_load;
    judge_stated();
    return std::move(report_);
  }

 private:
  struct Stage {
    const ReplicatedStage* given;
    std::vector<int> nodes, devices;  // those that exist and are nobody else's
    int in_flight;
  };

  void find(Code code, std::optional<int> node, std::optional<int> device, std::string message) {
    report_.findings.push_back(find_at(graph_, code, node, device, std::move(message)));
  }
  static std::string name_of(std::size_t stage) { return "stage " + std::to_string(stage); }

  void judge_members() {
    stage_of_.assign(graph_.nodes.size(), -1);
    std::vector<int> owner(class_of_.size(), -1);
    for (std::size_t s = 0; s < stages_.size(); ++s) {
      Stage& stage = stages_[s];
      for (const int node : stage.given->nodes) {
        if (node < 0 || node >= graph_.num_nodes()) {
          find(Code::kNotPlaced, {}, {}, name_of(s) + " names a node that does not exist");
        } else if (stage_of_[node] >= 0) {
          find(Code::kNotPlaced, node, {}, "the node is in a stage already");
        } else {
          stage_of_[node] = static_cast<int>(s);
          stage.nodes.push_back(node);
        }
      }
      for (const int device : stage.given->devices) {
        if (device < 0 || device >= static_cast<int>(owner.size())) {
          find(Code::kUnknownDevice, {}, {}, "there is no device " + std::to_string(device));
        } else if (owner[device] >= 0) {
          find(Code::kDeviceTwice, {}, device,
               "the device runs stage " + std::to_string(owner[device]) + " already");
        } else {
          owner[device] = static_cast<int>(s);
          stage.devices.push_back(device);
        }
      }
      if (stage.nodes.empty() || stage.devices.empty()) {
        find(Code::kEmptyStage, {}, {}, name_of(s) + " has no node or no device");
      }
    }
    for (int node = 0; node < graph_.num_nodes(); ++node) {
      if (stage_of_[node] < 0) find(Code::kNotPlaced, node, {}, "the node is in no stage");
    }
  }

  void judge_colours() {
    std::map<std::int64_t, int> first;
    for (int node = 0; node < graph_.num_nodes(); ++node) {
      if (!graph_.nodes[node].colour) continue;
      const int mate = first.emplace(*graph_.nodes[node].colour, node).first->second;
      if (stage_of_[mate] == stage_of_[node]) continue;
      find(Code::kColourSplit, node, {},
           "node " + std::to_string(mate) + " of the same colour is in another stage");
    }
  }

  void judge_order() {
    for (const auto& [a, b] : placement_order(graph_)) {
      if (stage_of_[a] < 0 || stage_of_[b] < 0 || stage_of_[a] <= stage_of_[b]) continue;
      report_.is_line = false;
      find(Code::kNotContiguous, a, {},
           "node " + std::to_string(b) + ", which must not stand before it, is in stage " +
               std::to_string(stage_of_[b]));
    }
  }

  // Its time of a microbatch.
  double judge_stage(std::size_t s) {
    Stage& stage = stages_[s];
    if (stage.devices.empty()) return 0;
    const int replicas = static_cast<int>(stage.devices.size());
    const std::size_t own_class = class_of_[stage.devices.front()];
    judge_devices(s);
    std::int64_t behind = 0;  // replicas of this stage and all behind it
    for (std::size_t later = s; later < stages_.size(); ++later) {
      behind += static_cast<std::int64_t>(stages_[later].devices.size());
    }
    const double in_flight =
        std::min(std::ceil(static_cast<double>(behind) / replicas),
                 std::ceil(static_cast<double>(terms_.num_microbatches) / replicas));
    stage.in_flight = trains_ ? static_cast<int>(in_flight) : 1;
    double compute = 0;
    Int128 memory = 0;
    for (const int node : stage.nodes) {
      compute += graph_.nodes[node].time_ms[own_class];
      memory += graph_.nodes[node].memory;
      if (!terms_.per_microbatch.empty()) {
        memory += Int128{stage.in_flight} * terms_.per_microbatch[node];
      }
    }
    Bytes weights = 0;
    for (const Weight& weight : graph_.weights) {
      const bool is_read = std::any_of(weight.readers.begin(), weight.readers.end(),
                                       [&](int r) { return stage_of_[r] == static_cast<int>(s); });
      if (is_read) weights += weight.bytes;
    }
    memory += weights;
    double transfer = 0;
    for (const Net& net : graph_.nets) transfer += transfer_ms(net, static_cast<int>(s));
    double sync = 0;
    if (trains_ && replicas > 1) {
      const double bytes = 4.0 * (replicas - 1) * static_cast<double>(weights) / replicas;
      sync = bytes / terms_.num_microbatches / rate(stage, stage);
    }
    const double load = compute / replicas + transfer / replicas + sync;
    for (const int device : stage.devices) {
      report_.compute_ms[device] = compute / replicas;
      report_.transfer_ms[device] = transfer / replicas;
      report_.sync_ms[device] = sync;
      report_.load_ms[device] = load;
      report_.in_flight[device] = stage.in_flight;
      report_.memory[device] = static_cast<Bytes>(std::min<Int128>(memory, INT64_MAX));
      const auto& cap = graph_.classes[class_of_[device]].memory_cap;
      if (cap && memory > *cap) {
        find(Code::kOverMemory, {}, device,
             std::to_string(report_.memory[device]) + " bytes on a device of " +
                 std::to_string(*cap) + ", with " + std::to_string(stage.in_flight) +
                 " microbatches in flight");
      }
    }
    report_.max_load = std::max(report_.max_load, load);
    return load;
  }

  void judge_devices(std::size_t s) {
    const Stage& stage = stages_[s];
    const int replicas = static_cast<int>(stage.devices.size());
    for (const int device : stage.devices) {
      if (class_of_[device] != class_of_[stage.devices.front()]) {
        find(Code::kMixedClasses, {}, device, name_of(s) + " has devices of another class, too");
      }
      for (const int node : stage.nodes) judge_permission(node, device);
    }
    if (terms_.num_microbatches % replicas != 0) {
      find(Code::kUnevenMicrobatches, {}, stage.devices.front(),
           std::to_string(replicas) + " replicas do not divide " +
               std::to_string(terms_.num_microbatches) + " microbatches");
    }
    if (replicas > 1 && trains_ && graph_.weights.empty()) {
      find(Code::kUnpricedReplicas, {}, stage.devices.front(),
           "the graph does not say what replicas have to agree on");
    }
  }

  void judge_permission(int node, int device) {
    const CostNode& n = graph_.nodes[node];
    if (std::isinf(n.time_ms[class_of_[device]])) {
      find(Code::kNotSupported, node, device, "the device cannot run the node");
    }
    if (n.pinned_device && *n.pinned_device != device) {
      find(Code::kPinBroken, node, device,
           "the node is pinned to device " + std::to_string(*n.pinned_device));
    }
    if (std::count(n.forbidden_devices.begin(), n.forbidden_devices.end(), device) != 0) {
      find(Code::kForbiddenDevice, node, device, "the node forbids the device");
    }
  }

  // The slowest of the ways between their devices, and of the first's own link.
  double rate(const Stage& stage, const Stage& other) const {
    double slowest = graph_.classes[class_of_[stage.devices.front()]].link_rate;
    if (graph_.pair_rates.empty()) return slowest;
    for (const int a : stage.devices) {
      for (const int b : other.devices) {
        if (a != b) slowest = std::min(slowest, graph_.pair_rates[a][b]);
      }
    }
    return slowest;
  }

  // Of one replica: nothing unless the stage holds a part of the net, and others another part.
  double transfer_ms(const Net& net, int s) const {
    const int source = stage_of_[net.producer];
    bool has_inside = source == s;
    bool has_outside = !has_inside;
    double slowest = graph_.classes[class_of_[stages_[s].devices.front()]].link_rate;
    const auto talk_to = [&](int other) {
      if (other >= 0 && other != s && !stages_[other].devices.empty()) {
        slowest = std::min(slowest, rate(stages_[s], stages_[other]));
      }
    };
    for (const int consumer : net.consumers) {
      (stage_of_[consumer] == s ? has_inside : has_outside) = true;
      if (source == s) talk_to(stage_of_[consumer]);
    }
    if (source != s) talk_to(source);
    return has_inside && has_outside ? net.amount / slowest : 0;
  }

  bool is_same_time(double stated, double found) const {
    return std::abs(stated - found) <= 1e-9 * *report_.batch_ms;
  }

  void judge_stated() {
    if (!options_.stated_classes.empty() && options_.stated_classes != graph_.classes) {
      find(Code::kWrongDevices, {}, {}, "made for other devices than these");
    }
    if (options_.stated_batch_ms && !is_same_time(*options_.stated_batch_ms, *report_.batch_ms)) {
      find(Code::kBatchMismatch, {}, {},
           "stated " + std::to_string(*options_.stated_batch_ms) + " ms, found " +
               std::to_string(*report_.batch_ms));
    }
    for (std::size_t s = 0; s < options_.stated.size(); ++s) {
      if (stages_[s].devices.empty()) continue;
      const int device = stages_[s].devices.front();
      const StatedStage& stated = options_.stated[s];
      judge_time(device, "compute", stated.device.compute_ms, report_.compute_ms[device]);
      judge_time(device, "transfer", stated.device.transfer_ms, report_.transfer_ms[device]);
      judge_time(device, "sync", stated.sync_ms, report_.sync_ms[device]);
      judge_time(device, "load", stated.device.load_ms, report_.load_ms[device]);
      if (stated.device.memory && *stated.device.memory != report_.memory[device]) {
        find(Code::kMemoryMismatch, {}, device,
             "stated " + std::to_string(*stated.device.memory) + " bytes, found " +
                 std::to_string(report_.memory[device]));
      }
      if (stated.in_flight && *stated.in_flight != stages_[s].in_flight) {
        find(Code::kInFlightMismatch, {}, device,
             "stated " + std::to_string(*stated.in_flight) + " microbatches in flight, found " +
                 std::to_string(stages_[s].in_flight));
      }
    }
  }

  void judge_time(int device, const char* what, std::optional<double> stated, double found) {
    if (!stated || is_same_time(*stated, found)) return;
    find(Code::kTimeMismatch, {}, device,
         std::string(what) + ": stated " + std::to_string(*stated) + " ms, found " +
             std::to_string(found));
  }

  const CostGraph& graph_;
  const PipelineTerms& terms_;
  const ReplicatedStagesCheckOptions& options_;
  std::vector<std::size_t> class_of_;  // [num_devices]
  bool trains_ = false;
  std::vector<Stage> stages_;
  std::vector<int> stage_of_;  // [num_nodes] -1: none
  PlacementReport report_;
};

}  // namespace

Result<PlacementReport> check_replicated_stages(const CostGraph& graph, const PipelineTerms& terms,
                                                const ReplicatedStages& placement,
                                                const ReplicatedStagesCheckOptions& options) {
  PLIMSOLL_RETURN_IF_ERROR(partition::validate(graph));
  PLIMSOLL_RETURN_IF_ERROR(partition::validate(graph, terms));
  if (!options.stated.empty() && options.stated.size() != placement.stages.size()) {
    return fail(ErrorCode::kSchema, "stated",
                std::to_string(options.stated.size()) + " stated stages for " +
                    std::to_string(placement.stages.size()),
                "give one for each stage, or none");
  }
  return ReplicatedStagesJudge(graph, terms, placement, options).judge();
}

}  // namespace plimsoll::check
