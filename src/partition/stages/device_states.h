// Devices used of each kind, as one number.
#pragma once

#include <vector>

#include "partition/graph/group_graph.h"

namespace plimsoll::partition {

// In mixed radix: a state and the stride of a kind use one more of it; state 0 uses none.
class DeviceStates {
 public:
  explicit DeviceStates(const GroupGraph& groups) {
    for (const DeviceKind& kind : groups.kinds) {
      counts_.push_back(static_cast<int>(kind.devices.size()));
      strides_.push_back(size_);
      size_ *= counts_.back() + 1;
    }
  }
  int size() const { return size_; }
  int num_kinds() const { return static_cast<int>(counts_.size()); }
  int used(int state, int kind) const { return state / strides_[kind] % (counts_[kind] + 1); }
  int left(int state, int kind) const { return counts_[kind] - used(state, kind); }
  int without(int state, int kind) const { return state - strides_[kind]; }

 private:
  std::vector<int> counts_, strides_;
  int size_ = 1;
};

}  // namespace plimsoll::partition
