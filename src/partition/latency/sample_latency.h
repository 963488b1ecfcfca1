// How long one sample takes from its first operator to its last, under a placement.
//
// Devices of a class whose link rate is unlimited are hosts: a node there starts when all that it
// reads is ready and runs on a core of its own. Every other device is an accelerator. What it holds
// runs in pieces: a node's piece is 1, or one more than the piece that a path has left when it
// comes back to the device, so that pieces are contiguous and as few as possible. A piece is one
// task. It starts when everything is ready that any of its nodes reads from outside; then it
// brings in every net that comes from outside, runs its nodes one after another, and takes out
// every net that is read outside; all its values are ready at its end. A net moves once for each
// task that brings it in or takes it out, also between two pieces of one device, at the device's
// link rate, or at the slowest pair rate in use where that is less. Hosts pay for no transfer.
//
// Pieces of one device never overlap, although nothing here makes them wait: some node of piece
// k + 1 reads, through other devices, what piece k ends with. Pieces of several devices may wait
// for each other in a circle; such a placement has no latency.
// Source: docs/mathematics/placements.md#one-sample.
#pragma once

#include <utility>
#include <vector>

#include "plimsoll/partition/cost_graph.h"

namespace plimsoll::partition {

// Is the class one of hosts? Else of accelerators.
bool is_host(const DeviceClass& devices);

// Nodes such that producers stand before consumers; of those that are ready the smallest number
// first. Precondition: a valid graph.
std::vector<int> topological_order(const CostGraph& graph);

// An evaluator that is asked many times about one graph. O(nodes + pins * accelerators) a question.
class SampleLatency {
 public:
  // The graph is valid and outlives this.
  explicit SampleLatency(const CostGraph& graph);

  const std::vector<int>& order() const { return order_; }  // as topological_order() says

  // The latency in ms; kUnlimited where pieces wait for each other in a circle, or a device cannot
  // run a node. `device` is [num_nodes], each in [0, num_devices).
  double evaluate(const std::vector<int>& device) { return evaluate(device, graph_.num_nodes()); }

  // The same for the first `count` nodes of order() alone. Never more than for a larger count.
  double evaluate(const std::vector<int>& device, int count);

  // After evaluate(), for the nodes that it was asked about, unless it was kUnlimited:
  double finish(int node) const { return finish_[task_of_[node]]; }  // ms
  int task_of(int node) const { return task_of_[node]; }             // in [0, num_tasks())
  int num_tasks() const { return static_cast<int>(finish_.size()); }
  // Time of a task's nodes and transfers, ms.
  double duration(int task) const { return duration_[task]; }

 private:
  void find_tasks(const std::vector<int>& device, int count);
  void link_tasks(const std::vector<int>& device, int count);
  double run_tasks();
  double transfer_ms(double amount, int own, int other) const;

  const CostGraph& graph_;
  int width_ = 0;                       // accelerators, rounded up
  std::vector<int> order_, place_of_;   // [num_nodes]
  std::vector<int> class_of_;           // [num_devices]
  std::vector<int> accelerator_of_;     // [num_devices] -1: a host
  std::vector<int> first_in_, in_net_;  // nets that each node reads
  std::vector<int> first_out_, out_net_;

  std::vector<int> piece_;  // [num_nodes][width_] the last piece of each accelerator on the way
  std::vector<int> num_pieces_;                    // [num_accelerators]
  std::vector<int> task_of_;                       // [num_nodes]
  std::vector<double> duration_, start_, finish_;  // [num_tasks]
  std::vector<int> seen_;                          // [num_tasks] the last net
  std::vector<int> first_edge_, num_open_;         // [num_tasks]
  std::vector<std::pair<int, int>> edges_;         // (to, next edge of the same task)
  std::vector<int> ready_;
};

}  // namespace plimsoll::partition
