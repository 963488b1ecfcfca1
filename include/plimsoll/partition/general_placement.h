// Placements with the least largest load where a device may run any part of the graph.
//
// Problem. Give every node of a cost graph a device, within permissions, memory caps and colours,
// such that the largest load of a device, its time and what it moves, is small. Nodes of a device
// need not be contiguous: a sample may pass a device several times, and a saturated pipeline still
// takes the largest load per sample. NP-hard, without a constant-factor approximation known.
// Method. Groups of colour mates, those merged that never gain by parting. From a contiguous split,
// from slices of a topological order and from random placements in turn, multilevel refinement
// (multilevel.h): clusters that heavy nets tie, single groups and swaps, annealed level by level.
// Of a graph of up to 32 groups on up to 16 devices every placement that could be better is tried
// after a first refinement, as far as the effort goes: branch and bound.
// Cost. O(nets of a group * devices that hold one of its groups + devices) a move.
// Promises. A valid placement within all caps, no worse than the contiguous split it starts from,
// with a lower bound (placement_bounds.h, without programs). By default the optimum, or the proof
// that there is none, of every graph of up to twelve groups on up to four devices. A function of
// graph and options, unless a clock or a cancel cut it. Reports every improvement to the progress
// callback. Not promised. Beyond that: optimality, unless the bound meets the value; a plan where
// caps are tight. Source: docs/mathematics/placements.md#general-placements. Departures: V-cycles
// within devices instead of clusters at fixed granularities.
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

// Each only saves work or finds better placements sooner.
struct GeneralPlacementRules {
  bool absorbs_groups = true;       // merges that never cost anything
  bool starts_contiguously = true;  // else from slices and random placements only
  bool uses_clusters = true;        // else moves and swaps of single groups
  bool uses_swaps = true;
  bool searches_tree = true;  // small graphs to the end
};

struct GeneralPlacementOptions {
  // Effort: moves tried, and steps of branch and bound; by default 30,000,000. Seed: of everything
  // random. Tolerance: a gap to stop at.
  SearchOptions search;
  std::optional<DeviceAssignment> start;  // [num_nodes] a valid placement to start from, too
  double known_bound = 0;                 // >= 0; a lower bound that the caller has proved
  GeneralPlacementRules rules;
};

struct GeneralPlacement {
  Outcome<DeviceAssignment> outcome;  // objective: the largest load, ms
  int num_groups = 0;                 // after merging
  std::int64_t num_moves = 0;         // tried
};

// Errors: as validate() says; kUsage for options outside their ranges; kValue for a start of
// another length or with devices that do not exist or may not run a node.
Result<GeneralPlacement> place_generally(const CostGraph& graph,
                                         const GeneralPlacementOptions& options = {},
                                         const RunContext& context = {});

}  // namespace plimsoll::partition
#pragma GCC visibility pop
