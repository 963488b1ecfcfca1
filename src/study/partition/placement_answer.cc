#include "plimsoll/study/placement_answer.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>

#include "core/check.h"
#include "partition/graph/assignment_figures.h"
#include "partition/graph/placement_bill.h"

namespace plimsoll::study {

using partition::CostGraph;
using partition::CutValue;
using partition::DeviceAssignment;
using partition::DeviceClass;
using partition::Stage;

namespace {

std::string place_in(std::string_view file, const std::string& pointer) {
  return fmt::format("{}#{}", file, pointer);
}

Result<void> need_stages(const PlacementAnswer& answer, std::string_view file) {
  if (answer.plan) return {};
  return fail(ErrorCode::kValue, std::string(file), "the answer holds no placement", "plan again");
}

// Nodes by name.
class NodeIndex {
 public:
  explicit NodeIndex(std::span<const std::string> names) {
    for (std::size_t i = 0; i < names.size(); ++i) index_.emplace(names[i], static_cast<int>(i));
  }
  // The node that stands in place i of stage s.
  Result<int> find(const PlacementAnswer& answer, std::size_t s, std::size_t i,
                   std::string_view file) const {
    const std::string& name = (*answer.plan)[s].nodes[i];
    const auto node = index_.find(name);
    if (node != index_.end()) return node->second;
    return fail(ErrorCode::kValue, place_in(file, fmt::format("/stages/{}/nodes/{}", s, i)),
                fmt::format("the graph has no node '{}'", name),
                "give the placement of this graph");
  }

 private:
  std::unordered_map<std::string_view, int> index_;
};

}  // namespace

void put_logical_devices(const std::vector<int>& ids, PlacedStage& stage) {
  stage.devices.clear();
  for (const int id : ids) {
    auto& devices = stage.devices;
    if (std::find(devices.begin(), devices.end(), id) == devices.end()) devices.push_back(id);
  }
  stage.logical_device_ids = stage.devices == ids ? std::vector<int>{} : ids;
}

void put_assignment(const CostGraph& graph, std::span<const std::string> names,
                    const DeviceAssignment& assignment, PlacementAnswer& answer) {
  PLIMSOLL_CHECK(names.size() == graph.nodes.size(), "every node has a name");
  PLIMSOLL_CHECK(is_assignment_of(graph, assignment), "every node has a device that exists");
  const partition::PlacementBill bill = make_placement_bill(graph, assignment);
  answer.is_contiguous = bill.is_line;
  answer.classes = graph.classes;
  answer.plan.emplace();
  for (const Stage& stage : bill.stages) {
    const DeviceClass& devices = graph.classes[graph.class_of(stage.device)];
    PlacedStage& placed = answer.plan->emplace_back();
    placed.devices = {stage.device};
    placed.device_class = devices.name;
    placed.compute_ms = stage.compute_ms;
    placed.transfer_ms = stage.transfer_ms;
    placed.load_ms = stage.load_ms;
    placed.memory = stage.memory;
    placed.memory_cap = devices.memory_cap;
    for (const int node : stage.nodes) placed.nodes.push_back(names[node]);
  }
  answer.cuts.clear();
  for (const CutValue& cut : bill.cuts) {
    const partition::Net& net = graph.nets[cut.net];
    answer.cuts.push_back({names[net.producer], cut.from, cut.to, net.amount, cut.ms});
  }
}

void put_pipeline(const CostGraph& graph, const partition::PipelineTerms& terms,
                  std::span<const std::string> names, const partition::ReplicatedStages& placement,
                  PlacementAnswer& answer) {
  PLIMSOLL_CHECK(names.size() == graph.nodes.size(), "every node has a name");
  const auto figures = figures_of_stages(graph, terms, placement);
  answer.is_contiguous = true;
  answer.classes = graph.classes;
  answer.plan.emplace();
  DeviceAssignment stage_of;
  stage_of.device.resize(names.size());
  for (std::size_t s = 0; s < placement.stages.size(); ++s) {
    const partition::ReplicatedStage& stage = placement.stages[s];
    const DeviceClass& devices = graph.classes[graph.class_of(stage.devices.front())];
    PlacedStage& placed = answer.plan->emplace_back();
    placed.devices = stage.devices;
    placed.device_class = devices.name;
    placed.compute_ms = figures[s].compute_ms;
    placed.transfer_ms = figures[s].transfer_ms;
    placed.sync_ms = figures[s].sync_ms;
    placed.load_ms = figures[s].time_ms();
    placed.in_flight = figures[s].in_flight;
    placed.memory = figures[s].memory;
    placed.memory_cap = devices.memory_cap;
    for (const int node : stage.nodes) {
      placed.nodes.push_back(names[node]);
      stage_of.device[node] = static_cast<int>(s);
    }
  }
  answer.cuts.clear();
  for (const partition::Net& net : graph.nets) {
    const std::vector<int> holders = holders_of(net, stage_of);
    if (holders.size() == 1) continue;
    const int source = stage_of.device[net.producer];
    PlacedCut cut{names[net.producer], placement.stages[source].devices.front(), {}, net.amount, 0};
    for (const int s : holders) {
      if (s != source) cut.to.push_back(placement.stages[s].devices.front());
      cut.ms = std::max(cut.ms, transfer_ms(graph, net, placement, source, holders, s));
    }
    answer.cuts.push_back(std::move(cut));
  }
}

Result<DeviceAssignment> take_assignment(const PlacementAnswer& answer,
                                         std::span<const std::string> names,
                                         std::string_view file) {
  PLIMSOLL_RETURN_IF_ERROR(need_stages(answer, file));
  const NodeIndex index(names);
  DeviceAssignment assignment;
  assignment.device.assign(names.size(), -1);
  for (std::size_t s = 0; s < answer.plan->size(); ++s) {
    const PlacedStage& stage = (*answer.plan)[s];
    if (stage.devices.size() != 1) {
      return fail(ErrorCode::kConflict, place_in(file, fmt::format("/stages/{}/devices", s)),
                  fmt::format("{} devices run the stage", stage.devices.size()),
                  "give a placement in which each stage has one device");
    }
    for (std::size_t i = 0; i < stage.nodes.size(); ++i) {
      PLIMSOLL_ASSIGN(const int node, index.find(answer, s, i, file));
      assignment.device[node] = stage.devices.front();
    }
  }
  const auto missing = std::find(assignment.device.begin(), assignment.device.end(), -1);
  if (missing != assignment.device.end()) {
    const std::string& name = names[static_cast<std::size_t>(missing - assignment.device.begin())];
    return fail(ErrorCode::kValue, place_in(file, "/stages"),
                fmt::format("node '{}' has no device", name), "place every node");
  }
  return assignment;
}

Result<partition::ReplicatedStages> take_pipeline(const PlacementAnswer& answer,
                                                  std::span<const std::string> names,
                                                  std::string_view file) {
  PLIMSOLL_RETURN_IF_ERROR(need_stages(answer, file));
  const NodeIndex index(names);
  partition::ReplicatedStages placement;
  for (std::size_t s = 0; s < answer.plan->size(); ++s) {
    const PlacedStage& stage = (*answer.plan)[s];
    partition::ReplicatedStage& taken = placement.stages.emplace_back();
    taken.devices = stage.devices;
    std::sort(taken.devices.begin(), taken.devices.end());
    for (std::size_t i = 0; i < stage.nodes.size(); ++i) {
      PLIMSOLL_ASSIGN(const int node, index.find(answer, s, i, file));
      taken.nodes.push_back(node);
    }
    std::sort(taken.nodes.begin(), taken.nodes.end());
  }
  return placement;
}

}  // namespace plimsoll::study
