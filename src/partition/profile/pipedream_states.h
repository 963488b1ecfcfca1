// What PipeDream's optimizer splits: a profile's graph, and the antichains through it.
//
// Source: docs/mathematics/placements.md#pipedream.
#pragma once

#include <cstdint>
#include <vector>

#include "partition/graph/node_set.h"
#include "partition/profile/pipedream.h"

namespace plimsoll::partition {

// The prepared graph, nodes renumbered.
struct PipeDreamGraph {
  std::vector<int> node;               // [kept] in the profile
  std::vector<std::vector<int>> next;  // [kept]
  std::vector<NodeSet> before;         // [kept] all predecessors
  std::vector<double> time_s, activation, parameters;
};

struct PipeDreamState {
  NodeSet holds;  // the downset: the antichain and all its predecessors
  double compute_s = 0, activation = 0, parameters = 0;
  double output_activation = 0;
};

// Without inputs and what kept_nodes leaves out.
PipeDreamGraph prepare_pipedream_graph(const PipeDreamProfile& profile);

// The antichains that advancing from the first source reaches, by size of their downsets; how many
// were found, also where these were more than `max_states`: then none are returned. Precondition: a
// node.
std::vector<PipeDreamState> find_pipedream_states(const PipeDreamGraph& graph,
                                                  std::int64_t max_states, std::int64_t& num_found);

}  // namespace plimsoll::partition
