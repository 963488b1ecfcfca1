// Which group is on which device, and what every device holds.
#pragma once

#include <vector>

#include "partition/latency/latency_groups.h"
#include "plimsoll/core/units.h"
#include "plimsoll/partition/cost_graph.h"

namespace plimsoll::partition {

class LatencyState {
 public:
  LatencyState(const CostGraph& graph, const LatencyGroups& groups);

  void assign(const std::vector<int>& device);  // [num_nodes], whole colours together
  void clear();                                 // every group is nowhere
  const std::vector<int>& device() const { return device_; }
  int device_of_group(int group) const { return device_[groups_.nodes[group].front()]; }
  void move(int group, int to);  // -1: nowhere
  bool is_allowed(int group, int device) const {
    return allowed_[static_cast<std::size_t>(device) * groups_.nodes.size() +
                    static_cast<std::size_t>(group)] != 0;
  }
  bool fits(int device) const { return caps_[device] < 0 || memory_[device] <= caps_[device]; }

 private:
  const CostGraph& graph_;
  const LatencyGroups& groups_;
  std::vector<int> device_;                   // [num_nodes]
  std::vector<Bytes> memory_, caps_;          // [num_devices]; caps -1: none
  std::vector<char> allowed_;                 // [num_devices][num_groups]
  std::vector<std::vector<int>> weights_of_;  // [num_groups] distinct
  std::vector<int> holders_;                  // [num_weights][num_devices] groups there
};

}  // namespace plimsoll::partition
