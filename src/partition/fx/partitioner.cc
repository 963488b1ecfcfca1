#include "plimsoll/partition/partitioner.h"

#include <algorithm>
#include <limits>
#include <string>
#include <utility>

#include "partition/fx/device_mapping.h"
#include "partition/fx/latency.h"
#include "partition/fx/modes.h"
#include "partition/fx/split.h"
#include "partition/fx/working_parts.h"

namespace plimsoll::partition {
namespace {

Result<Parts> partition_by_mode(const Graph& graph, const PartitionerConfig& config,
                                const Dialect& dialect) {
  switch (config.mode) {
    case PartitionMode::kSizeBased:
      return partition_by_size(graph, config, dialect);
    case PartitionMode::kSparseNn:
      return partition_sparse_nn(graph, config, dialect);
    case PartitionMode::kCostAware:
      return partition_cost_aware(graph, config);
    case PartitionMode::kKlBased:
      return partition_by_kernighan_lin(graph, config, dialect);
    case PartitionMode::kAotBased:
      return partition_ahead_of_time(graph, config);
  }
  return fail(ErrorCode::kInternal, "", "an unknown mode");
}

Result<Parts> partition_parts(const Graph& graph, const PartitionerConfig& config,
                              const Dialect& dialect) {
  if (config.devices.empty()) {
    return raise_input_error("RuntimeError", "No devices", "", "give at least one device");
  }
  if (std::none_of(graph.nodes.begin(), graph.nodes.end(),
                   [](const Node& node) { return is_operator(node.op); })) {
    return raise_input_error("RuntimeError", "No Partition since no operations in the module");
  }
  // Quirk, kept: the caller's own partitions are not checked against any memory.
  if (config.mode == PartitionMode::kAotBased) return partition_ahead_of_time(graph, config);
  const auto largest = std::max_element(config.devices.begin(), config.devices.end(),
                                        [](const Device& a, const Device& b) {
                                          return a.available_mem_bytes < b.available_mem_bytes;
                                        });
  // Quirk, kept: a graph that fits one device is never spread, whatever the mode would save.
  if (graph.total_size <= largest->available_mem_bytes) {
    return make_single_partition(graph, largest->logical_id);
  }
  Int128 memory = 0;
  for (const Device& device : config.devices) memory += device.available_mem_bytes;
  if (graph.total_size > memory) {
    const Int128 missing = graph.total_size - memory;
    return raise_no_plan("RuntimeError", dialect.not_enough_memory, "",
                         std::to_string(static_cast<Bytes>(missing)) + " bytes are missing");
  }
  return partition_by_mode(graph, config, dialect);
}

struct Answer {
  Placement placement;
  SplitGraph split;
};

Result<Answer> find_answer(const Graph& graph, const PartitionerConfig& config,
                           const Dialect& dialect) {
  PLIMSOLL_ASSIGN(Parts parts, partition_parts(graph, config, dialect));
  if (config.saturate_host) {
    PLIMSOLL_RETURN_IF_ERROR(saturate_host(config.devices, parts.share_devices, parts.partitions));
  }
  Answer answer;
  answer.placement.partitions = std::move(parts.partitions);
  answer.placement.node_to_partition = std::move(parts.node_to_partition);
  PLIMSOLL_ASSIGN(answer.split, split_graph(graph, answer.placement, dialect));
  return answer;
}

// NaN where a latency or the rate is missing.
double critical_path(const Graph& graph, const PartitionerConfig& config,
                     const std::vector<Partition>& partitions) {
  std::vector<double> latencies;
  for (const Partition& partition : partitions) {
    const auto latency =
        latency_of_partition(graph, config.node_to_latency_mapping, partition.nodes);
    if (!latency) return std::numeric_limits<double>::quiet_NaN();
    latencies.push_back(latency->overall_latency_sec);
  }
  return latency_of_partitioned_graph(graph, partitions, latencies,
                                      config.transfer_rate_bytes_per_sec)
      .value_or(std::numeric_limits<double>::quiet_NaN());
}

}  // namespace

Result<ReferencePartition> partition_like_torch(const Graph& graph, const PartitionerConfig& config,
                                                const Dialect& dialect) {
  PLIMSOLL_RETURN_IF_ERROR(validate(config, graph));
  Result<Answer> answer = find_answer(graph, config, dialect);
  ReferencePartition result;
  result.outcome.certificate.objective = std::numeric_limits<double>::quiet_NaN();
  if (!answer) {
    if (answer.error().code != ErrorCode::kPlanner) return tl::unexpected(answer.error());
    result.failure = std::move(answer).error();
    return result;
  }
  result.outcome.status = SolveStatus::kFeasible;
  result.outcome.certificate.objective = critical_path(graph, config, answer->placement.partitions);
  result.outcome.plan = std::move(answer->placement);
  result.split = std::move(answer->split);
  return result;
}

}  // namespace plimsoll::partition
