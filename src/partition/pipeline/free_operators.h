// A pipeline model without the operators that cost nothing anywhere.
//
// An operator without time, parameters and bytes on every degree, none of whose edges moves
// anything, may always run where its first reader runs: its predecessors stand no later than that.
// So it is left out, its predecessors joined to its readers, and put back into a finished plan.
// Every one that is left out may halve the number of downsets.
#pragma once

#include <vector>

#include "plimsoll/partition/pipeline_model.h"
#include "plimsoll/partition/pipeline_plan.h"

namespace plimsoll::partition {

struct ReducedPipeline {
  PipelineModel model;
  std::vector<int> kept;  // [operators of `model`] of the original, ascending
};

// At least one operator is kept.
ReducedPipeline drop_free_operators(const PipelineModel& model);

// A plan of the original from one of the reduced model.
PipelinePlan restore_operators(const PipelineModel& original, const ReducedPipeline& reduced,
                               const PipelinePlan& plan);

}  // namespace plimsoll::partition
