// Pipelines that are assembly lines: straight ones in which a stage takes the sum of its operators'
// times and nothing else matters. See line_balancing.h.
#pragma once

#include <vector>

#include "partition/graph/group_graph.h"
#include "plimsoll/partition/plan_pipeline.h"

namespace plimsoll::partition {

// No replicas, no memory cap, no edge that costs anything, one degree, stages that may be fewer
// than devices, and the slowest of them as the objective.
bool is_line(const PipelineModel& model, const PipelineOptions& options);

// `station_of`: [num_groups] of make_replicated_groups(model), the first one ends the pipeline.
PipelinePlan make_line_plan(const PipelineModel& model, const GroupGraph& groups,
                            const std::vector<int>& station_of);

}  // namespace plimsoll::partition
