// A graph of clusters of operators under merging, and what a merge would cost.
//
// Problem. The cost-aware mode asks for the critical path of every placement that differs from the
// present one by one merge; each answer needs devices for all clusters and the longest path through
// all of them.
// Method. An operator is in one cluster, so that bytes between clusters add up when clusters merge:
// a trial walks the links of clusters, never the edges of the graph, except those of the two
// clusters at hand. Pairs are tried row by row, so that the mapping of the clusters before the
// second one is shared. Which clusters a merge would close into a cycle, and in which order the
// others are then visited, is read off sets of descendants. A trial costs O(links + clusters *
// devices + edges of the two clusters); a merge O(clusters * links / 64) more. Promises. Equal, to
// the last digit, to building the merged list and asking DeviceMapper and
// latency_of_partitioned_graph.
// Source: specification of graph partitioning, sections 2.5 and 2.7.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "partition/device_mapping.h"
#include "partition/marks.h"
#include "plimsoll/partition/graph.h"
#include "plimsoll/partition/partitioner_config.h"
#include "plimsoll/partition/placement.h"

namespace plimsoll::partition {

class Contraction {
 public:
  // One cluster for each operator. Preconditions: every operator has a size and a latency; a rate
  // above 0 if any operator reads another.
  Contraction(const Graph& graph, const PartitionerConfig& config);

  int num_clusters() const { return static_cast<int>(list_.size()); }

  // The pair of places i < j of the list whose merge leaves the shortest critical path, under the
  // devices that a fresh mapping finds; of equally good pairs the last one. Nothing where every
  // merge would leave a longer path than there is now, with the devices that the clusters have. Not
  // asked are pairs that upstream would not merge (levels that differ by more than one and no edge
  // between them), those that would close a cycle, and those after which no mapping is found.
  std::optional<std::pair<int, int>> find_best_merge();

  // Merges them for good: the union goes to the end of the list.
  void merge(int i, int j);

  // Levels, and devices by best fit; whom it finds no device stays without.
  void settle();

  std::vector<Partition> partitions() const;

 private:
  static constexpr int kNone = -1;

  // An edge between clusters, seen from one end.
  struct Link {
    int other = kNone;
    Bytes carried = 0;  // outputs of the parent, once for each operator of the child that reads one
    Bytes sent = 0;     // outputs once each, and the sources that both hold
    double transfer = 0;  // seconds for these; set by take_links
  };
  struct Cluster {
    std::vector<int> operators, sources;  // ascending
    Bytes used = 0;
    double latency = 0;
    std::vector<Link> parents, children;
    int level = -1;
    int device = kNone;  // index into the device table
  };

  double critical_path();
  double try_merge(int i, int j, double limit);
  bool is_allowed(int a, int b) const;
  bool closes_cycle(int a, int b) const;
  static bool is_in(const std::vector<std::uint64_t>& set, int cluster) {
    return (set[static_cast<std::size_t>(cluster) / 64] >> (cluster % 64) & 1) != 0;
  }
  void order_clusters();
  void unite(int a, int b, Cluster& both);
  void collect_links(const Cluster& cluster, int a, int b);
  std::vector<Link> take_links(const std::vector<Link>& found) const;
  void charge(const std::vector<Link>& parents);
  int find_device(Bytes used, DeviceQueue& queue);
  bool place(int number, DeviceQueue& queue);
  void forget_devices(int first);
  double transfer_time(int r, int s, double seconds) const;
  double way_to(const Cluster& cluster, int s, int a, int b) const;
  double longest_way(int a, int b, double limit);

  const Graph& graph_;
  const PartitionerConfig& config_;
  const DeviceTable table_;
  std::vector<int> logical_ids_;  // [num_devices]
  const DeviceQueue empty_devices_;
  std::vector<Cluster> clusters_;                  // by number; those that were merged stay behind
  std::vector<int> list_;                          // numbers in list order
  std::vector<int> order_;                         // the same, parents first
  std::vector<std::vector<std::uint64_t>> below_;  // [clusters] sets of descendants
  std::vector<int> owner_;                         // [num_nodes] the operator's cluster

  // Scratch. By cluster; the union on trial has the next free number.
  Cluster trial_;
  std::vector<Link> in_, out_;         // the union's; `other` is kNone where there is no edge
  std::vector<int> linked_;            // the clusters with an entry in `in_` or `out_`
  std::vector<std::int64_t> counted_;  // the node that was counted last, by a number of its own
  std::int64_t num_counted_ = 0;
  std::vector<int> device_;
  std::vector<double> way_;           // the longest path that ends with the cluster
  std::vector<std::uint64_t> after_;  // the union's descendants
  // By node.
  std::vector<double> sums_;
  Marks seen_;
  // By device.
  DeviceQueue prefix_, queue_;  // after the clusters before place j; on trial
  std::vector<Bytes> saved_;
};

}  // namespace plimsoll::partition
