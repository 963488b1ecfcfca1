// What planning a pipeline of replicated stages over a profile answers.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "plimsoll/core/result.h"
#include "plimsoll/core/units.h"
#include "plimsoll/partition/pipeline_model.h"
#include "plimsoll/partition/pipeline_plan.h"
#include "plimsoll/study/answer.h"

namespace plimsoll::study {

struct PipelineStageEntry {
  std::vector<int> operators;        // places in the model
  std::vector<std::string> choices;  // [operators] names
  int data_parallel = 1;
  int tensor_parallel = 1;
  std::optional<double> time_ms;  // predicted, of a microbatch
  std::optional<int> in_flight;   // microbatches that a device holds
  std::optional<Bytes> memory;    // of a device
  bool operator==(const PipelineStageEntry&) const = default;
};

// Stages in the direction of data, and what is known of them.
struct PipelineAnswer : Answer<std::vector<PipelineStageEntry>> {
  std::string input_hash;            // of the model, hexadecimal; may be empty
  std::string objective;             // such as "slowest_stage"; may be empty
  std::optional<double> slowest_ms;  // predicted
  std::optional<int> num_devices;    // that were given
  bool operator==(const PipelineAnswer&) const = default;
};

// The stages of a plan, with figures. Precondition: operators, degrees and choices exist.
std::vector<PipelineStageEntry> make_stage_entries(const partition::PipelineModel& model,
                                                   const partition::PipelinePlan& plan);

// The plan that the stages name. Errors, at "stage 2": kValue for an operator, degree or choice
// that the model does not know, kUsage for an answer without stages.
Result<partition::PipelinePlan> make_pipeline_plan(const partition::PipelineModel& model,
                                                   const PipelineAnswer& answer);

}  // namespace plimsoll::study
