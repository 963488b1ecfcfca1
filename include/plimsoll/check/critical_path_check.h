// What makes partitions of an operator graph right, and their critical path, checked independently
// of the search: only the graph's, the configuration's and the placement's data are shared with the
// searches.
//
// Every operator stands in one partition, with the sources that it reads; every partition is on
// devices that exist; a device holds the total sizes of its partitions' nodes and every value that
// comes from another device, each once. No partitions wait for each other. The critical path is
// torch.fx's: the longest path through partitions and transfers, a partition's own time being its
// longest path of operators, a transfer the bytes of what the one holds and the other reads, over
// the rate, and nothing between partitions on the same devices. Sources:
// docs/mathematics/torch-fx-partitioner.md#latency,
// docs/mathematics/torch-fx-partitioner.md#a-shorter-critical-path.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "plimsoll/check/finding.h"
#include "plimsoll/core/result.h"
#include "plimsoll/core/units.h"
#include "plimsoll/partition/graph.h"
#include "plimsoll/partition/partitioner_config.h"
#include "plimsoll/partition/placement.h"

#pragma GCC visibility push(default)
namespace plimsoll::check {

struct CriticalPathReport : CheckReport {
  std::vector<Bytes> memory;     // [num_devices] as the configuration lists them
  double critical_path_sec = 0;  // infinite where partitions wait for each other
  std::vector<double> own_sec;   // [num_partitions] of each alone; 0 without latencies
  std::vector<Bytes> own_bytes;  // [num_partitions] of its nodes, and of what it reads
};

// `stated_sec` is compared at 1e-9 relative. Errors are bad arguments: a configuration that is not
// valid, an operator without latency (kRuntime), a rate of 0 (kValue), nodes out of range (kValue).
Result<CriticalPathReport> check_critical_path(const partition::Graph& graph,
                                               const partition::PartitionerConfig& config,
                                               const partition::Placement& placement,
                                               std::optional<double> stated_sec = {});

// The same except for the critical path, which stays 0: for operators without latencies.
Result<CriticalPathReport> check_partitions(const partition::Graph& graph,
                                            const partition::PartitionerConfig& config,
                                            const partition::Placement& placement);

}  // namespace plimsoll::check
#pragma GCC visibility pop
