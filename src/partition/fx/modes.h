// The reference's modes. Each takes a valid configuration whose devices can together hold the
// graph's total size (aot_based: any), and returns partitions in list order.
//
// Source: docs/mathematics/torch-fx-partitioner.md.
#pragma once

#include <optional>
#include <vector>

#include "plimsoll/core/result.h"
#include "plimsoll/partition/dialect.h"
#include "plimsoll/partition/graph.h"
#include "plimsoll/partition/partitioner_config.h"
#include "plimsoll/partition/placement.h"

namespace plimsoll::partition {

struct Parts {
  std::vector<Partition> partitions;
  std::vector<std::optional<int>> node_to_partition;  // [num_nodes]
  std::vector<bool> share_devices;  // [num_partitions] or empty: whose device lists are one object
};

// Everything but the output on one device.
Parts make_single_partition(const Graph& graph, int logical_device_id);

// Graph order, cut where a device is full.
Result<Parts> partition_by_size(const Graph& graph, const PartitionerConfig& config,
                                const Dialect& dialect);

// Embedding tables apart from the rest, which every device runs.
Result<Parts> partition_sparse_nn(const Graph& graph, const PartitionerConfig& config,
                                  const Dialect& dialect);

// Merges the pair that leaves the shortest critical path, again and again.
Result<Parts> partition_cost_aware(const Graph& graph, const PartitionerConfig& config);

// Size based, then one sweep of moves and swaps.
Result<Parts> partition_by_kernighan_lin(const Graph& graph, const PartitionerConfig& config,
                                         const Dialect& dialect);

// What the caller says.
Result<Parts> partition_ahead_of_time(const Graph& graph, const PartitionerConfig& config);

}  // namespace plimsoll::partition
