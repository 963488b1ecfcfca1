// latency.h for callers that ask often: scratch space of their own, inputs checked once.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "core/marks.h"
#include "plimsoll/core/result.h"
#include "plimsoll/partition/graph.h"
#include "plimsoll/partition/partitioner_config.h"

namespace plimsoll::partition {

// Every operator among `nodes` has a latency; else kRuntime of kind "KeyError" at the one that a
// depth-first walk meets first.
Result<void> check_latencies(const Graph& graph,
                             const std::vector<std::optional<NodeLatency>>& latencies,
                             std::span<const int> nodes);

// Every operator has a size and a latency. True where one reads another, so that a rate is needed.
Result<bool> check_operators(const Graph& graph,
                             const std::vector<std::optional<NodeLatency>>& latencies);

// Only the overall latency of a partition. `marks` and `sums` are scratch, [num_nodes].
double longest_path(const Graph& graph, const std::vector<std::optional<NodeLatency>>& latencies,
                    std::span<const int> nodes, Marks& marks, std::vector<double>& sums);

}  // namespace plimsoll::partition
