// Size based, then one sweep that moves each operator to another partition or swaps it with one.
//
// Problem. A placement with a shorter critical path than the size-based one.
// Method. For each operator in graph order and each other partition: try the swap with each of its
// operators and then the pure move; each trial is undone. What was accepted last is carried out
// after each operator. O(operators^2) trials, each O(edges + partitions * devices).
// Promises. None: a trial's cost and the step that it stands for may differ, as follows.
// Quirks, kept:
// - a partition is accepted by the cost of the pure move, but what is carried out is the best of
//   the swaps and the move, and the cost recorded is that of the move;
// - the accepted step is carried out again after every later operator;
// - operators are looked for where the size-based placement had them. Undoing a trial on one that
//   has moved puts it back there as well, so that it may stand in two partitions;
// - the graph is split by the size-based placement.
// Source: docs/mathematics/torch-fx-partitioner.md#kernighan-lin.
#include <limits>
#include <utility>

#include "partition/fx/device_mapping.h"
#include "partition/fx/latency.h"
#include "partition/fx/longest_path.h"
#include "partition/fx/modes.h"
#include "partition/fx/working_parts.h"
#include "plimsoll/core/numbers.h"

namespace plimsoll::partition {
namespace {

constexpr int kNobody = -1;

// Node `a` goes from partition p to q, and node `b` the other way; either may be nobody.
struct Step {
  int a = kNobody, b = kNobody;
  int p = -1, q = -1;
};

class Sweep {
 public:
  Sweep(const Graph& graph, const PartitionerConfig& config, Parts& parts)
      : graph_(graph),
        config_(config),
        partitions_(parts.partitions),
        home_(parts.node_to_partition),
        mapper_(graph, config.devices),
        marks_(graph.num_nodes()),
        sums_(graph.nodes.size()),
        latencies_(parts.partitions.size()) {}

  Result<void> run() {
    for (const Partition& partition : partitions_) {
      PLIMSOLL_RETURN_IF_ERROR(
          check_latencies(graph_, config_.node_to_latency_mapping, partition.nodes));
    }
    for (std::size_t p = 0; p < partitions_.size(); ++p) update(static_cast<int>(p));
    PLIMSOLL_ASSIGN(double cost, critical_path());
    std::optional<Step> accepted;
    for (int node = 0; node < graph_.num_nodes(); ++node) {
      if (!graph_.is_operator(node)) continue;
      const int p = *home_[node];
      for (int q = 0; q < static_cast<int>(partitions_.size()); ++q) {
        if (q == p) continue;
        PLIMSOLL_ASSIGN(const Verdict verdict, try_partition(node, p, q));
        if (verdict.move_cost < cost) {
          cost = verdict.move_cost;
          accepted = verdict.best;
        }
      }
      // What the undoing of the last trial leaves.
      if (partitions_.size() > 1) map_afresh();
      if (accepted) {
        carry_out(*accepted);
        link_partitions(graph_, partitions_);
        mapper_.map(partitions_);
      }
    }
    link_partitions(graph_, partitions_);
    mapper_.map(partitions_);  // Quirk, kept: nobody asks whether it succeeds
    return {};
  }

 private:
  struct Verdict {
    double move_cost = kInfinity;
    Step best;
  };

  Result<Verdict> try_partition(int node, int p, int q) {
    Verdict verdict;
    double least = kInfinity;
    std::vector<int> partners;
    for (const int other : partitions_[q].nodes) {
      if (!graph_.is_source(other)) partners.push_back(other);
    }
    partners.push_back(kNobody);
    for (const int other : partners) {
      const Step step{node, other, p, q};
      PLIMSOLL_ASSIGN(const double cost, try_step(step));
      if (cost < least) {
        least = cost;
        verdict.best = step;
      }
      verdict.move_cost = cost;
    }
    return verdict;
  }

  Result<double> try_step(const Step& step) {
    carry_out(step);
    link_partitions(graph_, partitions_);
    Result<double> cost = kInfinity;
    if (!is_on_cycle(partitions_, step.p) && !is_on_cycle(partitions_, step.q) && map_afresh()) {
      cost = critical_path();
    }
    carry_out({step.b, step.a, step.p, step.q});
    return cost;
  }

  void carry_out(const Step& step) {
    std::vector<int>& p = partitions_[step.p].nodes;
    std::vector<int>& q = partitions_[step.q].nodes;
    if (step.a != kNobody) {
      remove_node(graph_, p, step.a);
      add_node(graph_, q, step.a);
    }
    if (step.b != kNobody) {
      add_node(graph_, p, step.b);
      remove_node(graph_, q, step.b);
    }
    update(step.p);
    update(step.q);
  }

  void update(int p) {
    Partition& partition = partitions_[p];
    partition.used_mem_bytes = used_bytes(graph_, partition.nodes, marks_);
    latencies_[p] =
        longest_path(graph_, config_.node_to_latency_mapping, partition.nodes, marks_, sums_);
  }

  bool map_afresh() {
    for (Partition& partition : partitions_) partition.logical_device_ids.clear();
    return mapper_.map(partitions_);
  }

  Result<double> critical_path() const {
    return latency_of_partitioned_graph(graph_, partitions_, latencies_,
                                        config_.transfer_rate_bytes_per_sec);
  }

  const Graph& graph_;
  const PartitionerConfig& config_;
  std::vector<Partition>& partitions_;
  const std::vector<std::optional<int>>& home_;
  DeviceMapper mapper_;
  Marks marks_;
  std::vector<double> sums_;
  std::vector<double> latencies_;  // [num_partitions]
};

}  // namespace

Result<Parts> partition_by_kernighan_lin(const Graph& graph, const PartitionerConfig& config,
                                         const Dialect& dialect) {
  PLIMSOLL_ASSIGN(Parts parts, partition_by_size(graph, config, dialect));
  PLIMSOLL_RETURN_IF_ERROR(Sweep(graph, config, parts).run());
  return parts;
}

}  // namespace plimsoll::partition
