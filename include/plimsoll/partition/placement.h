// Which operator runs in which partition, and which device holds it.
//
// Sources: docs/mathematics/torch-fx-partitioner.md#partitions-and-levels,
// docs/mathematics/torch-fx-partitioner.md#split-and-dag.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "plimsoll/core/units.h"

#pragma GCC visibility push(default)
namespace plimsoll::partition {

// A partition's index is its place in Placement::partitions. Its id is the same number except where
// the caller chose ids (aot_based).
struct Partition {
  int id = 0;
  std::vector<int> nodes;  // ascending; sources stand in every partition that reads them
  Bytes used_mem_bytes = 0;
  std::vector<int> logical_device_ids;  // several: copies, or operators that every device runs
  std::vector<int> parents, children;   // indices, ascending; empty where the mode sets none
  int bfs_level = -1;                   // longest way from a root; -1: never computed
  bool operator==(const Partition&) const = default;
};

struct Placement {
  std::vector<Partition> partitions;
  // [num_nodes] the id of a node's partition. This is what the graph is split by; under kl_based it
  // may contradict `partitions`.
  std::vector<std::optional<int>> node_to_partition;
  bool operator==(const Placement&) const = default;
};

// One call of a partition in the graph of calls that remains after the split; all names are of that
// graph.
struct DagNode {
  std::string submodule;
  std::vector<std::string> inputs, outputs;
  std::vector<int> logical_device_ids;
  Bytes size_bytes = 0;
  bool operator==(const DagNode&) const = default;
};

// Inputs and constants, the calls, their unpacked values, the output.
struct SplitGraph {
  std::vector<std::string> nodes;  // names in order
  std::vector<DagNode> dag;        // the calls in order
  bool operator==(const SplitGraph&) const = default;
};

}  // namespace plimsoll::partition
#pragma GCC visibility pop
