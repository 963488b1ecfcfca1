// Placements on which one sample takes least time.
//
// Problem. Give every node of a cost graph a device, within permissions, memory caps and colours,
// such that the latency of one sample, as sample_latency.h says, is as small as possible. NP-hard.
// Method. Chains of stages along topological orders (dynamic programming) give good plans fast;
// annealing over single groups, runs, tasks and borders improves the best. Small graphs are then
// searched to the end. The bound is the larger of the longest path without transfers and of paths
// cut into runs that fit their devices.
// Cost. One evaluation, O(nodes + pins * accelerators), a unit of effort.
// Promises. Caps hold strictly. Never worse than fill_greedily() where the effort allows a start.
// `optimal` only where bound and value meet, or the search through everything ended, as it does by
// default on graphs of up to twelve groups on up to four devices. The answer is
// a function of graph and options, unless a clock or a cancel cut it. Not promised. On a large
// graph the gap may be wide: what transfers cost in parallel branches is in no bound. `limit` says
// that no plan was found, not that there is none. Sources:
// docs/mathematics/placements.md#one-sample, docs/partition.md#one-samples-latency.
#pragma once

#include <cstdint>
#include <optional>

#include "plimsoll/core/outcome.h"
#include "plimsoll/core/result.h"
#include "plimsoll/core/run_context.h"
#include "plimsoll/partition/cost_graph.h"
#include "plimsoll/partition/device_assignment.h"

#pragma GCC visibility push(default)
namespace plimsoll::partition {

// Each can be left out: the answer may be worse, never wrong.
struct LatencyRules {
  bool uses_chains = true;  // starts by dynamic programming; else fill_greedily() alone
  bool anneals = true;
  bool searches_tree = true;  // small graphs to the end
  bool uses_spines = true;    // the second bound
  bool uses_cuts = true;      // its maximum flows
};

struct LatencySearchOptions {
  // Effort: evaluations; by default 400,000, less for large graphs, and for graphs of up to twelve
  // groups on four devices as many as trying everything takes. Runs of annealing are cut for
  // the default: another effort stops them, or does them again. Tolerance and seed count.
  SearchOptions search;
  int num_orders = 24;  // >= 1; topological orders of the start
  LatencyRules rules;
};

struct LatencyPlacement {
  Outcome<DeviceAssignment> outcome;  // objective: the latency, ms
  // Where a clock or a cancel stopped the search, it stops there again when that is its effort.
  std::int64_t num_evaluations = 0;
};

// Errors: as validate() says; kUsage for options outside their ranges.
Result<LatencyPlacement> place_for_latency(const CostGraph& graph,
                                           const LatencySearchOptions& options = {},
                                           const RunContext& context = {});

// The published baseline "greedy" (docs/mathematics/placements.md#one-sample): what must share a
// device becomes a block; blocks in a topological order, depth first, fill one accelerator after
// the other up to its cap; what is left, or does not fit an empty accelerator, goes to the first
// host that may run it. Nothing where there is none. Precondition: a valid graph.
std::optional<DeviceAssignment> fill_greedily(const CostGraph& graph);

}  // namespace plimsoll::partition
#pragma GCC visibility pop
