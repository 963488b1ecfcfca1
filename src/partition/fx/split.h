// What remains of a graph when every partition has become one call.
//
// Source: docs/mathematics/torch-fx-partitioner.md#split-and-dag.
#pragma once

#include "plimsoll/core/result.h"
#include "plimsoll/partition/dialect.h"
#include "plimsoll/partition/graph.h"
#include "plimsoll/partition/placement.h"

namespace plimsoll::partition {

// Splits by `node_to_partition` and describes each call by the partition of that index. Errors:
// kRuntime of kind "KeyError" (an operator without a partition) or "IndexError" (an id that is not
// an index); kPlanner (partitions that need each other, or a partition whose values nobody reads
// where the dialect refuses it).
Result<SplitGraph> split_graph(const Graph& graph, const Placement& placement,
                               const Dialect& dialect);

}  // namespace plimsoll::partition
