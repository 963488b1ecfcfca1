// The operators of a pipeline model as groups that downsets are made of.
#pragma once

#include "partition/graph/group_graph.h"
#include "plimsoll/partition/pipeline_model.h"

namespace plimsoll::partition {

// The operators against the direction of data, each a group of its own; a group's time is the least
// device time of its operator. Without nets: what edges cost depends on the stage's degree.
GroupGraph make_replicated_groups(const PipelineModel& model);

}  // namespace plimsoll::partition
