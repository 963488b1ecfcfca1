#include "partition/fx/device_mapping.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "partition/fx/working_parts.h"

namespace plimsoll::partition {

DeviceTable::DeviceTable(std::span<const Device> listed) {
  for (const Device& device : listed) {
    const auto found = std::find(devices.begin(), devices.end(), device);
    of_listed.push_back(static_cast<int>(found - devices.begin()));
    if (found == devices.end()) devices.push_back(device);
    of_logical_id[device.logical_id] = of_listed.back();
  }
}

DeviceQueue::DeviceQueue(std::vector<Bytes> left) : left_(std::move(left)), order_(left_.size()) {
  std::iota(order_.begin(), order_.end(), 0);
  std::stable_sort(order_.begin(), order_.end(),
                   [this](int a, int b) { return left_[a] < left_[b]; });
}

void DeviceQueue::take(int device, Bytes bytes) {
  left_[device] -= bytes;
  auto place = std::find(order_.begin(), order_.end(), device);
  for (; place != order_.begin() && left_[device] < left_[*(place - 1)]; --place) {
    *place = *(place - 1);
  }
  *place = device;
}

DeviceMapper::DeviceMapper(const Graph& graph, std::span<const Device> devices)
    : graph_(graph),
      table_(devices),
      inside_(graph.num_nodes()),
      devices_of_(graph.nodes.size()),
      saved_(table_.devices.size()) {}

void DeviceMapper::put(const Partition& partition, int device) {
  for (const int node : partition.nodes) {
    auto& holders = devices_of_[node];
    if (std::find(holders.begin(), holders.end(), device) == holders.end()) {
      holders.push_back(device);
    }
  }
}

bool DeviceMapper::map(std::vector<Partition>& partitions) {
  for (auto& holders : devices_of_) holders.clear();
  std::vector<Bytes> room;
  for (const Device& device : table_.devices) room.push_back(device.available_mem_bytes);
  for (const Partition& partition : partitions) {
    for (const int id : partition.logical_device_ids) {
      const int device = table_.of_logical_id.at(id);
      put(partition, device);
      room[device] -= partition.used_mem_bytes;
    }
  }
  DeviceQueue queue(std::move(room));
  for (Partition& partition : partitions) {
    if (!partition.logical_device_ids.empty()) continue;
    std::fill(saved_.begin(), saved_.end(), 0);
    inside_.assign(partition.nodes);
    for (const int node : partition.nodes) {
      for (const int input : graph_.nodes[node].inputs) {
        if (inside_.contains(input)) continue;
        for (const int device : devices_of_[input]) {
          saved_[device] += graph_.nodes[input].size.output;
        }
      }
    }
    const auto order = queue.order();
    const auto found = std::find_if(order.begin(), order.end(), [&](int device) {
      return partition.used_mem_bytes - saved_[device] < queue.left(device);
    });
    if (found == order.end()) return false;
    const int device = *found;
    queue.take(device, partition.used_mem_bytes - saved_[device]);
    put(partition, device);
    partition.logical_device_ids.push_back(table_.devices[device].logical_id);
  }
  return true;
}

}  // namespace plimsoll::partition
