#include <algorithm>
#include <string>
#include <utility>

#include "partition/fx/device_mapping.h"
#include "partition/fx/working_parts.h"

namespace plimsoll::partition {
namespace {

bool holds(const std::vector<int>& list, int value) {
  return std::find(list.begin(), list.end(), value) != list.end();
}

// What the placement puts on each device.
struct Loads {
  std::vector<Bytes> bytes;                  // [num_devices]
  std::vector<std::vector<int>> partitions;  // [num_devices] once for each time it is listed
};

Result<Loads> make_loads(const DeviceTable& table, const std::vector<Partition>& partitions) {
  Loads loads;
  loads.bytes.resize(table.devices.size());
  loads.partitions.resize(table.devices.size());
  int num_homeless = 0;
  for (std::size_t p = 0; p < partitions.size(); ++p) {
    for (const int id : partitions[p].logical_device_ids) {
      const auto found = table.of_logical_id.find(id);
      if (found == table.of_logical_id.end()) {
        return raise_input_error("KeyError", std::to_string(id), "",
                                 "name only logical ids of the devices");
      }
      loads.bytes[found->second] += partitions[p].used_mem_bytes;
      loads.partitions[found->second].push_back(static_cast<int>(p));
    }
    if (partitions[p].logical_device_ids.empty()) ++num_homeless;
  }
  if (num_homeless > 0) {
    return raise_no_plan("AssertionError", "Expect no_device_partitions has 0 device, but get " +
                                               std::to_string(num_homeless));
  }
  return loads;
}

// One copy of every used device on an idle one: the smallest that can hold what the used one holds.
// Nothing where one of them finds none.
std::optional<std::vector<std::pair<int, int>>> find_round(const DeviceTable& table,
                                                           const Loads& loads,
                                                           const std::vector<int>& used,
                                                           std::vector<int> idle) {
  std::vector<std::pair<int, int>> round;  // (copy, original)
  for (const int original : used) {
    auto best = idle.end();
    for (auto it = idle.begin(); it != idle.end(); ++it) {
      const Bytes room = table.devices[*it].available_mem_bytes;
      if (room < loads.bytes[original]) continue;
      if (best == idle.end() || room < table.devices[*best].available_mem_bytes) best = it;
    }
    if (best == idle.end()) return std::nullopt;
    round.emplace_back(*best, original);
    idle.erase(best);
  }
  return round;
}

}  // namespace

Result<void> saturate_host(std::span<const Device> devices, const std::vector<bool>& share_devices,
                           std::vector<Partition>& partitions) {
  const DeviceTable table(devices);
  PLIMSOLL_ASSIGN(const Loads loads, make_loads(table, partitions));
  std::vector<int> used;
  for (const int device : table.of_listed) {
    if (!loads.partitions[device].empty()) used.push_back(device);
  }
  std::vector<std::pair<int, int>> copies;  // (copy, original); a copy stands once
  std::vector<int> taken;
  // Without a used device upstream would loop for ever.
  while (!used.empty() && used.size() * 2 + copies.size() <= devices.size()) {
    std::vector<int> idle;
    for (const int device : table.of_listed) {
      if (!holds(used, device) && !holds(taken, device)) idle.push_back(device);
    }
    const auto round = find_round(table, loads, used, std::move(idle));
    if (!round) break;
    for (const auto& copy : *round) {
      const auto same = std::find_if(copies.begin(), copies.end(),
                                     [&](const auto& known) { return known.first == copy.first; });
      if (same == copies.end()) {
        copies.push_back(copy);
        taken.push_back(copy.first);
      } else {
        same->second = copy.second;
      }
    }
  }
  for (const auto& [copy, original] : copies) {
    const int id = table.devices[copy].logical_id;
    for (const int p : loads.partitions[original]) {
      // Quirk, kept: the partitions of sparse_nn without embeddings hold one list together, so that
      // each of them adds the id for all.
      if (share_devices.empty() || !share_devices[p]) {
        partitions[p].logical_device_ids.push_back(id);
        continue;
      }
      for (std::size_t q = 0; q < partitions.size(); ++q) {
        if (share_devices[q]) partitions[q].logical_device_ids.push_back(id);
      }
    }
  }
  return {};
}

}  // namespace plimsoll::partition
