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

#include "plimsoll/check/certificate_status.h"
#include "plimsoll/core/result.h"
#include "plimsoll/partition/cost_graph.h"
#include "plimsoll/partition/device_assignment.h"

#pragma GCC visibility push(default)
namespace plimsoll::check {

enum class PlacementViolationCode {
  kUnknownDevice,    // a node on a device that does not exist; it counts as on none
  kNotSupported,     // the device's class cannot run the node
  kPinBroken,        // not on the device that the node is pinned to
  kForbiddenDevice,  // on a device that the node forbids
  kColourSplit,      // two nodes of one colour on two devices
  kOverMemory,       // bytes above the device's cap; one for each device
  kNotContiguous,    // a path leaves the device and comes back; one for each device
  kNoLineOfDevices,  // each device may be contiguous, but some wait for each other in a circle
  kLoadMismatch,     // the stated largest load is not the one computed here
  kTasksWait,        // pieces of several devices wait for each other (latency_check.h alone)
  kLatencyMismatch,  // the stated latency is not the one computed there
  kWrongDevices,     // the stated classes of devices are not the graph's
  kTimeMismatch,     // a device's stated compute, transfer or load is not the one computed here
  kMemoryMismatch,   // the same of its bytes
  // Of pipelines of replicated stages (replicated_stages_check.h alone).
  kNotPlaced,           // a node in no stage, or in several
  kEmptyStage,          // a stage without nodes or without devices
  kDeviceTwice,         // a device in two stages, or twice in one
  kMixedClasses,        // a stage on devices of several classes
  kUnevenMicrobatches,  // replicas do not divide the microbatches of the batch
  kUnpricedReplicas,    // replicas of a training graph that names no weights to agree on
  kInFlightMismatch,    // the stated microbatches in flight are not those counted here
  kBatchMismatch,       // the stated time of the batch is not the one computed here
  // Of what a document states besides (stated_placement.h), and of its certificate.
  kWrongInput,           // it says that it was made from another graph, or by other rules
  kStatedMismatch,       // a class, cap, cut or order that is not the one computed here
  kBoundNotProved,       // the certificate is refuted; under --strict also where it is not repeated
  kExplanationMismatch,  // why there is no placement is not what is found again
};
std::string_view to_string(PlacementViolationCode code);

struct PlacementViolation {
  PlacementViolationCode code = PlacementViolationCode::kUnknownDevice;
  std::optional<int> node;
  std::optional<int> device;
  std::string message;  // one sentence
  bool operator==(const PlacementViolation&) const = default;
};

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

struct PlacementReport {
  std::vector<PlacementViolation> violations;
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
  CertificateJudgement certificate;
  CertificateJudgement explanation;  // of why there is no placement
  bool is_right() const { return violations.empty(); }
};

// Errors are bad arguments only: a graph that is not valid, an assignment or a list of stated
// devices of another length.
// O(devices * (nodes + pins)).
Result<PlacementReport> check_placement(const partition::CostGraph& graph,
                                        const partition::DeviceAssignment& assignment,
                                        const PlacementCheckOptions& options = {});

}  // namespace plimsoll::check
#pragma GCC visibility pop
