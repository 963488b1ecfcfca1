// The loads of all devices under an assignment of groups, kept while groups move.
//
// A device pays for a net of which it holds a part, not all. So when a group moves, the load of no
// third device changes, and those of the two follow from how many groups of each net they hold:
// O(nets of the group * devices that hold one of its groups). Only with pair rates do third devices
// take part. Weights are counted the same way.
// Loads are sums that grow with every move: refresh() takes them again.
#pragma once

#include <utility>
#include <vector>

#include "partition/graph/group_graph.h"

namespace plimsoll::partition {

// What stays the same while groups move.
class LoadModel {
 public:
  // Both must outlive the model. `pair_rates` as in CostGraph, may be empty.
  LoadModel(const GroupGraph& groups, const std::vector<std::vector<double>>& pair_rates);

  const GroupGraph& groups() const { return groups_; }
  int num_devices() const { return static_cast<int>(kind_of_.size()); }
  bool has_pair_rates() const { return !pair_rates_.empty(); }
  int kind_of(int device) const { return kind_of_[device]; }
  bool is_allowed(int group, int device) const {
    return groups_.time_ms[kind_of_[device]][group] < kUnlimited;
  }
  // Neighbours by nets and weights.
  const std::vector<int>& nets_of(int group) const { return nets_of_[group]; }
  const std::vector<int>& weights_of(int group) const { return weights_of_[group]; }

 private:
  friend class LoadState;
  const GroupGraph& groups_;
  const std::vector<std::vector<double>>& pair_rates_;
  std::vector<int> kind_of_;                            // [num_devices]
  std::vector<std::vector<int>> nets_of_, weights_of_;  // [num_groups]
  std::vector<double> delay_;                           // [num_devices] ms for an amount of 1
  std::vector<Bytes> cap_;                              // [num_devices]
};

// How many groups of each hyperedge are on each device: few devices hold one at a time.
class PinCounts {
 public:
  struct Slot {
    int device;
    int count;
  };
  template <class Hyperedge>
  PinCounts(const std::vector<Hyperedge>& edges, int num_devices);
  void clear();
  int count(int edge, int device) const {
    for (const Slot *slot = begin(edge), *last = end(edge); slot != last; ++slot) {
      if (slot->device == device) return slot->count;
    }
    return 0;
  }
  int add(int edge, int device);     // the new count
  int remove(int edge, int device);  // the new count; precondition: it was not 0
  const Slot* begin(int edge) const { return slots_.data() + first_[edge]; }
  const Slot* end(int edge) const { return begin(edge) + num_used_[edge]; }

 private:
  std::vector<std::size_t> first_;
  std::vector<int> num_used_;
  std::vector<Slot> slots_;
};

class LoadState {
 public:
  // The model must outlive the state. `device`: [num_groups].
  LoadState(const LoadModel& model, std::vector<int> device);

  const std::vector<int>& devices() const { return device_; }
  int device_of(int group) const { return device_[group]; }
  const std::vector<double>& loads() const { return load_; }
  // Bytes above the caps, over all devices.
  Int128 excess() const;
  Bytes memory(int device) const { return memory_[device]; }
  Bytes cap(int device) const { return model_.cap_[device]; }
  double largest_load() const;

  void move(int group, int to);
  // What the move would add to the loads of the group's device and of `to`. Without pair rates.
  std::pair<double, double> load_changes(int group, int to) const;
  // ... and to the bytes of `to`.
  Bytes memory_change(int group, int to) const;
  void refresh();

 private:
  void charge_net(int net, double sign);  // all devices that hold a part
  const LoadModel& model_;
  std::vector<int> device_;
  std::vector<double> load_;
  std::vector<Bytes> memory_;
  PinCounts net_counts_, weight_counts_;
};

}  // namespace plimsoll::partition
