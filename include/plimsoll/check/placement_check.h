// What makes an assignment of operators to devices right, and what it costs, checked independently
// of the search: only the cost graph's data are shared with the searches.
//
// A device's load is the time of its nodes plus, for every net of which it holds a part but not
// all, the net's amount over its link rate: an input that comes from outside is moved once however
// many nodes of the device read it, an output once however many devices read it, a forward net and
// a backward net alike. With pair rates the slowest link in use counts. A device holds the bytes of
// its nodes and one copy of every weight that one of them reads. Contiguity is asked of the
// pipeline order: forward nodes, and colours without forward nodes by their backward nets reversed.
// Source: docs/mathematics/placements.md#load-of-a-device.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "plimsoll/check/finding.h"
#include "plimsoll/core/result.h"
#include "plimsoll/partition/cost_graph.h"
#include "plimsoll/partition/device_assignment.h"

#pragma GCC visibility push(default)
namespace plimsoll::check {

// What a placement says of one of its devices.
struct StatedDevice {
  std::optional<double> compute_ms, transfer_ms, load_ms;
  std::optional<Bytes> memory;
  bool operator==(const StatedDevice&) const = default;
};

struct PlacementCheckOptions {
  bool requires_contiguity = true;  // else the last two findings about order are not violations
  // Stated times are compared at 1e-9 of the largest load.
  std::optional<double> stated_max_load;
  std::vector<StatedDevice> stated = {};                    // [num_devices], or empty
  std::vector<partition::DeviceClass> stated_classes = {};  // empty: not stated
};

struct PlacementReport : CheckReport {
  std::vector<double> compute_ms;   // [num_devices]
  std::vector<double> transfer_ms;  // [num_devices]
  std::vector<double> load_ms;      // [num_devices] the sum of both, and of sync_ms
  std::vector<Bytes> memory;        // [num_devices]
  std::vector<bool> is_contiguous;  // [num_devices] no path leaves the device and comes back
  bool is_line = true;              // the devices can stand in a line
  double max_load = 0;              // largest of load_ms
  // Of pipelines of replicated stages alone.
  std::vector<double> sync_ms;     // [num_devices] between replicas
  std::vector<int> in_flight;      // [num_devices] microbatches that it holds
  std::optional<double> batch_ms;  // sum of stages + (microbatches - 1) * the slowest
};

// Errors are bad arguments only: a graph that is not valid, an assignment or a list of stated
// devices of another length.
// O(devices * (nodes + pins)).
Result<PlacementReport> check_placement(const partition::CostGraph& graph,
                                        const partition::DeviceAssignment& assignment,
                                        const PlacementCheckOptions& options = {});

}  // namespace plimsoll::check
#pragma GCC visibility pop
