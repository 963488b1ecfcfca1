// The decision of our own searches: which device runs each node of a cost graph.
#pragma once

#include <vector>

#pragma GCC visibility push(default)
namespace plimsoll::partition {

struct DeviceAssignment {
  std::vector<int> device;  // [num_nodes] in [0, num_devices)
  bool operator==(const DeviceAssignment&) const = default;
};

}  // namespace plimsoll::partition
#pragma GCC visibility pop
