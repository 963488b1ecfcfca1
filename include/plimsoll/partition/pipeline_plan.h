// Which stage runs which operators, on how many devices, and how; and what that costs.
#pragma once

#include <vector>

#include "plimsoll/core/units.h"
#include "plimsoll/partition/pipeline_model.h"

#pragma GCC visibility push(default)
namespace plimsoll::partition {

struct PipelineStage {
  std::vector<int> operators;  // ascending, at least one
  std::vector<int> choices;    // [operators] places among the choices of the stage's degree
  int data_parallel = 1;       // >= 1, replicas
  int tensor_parallel = 1;     // >= 1, devices of a replica
  int num_devices() const { return data_parallel * tensor_parallel; }
  bool operator==(const PipelineStage&) const = default;
};

struct PipelinePlan {
  std::vector<PipelineStage> stages;  // in the direction of data
  bool operator==(const PipelinePlan&) const = default;
};

struct StageFigures {
  double time_ms = 0;  // of a microbatch
  int in_flight = 1;   // microbatches that a device holds
  Bytes memory = 0;    // of a device
  bool operator==(const StageFigures&) const = default;
};

// Do the operators, degrees and choices of the plan exist in the model?
bool is_plan_of(const PipelineModel& model, const PipelinePlan& plan);

// What every stage costs, by the formulas of pipeline_model.h; operators in order, edges in order.
// [num_stages]. Precondition: a valid model, a plan of operators, degrees and choices that exist.
std::vector<StageFigures> figures_of_stages(const PipelineModel& model, const PipelinePlan& plan);

}  // namespace plimsoll::partition
#pragma GCC visibility pop
