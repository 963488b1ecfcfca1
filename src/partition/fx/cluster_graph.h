// A graph of clusters of operators under merging.
//
// Problem. The cost-aware mode begins with every operator alone and merges pairs; of most pairs it
// only asks what their union would be.
// Method. An operator is in one cluster, so that bytes between clusters add up when clusters merge:
// bytes, latency and links of a union come from the links of the two clusters and the edges of
// their operators, never from the graph as a whole. Which unions would close a cycle is read off
// sets of descendants. Asking about a union costs O(edges of the two clusters); merging them
// O(clusters * links / 64) more.
// Source: docs/mathematics/torch-fx-partitioner.md#cost-aware.
#pragma once

#include <cstdint>
#include <vector>

#include "core/marks.h"
#include "plimsoll/partition/graph.h"
#include "plimsoll/partition/partitioner_config.h"
#include "plimsoll/partition/placement.h"

namespace plimsoll::partition {

// Is the configuration valid, have all operators a size and a latency, and is the rate above 0 if
// one operator reads another? O(edges).
bool is_costed(const Graph& graph, const PartitionerConfig& config);

class ClusterGraph {
 public:
  static constexpr int kNone = -1;

  // An edge between clusters, seen from one end.
  struct Link {
    int other = kNone;
    Bytes carried = 0;  // outputs of the parent, once for each operator of the child that reads one
    Bytes sent = 0;     // outputs once each, and the sources that both hold
    double transfer = 0;  // seconds for these, set in `parents` and `children`
  };
  struct Cluster {
    std::vector<int> operators, sources;  // ascending
    Bytes used = 0;
    double latency = 0;  // seconds: the longest path of operators inside
    std::vector<Link> parents, children;
    int level = -1;  // the longest way from a cluster without parents
  };
  using Set = std::vector<std::uint64_t>;  // of clusters, a bit for each place in `order`

  // One cluster for each operator. Precondition: is_costed().
  ClusterGraph(const Graph& graph, const PartitionerConfig& config);

  // Clusters have numbers, each its own for ever; those that were merged leave the list.
  const Cluster& operator[](int number) const { return clusters_[number]; }
  const std::vector<int>& list() const { return list_; }                  // in list order
  const std::vector<int>& order() const { return order_; }                // the same, parents first
  const Set& above(int number) const { return above_[number]; }           // its ancestors
  const Set& below(int number) const { return below_[number]; }           // its descendants
  int next_number() const { return static_cast<int>(clusters_.size()); }  // the next union's
  int max_numbers() const { return static_cast<int>(below_.size()); }

  // Would upstream merge them (levels that differ by at most one, or an edge), and no cycle close?
  bool may_merge(int a, int b) const;

  // Their union without links and level.
  void unite(int a, int b, Cluster& both);

  // The links of that union, by the cluster at the other end; `other` is kNone where there is none.
  // Valid until the next call.
  struct Links {
    const std::vector<Link>& parents;
    const std::vector<Link>& children;
  };
  Links links_of_union(const Cluster& both, int a, int b);
  double transfer_time(const Link& link) const {
    return static_cast<double>(link.sent) / config_.transfer_rate_bytes_per_sec;
  }

  // Merges the clusters at places i < j of the list for good: their union goes to its end. Order,
  // levels and descendants are as before until `update_order`.
  void merge(int i, int j);
  void update_order();

  // Of the clusters in list order; without devices.
  std::vector<Partition> partitions() const;

 private:
  static bool is_in(const Set& set, int place) {
    return (set[static_cast<std::size_t>(place) / 64] >> (place % 64) & 1) != 0;
  }
  void collect(const std::vector<Link>& links, const std::vector<Set>& sets, Set& set) const;
  void collect_links(const Cluster& cluster, int a, int b);
  std::vector<Link> take_links(const std::vector<Link>& found) const;
  bool is_adjacent(int a, int b) const;
  bool closes_cycle(int a, int b) const;

  const Graph& graph_;
  const PartitionerConfig& config_;
  std::vector<Cluster> clusters_;  // by number
  std::vector<int> list_, order_;
  std::vector<Set> above_, below_;   // [max_numbers]
  std::vector<int> place_in_order_;  // [max_numbers]
  std::vector<int> owner_;           // [num_nodes] the operator's cluster

  // Scratch. By cluster:
  std::vector<Link> in_, out_;         // the union's
  std::vector<int> linked_;            // the clusters with an entry in `in_` or `out_`
  std::vector<std::int64_t> counted_;  // the node that was counted last, by a number of its own
  std::int64_t num_counted_ = 0;
  // By node:
  std::vector<double> sums_;
  Marks seen_;
};

}  // namespace plimsoll::partition
