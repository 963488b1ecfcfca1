// A bound by branching on the choices of units: where memory decides, what the average bound gains
// by taking fractions of choices is most of the gap.
//
// Problem. A lower bound on the slowest rank of placements of at most `target`. Method. The linear
// relaxation over the choices, x(u, c) >= 0 with sum 1 a unit, of ranks that are all alike: the
// mean load and the bytes of all ranks together as in average_bound.h, and besides, for every unit
// u and each resource, that some rank holds the largest piece of u on top of what all other units
// put on every rank ("anchors"):
//     sum over v != u of everywhere(v) + largest piece(u)  <=  the slowest load, or the cap.
// A node allows each unit some of its choices. What is allowed is first cut down by the filter of
// the target (target_filter.h), whose floors are those of units that the node leaves uniform
// choices alone; then the program is solved. The node of the least value is branched on the unit
// whose mixture of choices is largest: one kind of its choices, or the others. Prices of rows, not
// the program's value, are what is proved: any prices >= 0 give a bound.
// The tree ends early where its first nodes prove hardly more than the root.
// Cost. A linear program of O(units) rows a node, from the basis of the node before. Promises. No
// placement of at most the target has a smaller slowest rank than `value`; deterministic. Not
// promised: anything where ranks are of several kinds. Source:
// docs/mathematics/balanced-sharding.md#branching-on-choices.
#pragma once

#include <cstdint>
#include <vector>

#include "balance/problem/placement_groups.h"
#include "plimsoll/balance/placement_bound.h"
#include "plimsoll/core/run_context.h"

namespace plimsoll::balance {

struct ChoiceTreeOptions {
  double target = kInfinity;         // > 0; of placements that are looked at
  std::int64_t max_nodes = 1000;     // >= 1
  std::int64_t max_pivots = 100000;  // >= 1, of all nodes together
};

struct ChoiceTreeBound {
  double value = 0;
  ChoiceWitness witness;
  // [groups] into the choices of its unit: those of the largest share in the node that mixes least.
  // All needs together are met, or nearly; whether the pieces can be placed is another question.
  // Empty where no program was solved.
  std::vector<int> guide;
  std::int64_t num_nodes = 0;
  std::int64_t num_pivots = 0;
};

// Are ranks all alike, and choices not so many that one program takes long?
bool is_for_choice_tree(const PlacementGroups& groups);

// Preconditions: is_for_choice_tree; groups of one unit each.
ChoiceTreeBound choice_tree_bound(const PlacementGroups& groups, const ChoiceTreeOptions& options,
                                  const RunContext& context);

// Choices for a search to begin with ([units] each): guides of the same ranks, with all of their
// caps and with a little less, for what packing loses. Preconditions: those of
// choice_tree_bound(), and every unit has a group.
std::vector<std::vector<int>> choice_guides(const PlacementGroups& groups,
                                            const ChoiceTreeOptions& options,
                                            const RunContext& context);

}  // namespace plimsoll::balance
