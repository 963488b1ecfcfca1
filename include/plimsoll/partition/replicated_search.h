// Pipelines of replicated stages for any cost graph: the batch that takes the least time.
//
// Problem. As in replicated_stages.h. Method. Groups that must share a stage, or may share one at
// no cost, become one. What the last stages do is a downset of the reversed groups; the best chain
// of downsets whose stages keep a limit is found by dynamic programming (replica_chain.h), and the
// limit is branched on: in a < slowest < b nothing beats the least sum under b plus (n - 1) a.
// First over the prefixes of some topological orders, then over the downsets of coarsened groups,
// where there are many, then over all downsets. With pair rates chains are priced at the fastest
// rate of each device, which makes a bound; the plan is charged truly. Cost. Proportional to the
// pairs of downsets, some twenty times; limits cut it off. Promises. A finished search is optimal
// to 1e-9 relative, or proves that no pipeline exists; with pair rates it may leave a gap. Too many
// groups, downsets or pairs, the clock or a cancel leave the best plan known with a bound from work
// and bytes. The answer is a function of graph, terms and options, unless a clock or a cancel cut
// it. Not promised. Stages that are not contiguous; stages on devices of several classes. Sources:
// docs/partition.md#a-batch-through-replicated-stages, docs/mathematics/placements.md#alpa.
// Departure from plan_pipeline.h: values are paid for once a stage, devices have classes, operators
// one choice.
#pragma once

#include <cstdint>

#include "plimsoll/core/outcome.h"
#include "plimsoll/core/result.h"
#include "plimsoll/core/run_context.h"
#include "plimsoll/partition/replicated_stages.h"

#pragma GCC visibility push(default)
namespace plimsoll::partition {

// Each only saves work: without it the optimum is the same.
struct ReplicatedSearchRules {
  bool absorbs_groups = true;      // merges that never cost anything
  bool starts_from_orders = true;  // upper bounds from topological orders
  bool starts_coarsely = true;     // and from the downsets of merged groups
  bool prices_devices = true;      // bounds by prices on device time and bytes
  bool bounds_by_paths = true;     // of straight pipelines, where downsets are too many
  bool uses_windows = true;        // stages and states that a limit excludes
};

struct ReplicatedSearchOptions {
  // Effort: pairs of downsets looked at, by default 200,000,000; one counts as several where there
  // are many ways to use devices. Seed: of the random orders.
  // Tolerance: the gap at which a plan counts as optimal.
  SearchOptions search;
  std::int64_t max_downsets = std::int64_t{1} << 16;  // >= 1; more are not enumerated
  int max_groups = 4096;  // >= 1; of more all downsets are not asked for
  int num_orders = 4;     // >= 1; the start's topological orders
  ReplicatedSearchRules rules;
};

struct ReplicatedSearch {
  Outcome<ReplicatedStages> outcome;  // objective: the batch, ms
  int num_groups = 0;                 // after merging
  std::int64_t num_downsets = 0;      // of the last search over all of them
  std::int64_t num_pairs = 0;         // looked at in all
};

// Errors: as validate() says of graph and terms; kUsage for options outside their ranges.
Result<ReplicatedSearch> search_replicated_stages(const CostGraph& graph,
                                                  const PipelineTerms& terms,
                                                  const ReplicatedSearchOptions& options = {},
                                                  const RunContext& context = {});

}  // namespace plimsoll::partition
#pragma GCC visibility pop
