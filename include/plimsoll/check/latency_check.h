// How long one sample takes under a placement, checked independently of the search: only the cost
// graph's data are shared with the searches.
//
// Devices whose class has an unlimited link rate are hosts and run each node by itself as soon as
// it can start. An accelerator runs what it holds in contiguous pieces, as few as possible: a
// node's piece is the largest number of times that a path to it enters the device. Each piece
// starts when all its inputs are ready, brings each of them in once, runs its nodes one after
// another, takes each value that is read outside out once, and is then done as a whole. Bytes,
// permissions and colours are judged as in placement_check.h. Source:
// docs/mathematics/placements.md#one-sample.
#pragma once

#include <optional>
#include <vector>

#include "plimsoll/check/placement_check.h"
#include "plimsoll/core/result.h"
#include "plimsoll/partition/cost_graph.h"
#include "plimsoll/partition/device_assignment.h"

#pragma GCC visibility push(default)
namespace plimsoll::check {

struct LatencyTask {
  int device = 0;
  std::vector<int> nodes;  // ascending; one on a host
  double start_ms = 0, bring_in_ms = 0, compute_ms = 0, take_out_ms = 0, finish_ms = 0;
};

struct LatencyReport : CheckReport {
  std::vector<LatencyTask> tasks;  // by device, then in the order of the device's pieces, or of
                                   // nodes on a host; empty where a violation is kUnknownDevice or
                                   // kTasksWait
  std::vector<Bytes> memory;       // [num_devices]
  double latency_ms = 0;           // the last finish; infinite without tasks, or where a device
                                   // cannot run a node
};

// `stated_latency` is compared at 1e-9 relative. Errors are bad arguments only: a graph that is not
// valid, an assignment of another length. O(tasks * (nodes + pins)).
Result<LatencyReport> check_latency(const partition::CostGraph& graph,
                                    const partition::DeviceAssignment& assignment,
                                    std::optional<double> stated_latency = {});

}  // namespace plimsoll::check
#pragma GCC visibility pop
