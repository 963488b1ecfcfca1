// Partitions from operators' devices.
//
// Method. Every operator begins as a partition. In graph order, each is merged with the partition
// of an operator that it reads, if they share the device, no partitions then wait for each other
// and the critical path is no longer. Cost. O(nodes + edges) for each attempt; attempts end after
// so many that a large graph keeps more partitions. Promises. The critical path stays what it was.
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
