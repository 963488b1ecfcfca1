// The operator graph as our own searches see it, whatever they minimise: what each node costs on
// each class of device, what it holds, and which values travel.
//
// A value that is produced once and read by several nodes is one net: a device that holds a part of
// a net's nodes, but not all of them, moves the value exactly once, in or out, and pays for it at
// its own link rate. The load of a device is the time of its nodes there plus what it moves. What
// orders the nodes is the same nets: a producer comes before its consumers.
//
// A parameter is not a node but a weight: every device that runs one of its readers holds a copy of
// it, once however many of them it runs, and nothing travels for it.
//
// In a training graph every backward node is colour mate of its forward node. Order then means the
// order of forward nodes; the backward pass runs the same pipeline the other way. A colour without
// forward nodes is ordered by its backward nets, reversed. Source:
// docs/mathematics/placements.md#load-of-a-device.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "plimsoll/core/result.h"
#include "plimsoll/core/units.h"
#include "plimsoll/partition/device_assignment.h"

#pragma GCC visibility push(default)
namespace plimsoll::partition {

inline constexpr double kUnlimited = std::numeric_limits<double>::infinity();

// Equal devices. Devices are numbered through: those of the first class, then of the second, ...
struct DeviceClass {
  std::string name;                 // unique
  int count = 1;                    // >= 0
  std::optional<Bytes> memory_cap;  // >= 0, of one device; absent: no limit
  double link_rate = 1;  // > 0, amount of a net moved in a ms; kUnlimited: moving is free
  bool operator==(const DeviceClass&) const = default;
};

struct CostNode {
  std::string name;                    // for people: may be empty or occur twice
  std::vector<double> time_ms;         // [num_classes] >= 0; kUnlimited: the class cannot run it
  Bytes memory = 0;                    // >= 0, on the device that runs it
  std::optional<std::int64_t> colour;  // nodes of one colour share a device
  bool is_backward = false;
  std::optional<int> pinned_device;    // the only one allowed
  std::vector<int> forbidden_devices;  // distinct
  bool operator==(const CostNode&) const = default;
};

struct Net {
  int producer = 0;
  std::vector<int> consumers;  // distinct, without the producer; may be empty
  double amount = 0;           // >= 0, finite; in ms where link rates are 1
  bool operator==(const Net&) const = default;
};

struct Weight {
  std::string name;          // for people: may be empty or occur twice
  Bytes bytes = 0;           // >= 0
  std::vector<int> readers;  // distinct; may be empty: then nobody holds it
  bool operator==(const Weight&) const = default;
};

struct CostGraph {
  std::vector<DeviceClass> classes;
  std::vector<CostNode> nodes;
  std::vector<Net> nets;
  std::vector<Weight> weights;
  // [num_devices][num_devices] > 0, symmetric, the diagonal is not looked at: how fast two devices
  // talk, where that is less than both link rates say. Empty: link rates alone decide.
  std::vector<std::vector<double>> pair_rates;

  int num_nodes() const { return static_cast<int>(nodes.size()); }
  int num_devices() const;
  int class_of(int device) const;  // precondition: 0 <= device < num_devices()
  // Pins, forbidden devices and whether the class can run it.
  bool is_allowed(int node, int device) const;
  bool operator==(const CostGraph&) const = default;
};

// Errors, at "class 0", "node 3 'conv'", "net 7", "weight 2" or "pair_rates". kValue: a count,
// time, memory, rate or amount outside its range or no number, a node or device that does not
// exist, no device at all, pair rates that differ by direction; kSchema: times for another number
// of classes, pair rates of another shape; kOverflow: all bytes together exceed 63 bits; kConflict:
// a class name, consumer, reader or forbidden device twice, a net that feeds its own producer, a
// forward node that reads a backward one, nodes that wait for each other in a cycle.
Result<void> validate(const CostGraph& graph);

// "node 3 'conv'", or "node 3" where it has no name.
std::string place_of(const CostGraph& graph, int node);

// The devices that hold a part of the net, ascending; it moves where they are more than one.
std::vector<int> holders_of(const Net& net, const DeviceAssignment& assignment);

// What a moved net, produced on `source`, takes one of its holders.
double transfer_ms(const CostGraph& graph, const Net& net, int source, std::span<const int> holders,
                   int device);

// The load of every device in ms: times in node order, then moved nets in net order. With pair
// rates a device moves a net at the slowest of its own link rate and, for the producer's device,
// its rates to the readers' devices, for a reader's device its rate to the producer's.
// [num_devices]. Precondition: a valid graph, an assignment of its length to devices that exist.
std::vector<double> device_loads(const CostGraph& graph, const DeviceAssignment& assignment);

// Bytes that every device holds: its nodes' memory and its copies of weights. [num_devices].
// Precondition as above.
std::vector<Bytes> device_memory(const CostGraph& graph, const DeviceAssignment& assignment);

// What must not come later: (a, b) means that node a's device stands no later than b's in a
// contiguous split. Forward node to forward reader; and from backward reader back to its backward
// producer where one of the two colours has no forward node.
std::vector<std::pair<int, int>> pipeline_order(const CostGraph& graph);

}  // namespace plimsoll::partition
#pragma GCC visibility pop
