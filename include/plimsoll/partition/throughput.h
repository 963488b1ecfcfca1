// The placement with the least largest load, whatever the graph: the one way in for objective
// `throughput`.
//
// Problem. As in contiguous_split.h, or, where devices may run any parts, in general_placement.h.
// Method. What cannot be placed at all is told apart first, with the reason. The contiguous split
// is exact where the downsets can be enumerated, coarsened and refined where not. For a general
// placement it is the start, and multilevel refinement follows. At the end programs may raise the
// bound, and sometimes meet a better plan.
// Cost. With a clock, the split of a general placement takes a third of it at most, and programs
// what their own limit says.
// Promises. The certificate's bound holds for the placements asked for; its proof says where it is
// from. A plan for any graph that leaves room, after about a second for each 100,000 nodes where
// the clock allows no more.
#pragma once

#include <cstdint>
#include <optional>

#include "plimsoll/core/outcome.h"
#include "plimsoll/core/result.h"
#include "plimsoll/core/run_context.h"
#include "plimsoll/partition/contiguous_split.h"
#include "plimsoll/partition/cost_graph.h"
#include "plimsoll/partition/device_assignment.h"
#include "plimsoll/partition/general_placement.h"

#pragma GCC visibility push(default)
namespace plimsoll::partition {

struct ThroughputOptions {
  bool is_contiguous = true;  // every device runs one contiguous piece
  // Effort: of the split, and again of the refinement, in their own units.
  SearchOptions search;
  // > 0, after the search and beside its clock; absent: no mixed-integer programs.
  std::optional<double> program_time_limit_s;
};

struct ThroughputPlacement {
  Outcome<DeviceAssignment> outcome;  // objective: the largest load, ms
  int num_groups = 0;                 // after merging
  std::int64_t num_pairs = 0;         // of downsets, and moves of the split's refinement
  std::int64_t num_moves = 0;         // of the general refinement
};

// Errors: as validate() says; kUsage for options outside their ranges.
Result<ThroughputPlacement> place_for_throughput(const CostGraph& graph,
                                                 const ThroughputOptions& options = {},
                                                 const RunContext& context = {});

}  // namespace plimsoll::partition
#pragma GCC visibility pop
