// What makes a pipeline of replicated stages over a cost graph right, and what its batch takes,
// checked independently of the search: only the graph's data and the terms are shared with the
// search.
//
// Every node stands in one stage, colours in the same one, values of the forward pass lead to later
// stages only; a stage has devices of one class that may run all its nodes, no device has two
// stages; replicas divide the microbatches. Times, bytes and microbatches in flight by the formulas
// of replicated_stages.h, computed again. Source:
// docs/partition.md#a-batch-through-replicated-stages.
#pragma once

#include <optional>
#include <vector>

#include "plimsoll/check/placement_check.h"
#include "plimsoll/core/result.h"
#include "plimsoll/partition/replicated_stages.h"

#pragma GCC visibility push(default)
namespace plimsoll::check {

// What a plan says of one of its stages.
struct StatedStage {
  StatedDevice device;
  std::optional<double> sync_ms;
  std::optional<int> in_flight;
  bool operator==(const StatedStage&) const = default;
};

struct ReplicatedStagesCheckOptions {
  std::optional<double> stated_batch_ms;  // compared at 1e-9 relative, as other times
  std::vector<StatedStage> stated = {};   // [num_stages], or empty
  std::vector<partition::DeviceClass> stated_classes = {};  // empty: not stated
};

// Figures of a stage stand at each of its devices; what does not exist is left out. Errors are bad
// arguments only: graph or terms that are not valid, another number of stated stages.
Result<PlacementReport> check_replicated_stages(const partition::CostGraph& graph,
                                                const partition::PipelineTerms& terms,
                                                const partition::ReplicatedStages& placement,
                                                const ReplicatedStagesCheckOptions& options = {});

}  // namespace plimsoll::check
#pragma GCC visibility pop
