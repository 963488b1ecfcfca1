// Multilevel refinement of an assignment of groups to devices.
//
// Problem. Make the largest load small, from a given assignment on.
// Method. V-cycles. Groups of one device that heavy nets tie are matched in pairs, level after
// level, in a random order; so every level holds the assignment exactly, and a move of one of its
// clusters moves what single moves would have to carry through worse states. Each level is
// annealed, the coarsest first; the next cycle matches again. Cycles take turns in how hot they
// start. Cost. A cycle tries about 2 * moves_per_group moves for each group; O(pins log pins) to
// match. Promises. As anneal(). [1] G. Karypis, V. Kumar, "Multilevel k-way hypergraph
// partitioning", VLSI Design 11(3), 2000, https://doi.org/10.1155/2000/19436. Departures: matching
// within devices from the first cycle on, annealing instead of greedy moves.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "core/random.h"
#include "partition/assignment/load_state.h"
#include "plimsoll/core/run_context.h"

namespace plimsoll::partition {

struct MultilevelOptions {
  int moves_per_group = 200;
  int num_idle_cycles = 12;   // in a row, after which it ends
  bool uses_clusters = true;  // else only the finest level
  bool uses_swaps = true;
  std::vector<int> position;                               // as AssignmentAnnealing::position
  std::function<bool(const std::vector<int>&)> on_better;  // may be empty; true: good enough
};

// Changes `device` to the best assignment met. `moves_left` is counted down; at 0 or below it ends.
void refine(const GroupGraph& groups, const std::vector<std::vector<double>>& pair_rates,
            const MultilevelOptions& options, SplitMix64& random, const RunContext& context,
            std::int64_t& moves_left, std::vector<int>& device);

}  // namespace plimsoll::partition
