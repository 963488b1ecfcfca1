// Partitions from operators' devices.
//
// Method. Every operator begins as a partition. All operators of a device are merged if no
// partitions then wait for each other and the critical path is no longer; else, in graph order,
// each with the partition of an operator that it reads on its device, under the same condition.
// Cost. O(nodes + edges) for each attempt; attempts end after so many that a large graph keeps more
// partitions. Promises. The critical path stays what it was. On one device all is one partition.
#pragma once

#include <vector>

#include "partition/fx_search/fx_problem.h"
#include "plimsoll/partition/graph.h"
#include "plimsoll/partition/partitioner_config.h"
#include "plimsoll/partition/placement.h"

namespace plimsoll::partition {

// `device` is [num_operators], `value` its critical path.
Placement make_placement(const Graph& graph, const PartitionerConfig& config,
                         const FxProblem& problem, const std::vector<int>& device, double value,
                         bool merges);

}  // namespace plimsoll::partition
