// Which device takes which partition, and copies on devices that stay idle.
//
// Sources: docs/mathematics/torch-fx-partitioner.md#devices-of-partitions,
// docs/mathematics/torch-fx-partitioner.md#copies-on-idle-devices.
#pragma once

#include <map>
#include <span>
#include <vector>

#include "core/marks.h"
#include "plimsoll/core/result.h"
#include "plimsoll/partition/graph.h"
#include "plimsoll/partition/partitioner_config.h"
#include "plimsoll/partition/placement.h"

namespace plimsoll::partition {

// Devices as upstream's dictionaries see them. Quirk, kept: devices equal in all fields are one,
// and a logical id means the last device that carries it.
struct DeviceTable {
  explicit DeviceTable(std::span<const Device> listed);

  std::vector<Device> devices;       // distinct, in order
  std::vector<int> of_listed;        // [num_listed] index into `devices`
  std::map<int, int> of_logical_id;  // index into `devices`
};

// The devices by the bytes left on them, ascending; ties keep the order they had before.
class DeviceQueue {
 public:
  explicit DeviceQueue(std::vector<Bytes> left);

  std::span<const int> order() const { return order_; }
  Bytes left(int device) const { return left_[device]; }
  void take(int device, Bytes bytes);  // bytes >= 0

 private:
  std::vector<Bytes> left_;
  std::vector<int> order_;
};

// Best fit. Problem: give every partition without a device one that has room. Method: in list
// order, the device with the least room left of those that have more than the partition needs;
// inputs that the device holds already cost nothing. O(edges + partitions * devices). Promises: no
// search, no second try; where a partition finds no device, those before it keep theirs and the
// others stay without.
// Quirk, kept: room must exceed the need, so that an exact fit is refused; a source that the device
// holds already is charged again.
class DeviceMapper {
 public:
  DeviceMapper(const Graph& graph, std::span<const Device> devices);

  bool map(std::vector<Partition>& partitions);

 private:
  void put(const Partition& partition, int device);

  const Graph& graph_;
  DeviceTable table_;
  Marks inside_;                              // nodes of the partition at hand
  std::vector<std::vector<int>> devices_of_;  // [num_nodes]
  std::vector<Bytes> saved_;                  // [num_devices] inputs that are there already
};

// Copies of whole sets of partitions. `share_devices` says which partitions hold one common list of
// devices (empty: none), so that what is appended for one is appended for all.
Result<void> saturate_host(std::span<const Device> devices, const std::vector<bool>& share_devices,
                           std::vector<Partition>& partitions);

}  // namespace plimsoll::partition
