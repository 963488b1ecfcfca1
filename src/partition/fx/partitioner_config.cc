#include "plimsoll/partition/partitioner_config.h"

#include <array>
#include <cmath>

namespace plimsoll::partition {
namespace {

constexpr std::array<std::pair<PartitionMode, std::string_view>, 5> kModes = {{
    {PartitionMode::kSizeBased, "size_based"},
    {PartitionMode::kSparseNn, "sparse_nn"},
    {PartitionMode::kCostAware, "cost_aware"},
    {PartitionMode::kKlBased, "kl_based"},
    {PartitionMode::kAotBased, "aot_based"},
}};

bool is_time(double seconds) { return std::isfinite(seconds) && seconds >= 0; }

}  // namespace

std::string_view to_string(PartitionMode mode) {
  return kModes[static_cast<std::size_t>(mode)].second;
}

std::optional<PartitionMode> find_partition_mode(std::string_view name) {
  for (const auto& [mode, known] : kModes) {
    if (name == known) return mode;
  }
  return std::nullopt;
}

Result<void> validate(const PartitionerConfig& config, const Graph& graph) {
  for (const Device& device : config.devices) {
    if (device.available_mem_bytes < 0) {
      return fail(ErrorCode::kValue, device.name, "a device's memory is negative",
                  "give bytes, 0 or more");
    }
  }
  if (std::isnan(config.transfer_rate_bytes_per_sec) || config.transfer_rate_bytes_per_sec < 0) {
    return fail(ErrorCode::kValue, "transfer_rate_bytes_per_sec", "is negative or not a number",
                "give bytes per second");
  }
  const auto& latencies = config.node_to_latency_mapping;
  if (!latencies.empty() && latencies.size() != graph.nodes.size()) {
    return fail(ErrorCode::kSchema, "node_to_latency_mapping",
                "has another length than the list of nodes", "give one entry for each node");
  }
  for (std::size_t i = 0; i < latencies.size(); ++i) {
    if (!latencies[i]) continue;
    if (is_time(latencies[i]->mem_latency_sec) && is_time(latencies[i]->computer_latency_sec)) {
      continue;
    }
    return fail(ErrorCode::kValue, graph.nodes[i].name, "a latency is negative or not a number",
                "give seconds, 0 or more");
  }
  std::vector<bool> is_mapped(graph.nodes.size());
  for (const auto& [node, id] : config.node_to_partition_mapping) {
    if (node < 0 || node >= graph.num_nodes()) {
      return fail(ErrorCode::kValue, "node_to_partition_mapping", "names a node that is not there",
                  "give positions in the list of nodes");
    }
    if (is_mapped[node]) {
      return fail(ErrorCode::kConflict, graph.nodes[node].name, "is mapped to two partitions",
                  "map every node once");
    }
    is_mapped[node] = true;
  }
  return {};
}

}  // namespace plimsoll::partition
