// The least latency of a small graph, by trying everything that may be better than what is known.
//
// Method. Branch and bound over nodes in topological order. What the nodes placed so far take is
// never more than what any completion takes (sample_latency.h), also with the least time of the
// longest path of nodes that are still to come behind each of them, whether these join its task or
// wait for it; a branch ends where that reaches the best. Of devices that are interchangeable and
// empty only the first is tried.
// Cost. Exponential; one evaluation a branch, which is one unit of effort.
// Source: docs/mathematics/placements.md#one-sample.
#pragma once

#include <cstdint>
#include <vector>

#include "partition/latency/latency_groups.h"
#include "plimsoll/core/run_context.h"
#include "plimsoll/partition/cost_graph.h"

namespace plimsoll::partition {

struct LatencyTree {
  std::int64_t max_evaluations = 0;
  std::int64_t num_evaluations = 0;  // done
  bool is_complete = false;          // nothing is better than the plan left
};

// Replaces `plan` and `value` (kUnlimited and empty: none yet) by what is better by more than 1e-12
// relative.
void search_latency_tree(const CostGraph& graph, const LatencyGroups& groups, LatencyTree& tree,
                         std::vector<int>& plan, double& value, const RunContext& context);

}  // namespace plimsoll::partition
