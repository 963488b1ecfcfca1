// Partitions with the least critical path under torch.fx's cost model, beyond cost_aware and KL.
//
// Problem. Give every operator a partition and every partition a device, within the devices' bytes
// and without partitions that wait for each other, such that the critical path (latency.h) is as
// short as possible. NP-hard.
// Method. With every operator a partition of its own only the devices matter (a coarser partition
// is never faster under this model). Runs of graph order by dynamic programming are the start, and
// what the reference modes answer; small graphs are searched to the end; larger ones are annealed.
// In the end partitions on one device are merged, as long as the critical path stays the same.
// Cost. O(operators + edges) a unit of effort.
// Promises. Never worse than size_based, and up to 100 operators than kl_based and cost_aware,
// where their answer keeps the devices' bytes. Bytes hold: a device holds its operators' total
// sizes, each source and each value from elsewhere once, up to its last byte. `optimal` only where
// bound and value meet, or everything that may be better was tried. The answer is a function of its
// input, unless a clock or a cancel cut it. Departures from the reference modes. None of their
// quirks: a full device is full, not overfull, an exact fit is a fit, what a device holds is
// charged once, and the split is that of the partitions. Not promised. Partitions on one device run
// side by side in this model; on real devices they do not. No plan at all where the effort is 0.
// Source: docs/mathematics/torch-fx-partitioner.md#a-shorter-critical-path.
#pragma once

#include <cstdint>

#include "plimsoll/core/outcome.h"
#include "plimsoll/core/result.h"
#include "plimsoll/core/run_context.h"
#include "plimsoll/partition/dialect.h"
#include "plimsoll/partition/graph.h"
#include "plimsoll/partition/partitioner.h"
#include "plimsoll/partition/partitioner_config.h"

#pragma GCC visibility push(default)
namespace plimsoll::partition {

// Each can be left out: the answer may be worse or less proved, never wrong.
struct FxRules {
  bool searches_tree = true;      // small graphs to the end
  bool starts_from_modes = true;  // the reference's answers, where they fit
  bool anneals = true;
  bool cuts_paths = true;  // bytes in the bound
  bool merges = true;      // else every operator is a partition
};

struct FxSearchOptions {
  // Effort: starts, devices tried for an operator, and moves; by default 400,000, less for large
  // graphs. Rounds are cut for the default: another effort stops them, or does them again.
  // Seed and tolerance count.
  SearchOptions search;
  FxRules rules;
};

struct FxPlacement : ReferencePartition {
  // Units of effort. Where a clock or a cancel stopped the search, it stops there again when that
  // is its effort.
  std::int64_t num_evaluations = 0;
};

// Of the configuration count devices, rate and latencies; mode, mappings and saturate_host do not.
// The objective is the critical path in seconds. Without a placement `failure` is kPlanner.
// Errors: as validate() says; kValue for no devices, no operators or a rate of 0 between operators;
// kConflict for two devices of one logical id; kRuntime for an operator without size or latency;
// kUsage for a tolerance out of its range.
Result<FxPlacement> partition_for_critical_path(const Graph& graph, const PartitionerConfig& config,
                                                const FxSearchOptions& options = {},
                                                const Dialect& dialect = default_dialect(),
                                                const RunContext& context = {});

}  // namespace plimsoll::partition
#pragma GCC visibility pop
