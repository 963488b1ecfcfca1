// What planning operators over devices answers, and how placements become one and are taken back
// from it. Nodes stand by name; where a graph's file knows them by number, by that.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "plimsoll/core/result.h"
#include "plimsoll/core/units.h"
#include "plimsoll/partition/cost_graph.h"
#include "plimsoll/partition/device_assignment.h"
#include "plimsoll/partition/objective.h"
#include "plimsoll/partition/placement.h"
#include "plimsoll/partition/replicated_stages.h"
#include "plimsoll/study/answer.h"

#pragma GCC visibility push(default)
namespace plimsoll::study {

// What one device runs, or several that do the same. What nobody measured is absent.
struct PlacedStage {
  std::optional<int> id;     // of torch.fx's partition
  std::vector<int> devices;  // distinct
  std::string device_class;  // empty where devices have no classes
  std::optional<double> compute_ms, transfer_ms, load_ms;
  std::optional<double> sync_ms;  // of a pipeline: until its replicas agree; part of load_ms
  std::optional<int> in_flight;   // of a pipeline: microbatches that a device holds
  Bytes memory = 0;
  std::optional<Bytes> memory_cap;  // of each of its devices; absent: no limit
  std::vector<std::string> nodes;
  // torch.fx's list where it names a device twice, which devices cannot; else empty.
  std::vector<int> logical_device_ids = {};
  bool operator==(const PlacedStage&) const = default;
};

// A value that devices move.
struct PlacedCut {
  std::string producer;
  int from = 0;         // device
  std::vector<int> to;  // devices
  double amount = 0;    // as the graph counts it: bytes, or ms where its links have no rates
  double ms = 0;        // what it takes the device that needs longest for it
  bool operator==(const PlacedCut&) const = default;
};

struct PlacementAnswer : Answer<std::vector<PlacedStage>> {
  partition::Objective objective = partition::Objective::kThroughput;
  std::optional<bool> is_contiguous;  // the stages stand in a line
  std::vector<partition::DeviceClass> classes;
  std::vector<PlacedCut> cuts;
  std::map<std::string, int> node_to_partition;  // torch.fx: what the graph is split by
  std::vector<partition::DagNode> calls;         // torch.fx: the calls that are left
  bool operator==(const PlacementAnswer&) const = default;
};

// Sets both lists of the stage's devices from torch.fx's.
void put_logical_devices(const std::vector<int>& ids, PlacedStage& stage);

// Stages, cuts and classes of that assignment; `names` are the nodes' own. Precondition: a valid
// graph, an assignment of its length to devices that exist, as many names.
void put_assignment(const partition::CostGraph& graph, std::span<const std::string> names,
                    const partition::DeviceAssignment& assignment, PlacementAnswer& answer);

// The same of a pipeline of replicated stages. Precondition: as figures_of_stages() says.
void put_pipeline(const partition::CostGraph& graph, const partition::PipelineTerms& terms,
                  std::span<const std::string> names, const partition::ReplicatedStages& placement,
                  PlacementAnswer& answer);

// And back; nodes without a stage are the checker's to find. Errors at `file`: kValue (no stages,
// a name that no node has).
Result<partition::ReplicatedStages> take_pipeline(const PlacementAnswer& answer,
                                                  std::span<const std::string> names,
                                                  std::string_view file);

// An assignment, back. Errors at `file`: kValue (no stages, a name that no node has, a node
// without a device), kConflict (a stage with several devices, which such an assignment cannot say).
Result<partition::DeviceAssignment> take_assignment(const PlacementAnswer& answer,
                                                    std::span<const std::string> names,
                                                    std::string_view file);

}  // namespace plimsoll::study
#pragma GCC visibility pop
