// What the reference partitioner is asked: devices, mode, costs, and for `aot_based` the answer
// itself. Field names are upstream's. Source:
// docs/mathematics/torch-fx-partitioner.md#graph-and-sizes.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "plimsoll/core/result.h"
#include "plimsoll/core/units.h"
#include "plimsoll/partition/graph.h"

#pragma GCC visibility push(default)
namespace plimsoll::partition {

// Two devices equal in all three fields are one device to most of the reference's rules. Where two
// share a logical id, that id means the later one.
struct Device {
  std::string name;
  Bytes available_mem_bytes = 0;  // >= 0
  int logical_id = 0;
  bool operator==(const Device&) const = default;
};

// Seconds, finite and >= 0. `computer` is upstream's word.
struct NodeLatency {
  double mem_latency_sec = 0;
  double computer_latency_sec = 0;
  bool operator==(const NodeLatency&) const = default;
};

enum class PartitionMode { kSizeBased, kSparseNn, kCostAware, kKlBased, kAotBased };
std::string_view to_string(PartitionMode mode);  // "size_based"
std::optional<PartitionMode> find_partition_mode(std::string_view name);

struct PartitionerConfig {
  std::vector<Device> devices;
  PartitionMode mode = PartitionMode::kSizeBased;
  double transfer_rate_bytes_per_sec = 0;                           // >= 0
  std::vector<std::optional<NodeLatency>> node_to_latency_mapping;  // [num_nodes], or empty
  // aot_based: (node, partition id), each node once, in the caller's order.
  std::vector<std::pair<int, int>> node_to_partition_mapping;
  std::map<int, std::vector<int>> partition_to_logical_device_mapping;  // aot_based
  bool saturate_host = false;  // copies of all partitions on devices that stay idle
  bool operator==(const PartitionerConfig&) const = default;
};

// What no rule can work with; the reference would compute nonsense. Errors: kValue (a negative
// memory, latency or rate, one that is not a number, a node that the graph does not have), kSchema
// (a list of latencies of another length), kConflict (a node mapped twice).
Result<void> validate(const PartitionerConfig& config, const Graph& graph);

}  // namespace plimsoll::partition
#pragma GCC visibility pop
