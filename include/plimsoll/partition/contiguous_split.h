// Pipelines with the least largest load: every device runs one contiguous piece of the graph.
//
// Problem. Give every node of a cost graph a device, within permissions, memory caps and colours,
// such that the devices stand in a line and no value of the forward pass travels backwards (and,
// in training, none of the backward pass forwards). Make the largest load of a device, its time and
// what it moves, as small as possible: that is the time per sample of a saturated pipeline.
// Method. Groups that must share a device, or may share one at no cost, become one. What a pipeline
// has done after some stages is a downset of groups; the best chain of downsets is found by dynamic
// programming. First only over the prefixes of some topological orders, which gives a good plan
// fast; then over all downsets, with the answer guessed from below: a limit that no chain meets is
// a new lower bound, the first that one meets ends the search, and while the limit is low only few
// downsets can stand between two stages. Where not everything fits one device, memory caps are left
// out first: that answer is a bound, and final if it happens to fit. Where groups are too many they
// are coarsened first (acyclic_coarsening.h), and where downsets are not exhausted the plan is
// refined by annealing that keeps to the order (multilevel.h), and a path through the graph bounds
// what stages must move (path_bound.h). Weights are charged exactly,
// once for every stage that reads them. With pair rates the chains are priced at the fastest rate
// of each device, which makes a bound; the plan is charged truly, after devices have traded stages.
// Where a gap is left, every split of a small graph that could be better is tried.
// Cost. Proportional to the downsets and, at worst, to their square; both are cut off by limits.
// Promises. A finished search is optimal to rounding (1e-9 relative) or proves that no split
// exists; with pair rates it may leave a gap beyond twelve groups on four devices. Too many
// downsets, too many pairs, the clock or a cancel leave the best plan known with its bound. The
// answer is a function of graph and options, unless a clock or a cancel cut it. Not promised.
// Splits that are not contiguous are often better; this search does not know them. Source: J.
// Tarnawski et al., "Efficient algorithms for device placement of DNN graph operators", NeurIPS
// 2020, https://arxiv.org/abs/2006.16423; docs/mathematics/placements.md#contiguous-splits.
// Departures: costs of a stage from the two downsets at its ends, guesses from below, orders as a
// start.
#pragma once

#include <cstdint>

#include "plimsoll/core/outcome.h"
#include "plimsoll/core/result.h"
#include "plimsoll/core/run_context.h"
#include "plimsoll/partition/cost_graph.h"
#include "plimsoll/partition/device_assignment.h"

#pragma GCC visibility push(default)
namespace plimsoll::partition {

// Each only saves work: without it the optimum is the same.
struct ContiguousRules {
  bool absorbs_groups = true;      // merges that never cost anything
  bool starts_from_orders = true;  // an upper bound from topological orders
  bool guesses_from_below = true;  // limits that grow towards the upper bound
  bool uses_windows = true;        // downsets that a limit excludes after a set of devices
  bool relaxes_memory = true;      // a bound, and with luck the answer, without memory caps
  bool refines_in_order = true;    // annealing where the downsets are not exhausted
  bool bounds_by_paths = true;     // there, what the stages along a path must move
  bool tries_everything = true;    // of small graphs, where chains leave a gap
};

struct ContiguousSplitOptions {
  // Effort: pairs of downsets looked at, moves and splits tried; by default 2,000,000,000. Seed: of
  // the random orders. Tolerance is not used.
  SearchOptions search;
  std::int64_t max_downsets = std::int64_t{1} << 19;  // >= 1; more are not enumerated
  int max_groups = 2048;  // >= 1; more are coarsened first, and refined after
  int num_orders = 8;     // >= 1; the start's topological orders
  ContiguousRules rules;
};

struct ContiguousSplit {
  Outcome<DeviceAssignment> outcome;  // objective: the largest load, ms
  int num_groups = 0;                 // after merging
  std::int64_t num_downsets = 0;      // enumerated in the last search over all of them
  std::int64_t num_pairs = 0;         // looked at in all
};

// Errors: as validate() says; kUsage for options outside their ranges.
Result<ContiguousSplit> split_contiguously(const CostGraph& graph,
                                           const ContiguousSplitOptions& options = {},
                                           const RunContext& context = {});

}  // namespace plimsoll::partition
#pragma GCC visibility pop
