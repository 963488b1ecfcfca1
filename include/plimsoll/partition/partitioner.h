// The reference search: torch.fx's accelerator Partitioner, decision by decision.
//
// Problem. Partition a graph so that each partition fits a device, by one of five modes.
// Method. The checks in upstream's order; one partition if the largest device holds the whole graph
// (asked before the mode, unless the mode is aot_based); else the mode; then copies on idle
// devices; then the split into calls. Costs stand at each mode. Promises. Equal to upstream with
// its sets taken in graph order, to the last digit and letter. Departures. Latencies and rates
// below zero are refused. No limit on the length of a path, no output to the terminal, nothing is
// kept between calls. Whether a module is an embedding is the caller's to say. A call_function that
// is too large for sparse_nn is named a 'function'. Source:
// docs/mathematics/torch-fx-partitioner.md#order-of-decisions.
#pragma once

#include <optional>

#include "plimsoll/core/outcome.h"
#include "plimsoll/core/result.h"
#include "plimsoll/partition/dialect.h"
#include "plimsoll/partition/graph.h"
#include "plimsoll/partition/partitioner_config.h"
#include "plimsoll/partition/placement.h"

#pragma GCC visibility push(default)
namespace plimsoll::partition {

struct ReferencePartition {
  // `optimal` is never said; `limit` where the search ends without a placement. The objective is
  // the critical path in seconds, NaN where it is not known.
  Outcome<Placement> outcome;
  std::optional<Error> failure;  // without a placement: kPlanner; `kind` is Python's class
  SplitGraph split;              // empty without a placement
};

// Errors: as validate() and make_graph() say; kRuntime, with Python's class in `kind`, and
// kZeroDivision where upstream raises because of its input. The text is upstream's.
Result<ReferencePartition> partition_like_torch(const Graph& graph, const PartitionerConfig& config,
                                                const Dialect& dialect = default_dialect());

}  // namespace plimsoll::partition
#pragma GCC visibility pop
