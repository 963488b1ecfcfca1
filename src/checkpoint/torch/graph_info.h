// What the partitioner of a compiled graph knows when it asks a knapsack: the joint graph, the
// forward values that it may keep, and what each takes.
//
// Sources: docs/mathematics/torch-checkpointing.md#the-simulated-backward-pass,
// docs/mathematics/torch-checkpointing.md#the-log-of-the-partitioner.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "plimsoll/core/result.h"

namespace plimsoll::checkpoint {

struct GraphInfo {
  std::vector<std::string> nodes;          // of the joint graph, in its order; names are unique
  std::vector<std::pair<int, int>> edges;  // (value, its user): first < second
  std::vector<int> candidates;             // [c] distinct nodes, in the knapsack's order
  std::vector<double> memory;              // [c] finite, >= 0; torch: share of what can be saved
  std::vector<double> runtimes;            // [c] finite, >= 0; torch: FLOPs unless configured
  bool operator==(const GraphInfo&) const = default;
};

// Errors, each at a list's name: kSchema (lists of different lengths, a node outside the graph),
// kConflict (a name or a candidate twice), kValue (an edge against the order, a bad figure).
Result<void> validate(const GraphInfo& info);

}  // namespace plimsoll::checkpoint
