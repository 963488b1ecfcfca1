// The JSON of the planner "Piper": operators with tensor-parallel and recompute choices.
//
// `timePerSample` is read as seconds and `bandwidth` as bytes a second, as the planner reports
// them; in the model both are per ms. Sizes are numbers that may have fractions of a byte; bytes
// that a device holds are rounded up. Strictness as in model_json.h. Source:
// docs/mathematics/placements.md#piper.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "io/json/json_document.h"
#include "plimsoll/core/result.h"
#include "plimsoll/partition/pipeline_model.h"
#include "plimsoll/partition/pipeline_plan.h"

namespace plimsoll::io {

struct PiperInput {
  partition::PipelineModel model;
  std::vector<std::int64_t> ids;  // [num_operators] distinct, the file's names
  bool operator==(const PiperInput&) const = default;
};

// Besides the shape: distinct ids, edges between nodes that exist, one each; degrees that are
// numbers; sync times for exactly the edges there are; no cycle.
Result<PiperInput> read_piper(std::string_view text, std::string_view file);

// Error kUsage for what the format cannot say: no memory cap, no number of microbatches, ids of
// another number; those of validate().
Result<std::string> write_piper(const PiperInput& input);

// Whether this is such a plan as below, with at least one stage.
bool is_piper_plan(const JsonValue& root);

// {"stages": [{"nodes", "dataParallelDegree", "tensorParallelDegree", "TMPCids"}]}, as the planner
// answers. Besides the shape: nodes, degrees and choices that the input knows.
Result<partition::PipelinePlan> read_piper_plan(std::string_view text, std::string_view file,
                                                const PiperInput& input);
Result<partition::PipelinePlan> read_piper_plan(const JsonValue& root, std::string_view file,
                                                const PiperInput& input);
// Precondition: a plan of the input's operators, degrees and choices.
std::string write_piper_plan(const PiperInput& input, const partition::PipelinePlan& plan);

}  // namespace plimsoll::io
