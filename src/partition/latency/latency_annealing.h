// Improves a placement's latency by changing it a little, again and again.
//
// Method. Simulated annealing. A move puts some groups on another device: one group to the device
// of a neighbour; a run of blocks in topological order to one device; a task, or what stands before
// or behind a net that is cut, over the border; a whole device's nodes to another; or two groups
// change places. A move that breaks a cap, a permission or a colour is not looked at. Beside the
// latency counts a little of the sum of all tasks' times, so that moves off the longest path have a
// direction too. Temperatures fall geometrically; the best placement met is kept.
// Cost. One evaluation (sample_latency.h) a move, which is one unit of effort.
// Promises. Never worse than the start, caps kept; a function of graph, start and seed.
// Source: docs/partition.md#one-samples-latency.
#pragma once

#include <cstdint>
#include <vector>

#include "core/random.h"
#include "partition/latency/latency_groups.h"
#include "partition/latency/latency_state.h"
#include "partition/latency/sample_latency.h"
#include "plimsoll/core/run_context.h"
#include "plimsoll/partition/device_assignment.h"

namespace plimsoll::partition {

struct LatencyAnnealingOptions {
  std::int64_t num_moves = 0;        // that temperatures fall over
  std::int64_t max_moves = 0;        // of these, so many are made
  double first_temperature = 0.02;   // of the start's latency, > 0
  double last_temperature = 0.0001;  // the same
};

class LatencyAnnealing {
 public:
  // `order`: all groups' first nodes come in a topological order.
  LatencyAnnealing(const CostGraph& graph, const LatencyGroups& groups);

  // From `plan`, which fits; leaves the best in it and returns its latency. `num_done` grows by the
  // moves made. Stops early where `lower_bound` is met, by the clock or a cancel.
  double run(std::vector<int>& plan, const LatencyAnnealingOptions& options, double lower_bound,
             SplitMix64& random, const RunContext& context, std::int64_t& num_done);

 private:
  struct Change {
    int group, from;
  };
  double score(double latency) const;
  void propose(SplitMix64& random);
  void put(int group, int to);
  int random_device(SplitMix64& random);
  void move_to_neighbour(SplitMix64& random);
  void move_run(SplitMix64& random);
  void move_over_border(SplitMix64& random);
  void move_task(SplitMix64& random);
  void swap_groups(SplitMix64& random);
  void undo();

  const CostGraph& graph_;
  const LatencyGroups& groups_;
  SampleLatency latency_;
  LatencyState state_;
  std::vector<int> order_;                           // groups by the place of their first node
  std::vector<int> place_;                           // [num_groups]
  std::vector<std::vector<int>> readers_, sources_;  // [num_nodes] distinct neighbours
  std::vector<int> task_;                            // [num_nodes] of the state, before a move
  std::vector<Change> changes_;
  std::vector<int> open_;
  std::vector<std::int64_t> seen_;  // [num_nodes]
  std::int64_t stamp_ = 0;
};

}  // namespace plimsoll::partition
