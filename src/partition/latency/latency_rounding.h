// A placement from the runs of a lower bound.
//
// Method. Every run (latency_bound.h) takes a device of its own; a group goes where most of its
// nodes are, unless the device has no room left. All others go to a host, and then, one after the
// other in topological order, to the best of their neighbours' devices, as long as that helps.
// Cost. Some evaluations for each group that is in no run. Promises. Caps, permissions and colours
// are kept; nothing where a group finds no device.
#pragma once

#include <cstdint>
#include <vector>

#include "partition/latency/latency_bound.h"
#include "partition/latency/latency_groups.h"
#include "plimsoll/partition/cost_graph.h"

namespace plimsoll::partition {

// Empty where a group finds no device. `effort_left` falls by the evaluations made; none is made
// once it is 0.
std::vector<int> round_runs(const CostGraph& graph, const LatencyGroups& groups,
                            const std::vector<SpineRun>& runs, std::int64_t& effort_left);

}  // namespace plimsoll::partition
