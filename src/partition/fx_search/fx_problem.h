// The fx objective with every operator a partition of its own.
//
// Under torch.fx's cost model partitions on one device run side by side and talk for free. So
// parting a partition never lengthens the critical path: a path through its operators is no longer
// than the partition's own latency, and what one operator sends is no more than what the partition
// sends. What remains is which device runs each operator.
//
// An operator on another device than its reader sends its output, and the sources that both read
// (placeholders and constants count as sent, as in latency.h). A device holds its operators' total
// sizes, once each source that it reads, and once each value that comes from another device.
// Source: docs/mathematics/torch-fx-partitioner.md#a-shorter-critical-path.
#pragma once

#include <vector>

#include "plimsoll/partition/graph.h"
#include "plimsoll/partition/partitioner_config.h"

namespace plimsoll::partition {

struct FxProblem {
  struct Edge {
    int from = 0;        // operator
    double seconds = 0;  // if the devices differ
  };
  struct Tensor {
    int index = 0;    // of an operator's value, or num_operators() and on: of a source
    Bytes bytes = 0;  // on a device that reads it and does not run it
  };

  // Precondition: is_costed() (cluster_graph.h).
  FxProblem(const Graph& graph, const PartitionerConfig& config);

  int num_operators() const { return static_cast<int>(node.size()); }
  int num_devices() const { return static_cast<int>(room.size()); }
  // The longest path of the first `count` operators; finish is [num_operators].
  double critical_path(const std::vector<int>& device, int count,
                       std::vector<double>& finish) const;

  std::vector<int> node;                     // [num_operators] ascending, in the graph
  std::vector<double> seconds;               // [num_operators]
  std::vector<Bytes> total;                  // [num_operators]
  std::vector<std::vector<Edge>> inputs;     // [num_operators] operators that it reads
  std::vector<std::vector<int>> readers;     // [num_operators] ascending
  std::vector<std::vector<Tensor>> tensors;  // [num_operators] all that it reads
  std::vector<Bytes> output;                 // [num_operators]
  std::vector<Bytes> room;                   // [num_devices] bytes
  int num_tensors = 0;                       // operators and sources
  std::vector<double> tail;  // [num_operators] the longest path behind it without transfers
};

// Which device runs each operator, and what that fills.
class FxState {
 public:
  explicit FxState(const FxProblem& problem);

  const std::vector<int>& device() const { return device_; }
  void assign(const std::vector<int>& device);
  void clear();               // every operator is nowhere
  void move(int op, int to);  // -1: nowhere
  bool fits(int device) const { return bytes_[device] <= problem_.room[device]; }
  Bytes bytes(int device) const { return bytes_[device]; }

 private:
  const FxProblem& problem_;
  std::vector<int> device_;   // [num_operators] -1: nowhere
  std::vector<int> readers_;  // [num_tensors][num_devices] operators there that read it
  std::vector<Bytes> bytes_;  // [num_devices]
};

}  // namespace plimsoll::partition
