// The least largest load of a small graph, by trying every placement that may be better than what
// is known.
//
// Method. Branch and bound over groups, the heaviest first. What the groups placed so far load
// their devices with never falls when others follow: a device pays for a net as soon as it holds a
// part of it and another device does, and no later group takes that back. A branch ends where
//   load     a device's load reaches the best known
//   room     a device holds more than its cap, or the groups that are left more than fits all
//   devices work     all loads and the least work of the groups that are left reach what all
//   devices do at
//            the best known
//   twins    of devices that are alike and still empty only the first is tried
//   line     devices wait for each other in a circle, where they must stand in a line
// Cost. Exponential. One unit of effort is a group on a device that is neither ruled out nor a
// twin: at most d + d^2 + ... + d^n of them for n groups on d devices.
// Promises. A function of its arguments, unless the clock or a cancel cut it.
// Source: docs/mathematics/placements.md#general-placements; A. H. Land, A. G. Doig, "An automatic
// method of solving discrete programming problems", Econometrica 28(3), 1960,
// https://doi.org/10.2307/1910129.
#pragma once

#include <cstdint>
#include <vector>

#include "partition/graph/group_graph.h"
#include "plimsoll/core/run_context.h"

namespace plimsoll::partition {

// What twelve groups on four devices take at most.
inline constexpr std::int64_t kTreeSteps = 22'369'620;

// Each only saves work.
struct PlacementTreeRules {
  bool uses_work = true;
  bool uses_twins = true;
};

struct PlacementTree {
  bool requires_line = false;  // then predecessors and successors order the groups
  double goal = -kUnlimited;   // a largest load that ends the search
  std::int64_t max_steps = kTreeSteps;
  PlacementTreeRules rules;

  std::int64_t num_steps = 0;  // done
  bool is_complete = false;    // nothing is better than the placement left
};

// The steps that are worth their time: of graphs with at most 4^12 placements kTreeSteps, enough
// for all; an eighth up to 32 groups on 16 devices; 0 beyond.
std::int64_t default_tree_steps(const GroupGraph& groups);

// Replaces `device`, [num_groups], and `value`, its largest load (kUnlimited and empty: none is
// known yet) by what is better by more than 1e-12 relative. `pair_rates` as in CostGraph.
// Precondition: default_tree_steps(groups) > 0.
void search_placement_tree(const GroupGraph& groups,
                           const std::vector<std::vector<double>>& pair_rates, PlacementTree& tree,
                           std::vector<int>& device, double& value, const RunContext& context);

}  // namespace plimsoll::partition
