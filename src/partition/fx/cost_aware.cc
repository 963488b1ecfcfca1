// Merges clusters of operators as long as the critical path does not grow.
//
// Problem. A placement with a short critical path.
// Method. Every operator begins as a partition of its own. A round tries every pair that upstream
// thinks mergeable, each with devices found afresh, and carries out the one that leaves the
// shortest path; rounds go on until every merge would lengthen it. O(operators^3) trials.
// Promises. No cycle. Quirks, kept: of equally good pairs the last one wins and merges that gain
// nothing are taken; the first round knows no devices, so that every edge costs; where no mapping
// is found in the end, partitions stay without a device and nobody is told.
// Departure. A trial is given up once its path is longer than the best so far.
// Source: docs/mathematics/torch-fx-partitioner.md#cost-aware.
#include <utility>

#include "partition/fx/contraction.h"
#include "partition/fx/longest_path.h"
#include "partition/fx/modes.h"
#include "partition/fx/working_parts.h"

namespace plimsoll::partition {
namespace {

Result<void> check_costs(const Graph& graph, const PartitionerConfig& config) {
  PLIMSOLL_ASSIGN(const bool has_edge, check_operators(graph, config.node_to_latency_mapping));
  if (has_edge && config.transfer_rate_bytes_per_sec == 0) {
    return fail(ErrorCode::kZeroDivision, "transfer_rate_bytes_per_sec", "float division by zero",
                "give the rate of a link");
  }
  return {};
}

// False where no pair is worth merging.
bool run_round(Contraction& contraction) {
  if (contraction.num_clusters() == 1) return false;
  const auto best = contraction.find_best_merge();
  if (best) contraction.merge(best->first, best->second);
  contraction.settle();
  return best.has_value();
}

}  // namespace

Result<Parts> partition_cost_aware(const Graph& graph, const PartitionerConfig& config) {
  PLIMSOLL_RETURN_IF_ERROR(check_costs(graph, config));
  Contraction contraction(graph, config);
  while (run_round(contraction)) {
  }
  Parts parts;
  parts.partitions = contraction.partitions();
  parts.node_to_partition = map_nodes(graph, parts.partitions);
  return parts;
}

}  // namespace plimsoll::partition
