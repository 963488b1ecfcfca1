// Pipeline plans as JSON: "plimsoll.pipeline_plan/1".
//
// A stage names its operators by their place in the model, and for each its choice by name. What
// was predicted and how the search ended stand beside it. Strictness as in model_json.h.
#pragma once

#include <string>
#include <string_view>

#include "plimsoll/core/result.h"
#include "study/partition/pipeline_answer.h"

namespace plimsoll::io {

using study::make_pipeline_plan;
using study::make_stage_entries;
using study::PipelineAnswer;
using study::PipelineStageEntry;

// Besides the shape: stages or a status; in a stage one choice for each operator. Whether the plan
// suits a model is the checker's question. Errors: kSyntax, kSchema, kValue, kOverflow, kConflict.
Result<PipelineAnswer> read_pipeline_answer(std::string_view text, std::string_view file);
std::string write_pipeline_answer(const PipelineAnswer& answer);

}  // namespace plimsoll::io
