// Operators that fit no stage, however small.
#pragma once

#include "plimsoll/core/outcome.h"
#include "plimsoll/partition/pipeline_model.h"

namespace plimsoll::partition {

// A line for each operator that no stage of its own could run: then there is no pipeline. No lines:
// there is none such.
Explanation explain_lone_operators(const PipelineModel& model);

}  // namespace plimsoll::partition
