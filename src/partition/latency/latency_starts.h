// Placements to begin with: chains of stages along a topological order.
//
// Problem. A placement with a short latency, fast.
// Method. Blocks (group_graph.h) in a topological order are cut into intervals by dynamic
// programming over their ends: an interval takes the next accelerator of a fixed sequence, as one
// task, or stays on a host, where it takes its longest path. Stages are charged as if each waited
// for the one before, so that the sum is at least the latency of what comes out. The first order
// goes depth first, the second by number; the others shuffle around the best chain so far.
// Cost. Blocks * (blocks that fit a device) * (pins of a block + devices) an order.
// Promises. Caps, permissions and colours are kept. Nothing where some block fits no device in the
// sequence's order; that is not a proof.
// Source: docs/mathematics/placements.md#one-sample.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "core/random.h"
#include "partition/graph/group_graph.h"
#include "plimsoll/core/run_context.h"
#include "plimsoll/partition/cost_graph.h"
#include "plimsoll/partition/device_assignment.h"

namespace plimsoll::partition {

class LatencyStarts {
 public:
  explicit LatencyStarts(const CostGraph& graph);

  // The best chain along the next order; nothing after a cancel or the deadline.
  std::optional<DeviceAssignment> next(SplitMix64& random, const RunContext& context);
  // The next orders shuffle around this one's stages.
  void follow(const DeviceAssignment& plan);

  std::int64_t num_steps() const { return num_steps_; }

 private:
  struct Step {
    int from = -1;
    int device = -1;  // -1: no stage, the device before stays idle
  };
  void place_pins();
  void run_from(int begin, int kind, int first_state, int last_state);
  void host_from(int begin);
  void relax(int state, int end, double value, Step step);
  std::size_t at(int state, int place) const {
    return static_cast<std::size_t>(state) * (order_.size() + 1) + static_cast<std::size_t>(place);
  }
  std::optional<DeviceAssignment> trace() const;

  const CostGraph& graph_;
  GroupGraph blocks_;
  std::vector<int> topological_;              // nodes
  std::vector<int> sequence_;                 // accelerators
  std::vector<int> kind_of_;                  // [num_devices]
  std::vector<std::vector<int>> nets_of_;     // [num_blocks] with a pin there, ascending
  std::vector<std::vector<int>> weights_of_;  // [num_blocks] read there, ascending
  std::vector<std::vector<int>> producers_;   // [num_nodes]
  std::vector<int> block_of_;                 // [num_nodes]
  std::vector<int> order_;                    // [num_blocks]
  std::vector<int> place_;                    // [num_blocks]
  std::vector<int> low_, high_;               // [num_nets] places of its first and last pin
  std::vector<int> stage_of_;                 // [num_blocks] of the plan that is followed
  int num_orders_ = 0;
  std::int64_t num_steps_ = 0;

  std::vector<double> least_;  // [num_accelerators + 1][num_blocks + 1]
  std::vector<Step> best_;     // the same
  std::vector<std::int64_t> net_seen_, weight_seen_;
  std::vector<double> expires_;  // [num_blocks + 1]
  std::vector<double> finish_;   // [num_nodes]
  std::int64_t stamp_ = 0;
};

}  // namespace plimsoll::partition
