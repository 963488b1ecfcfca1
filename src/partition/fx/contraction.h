// What a merge of clusters would cost: devices for all of them, and the critical path.
//
// Problem. The cost-aware mode asks for the critical path of every placement that differs from the
// present one by one merge; each answer needs devices for all clusters and the longest path through
// all of them.
// Method. Pairs are tried row by row, so that the mapping of the clusters before the second one is
// shared. A trial is given up where the union's own paths are too long: first without transfers,
// which needs no mapping; then under the devices found, which needs those above and below the union
// alone. Only then the paths that avoid it are looked at. A trial costs O(links + clusters *
// devices + edges of the two clusters) at most.
// Promises. Equal, to the last digit, to building the merged list and asking DeviceMapper and
// latency_of_partitioned_graph.
// Sources: docs/mathematics/torch-fx-partitioner.md#devices-of-partitions,
// docs/mathematics/torch-fx-partitioner.md#cost-aware.
#pragma once

#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "partition/fx/cluster_graph.h"
#include "partition/fx/device_mapping.h"
#include "plimsoll/partition/graph.h"
#include "plimsoll/partition/partitioner_config.h"
#include "plimsoll/partition/placement.h"

namespace plimsoll::partition {

class Contraction {
 public:
  // One cluster for each operator, none with a device. Preconditions: those of ClusterGraph.
  Contraction(const Graph& graph, const PartitionerConfig& config);

  int num_clusters() const { return static_cast<int>(clusters_.list().size()); }

  // The pair of places i < j of the list whose merge leaves the shortest critical path, under the
  // devices that a fresh mapping finds; of equally good pairs the last one. Nothing where every
  // merge would leave a longer path than there is now, with the devices that the clusters have. Not
  // asked are pairs that upstream would not merge (levels that differ by more than one and no edge
  // between them), those that would close a cycle, and those after which no mapping is found.
  std::optional<std::pair<int, int>> find_best_merge();

  // Merges them for good: the union goes to the end of the list. To be followed by `settle`.
  void merge(int i, int j) { clusters_.merge(i, j); }

  // Levels, and devices by best fit; whom it finds no device stays without.
  void settle();

  std::vector<Partition> partitions() const;

 private:
  static constexpr int kNone = ClusterGraph::kNone;
  using Link = ClusterGraph::Link;
  using Cluster = ClusterGraph::Cluster;

  // A cluster and one of its parents.
  struct Entry {
    int parent = kNone;
    Bytes carried = 0;
    double transfer = 0;
  };
  // A cluster, and where its entries are in `entries_`.
  struct Stop {
    int number = kNone;
    int first = 0, last = 0;
    Bytes used = 0;
    double latency = 0;
  };

  double try_merge(int i, int j, double limit);
  void list_stops();
  std::span<const Entry> entries(const Stop& stop) const {
    return std::span(entries_).subspan(stop.first, stop.last - stop.first);
  }
  bool place(const Stop& stop, DeviceQueue& queue);
  bool place_union(int a, int b, DeviceQueue& queue);
  int find_device(Bytes used, DeviceQueue& queue);
  bool is_together(int r, int s) const;
  void visit(const Stop& stop);
  double present_path();
  template <class Visit>
  void for_each_stop(const ClusterGraph::Set& a, const ClusterGraph::Set& b, Visit visit) const;
  double least_path_through(int a, int b) const;
  double path_through_union(int a, int b, double limit);
  double path_beside_union(int a, int b, double limit);

  ClusterGraph clusters_;
  const DeviceTable table_;
  std::vector<int> logical_ids_;  // [num_devices]
  const DeviceQueue empty_devices_;

  // Of the clusters as they are.
  std::vector<Stop> in_list_;   // list order; entries of parents that stand before it in the list
  std::vector<Stop> in_order_;  // parents first; entries of all parents
  std::vector<Entry> entries_;
  // [max_numbers] seconds of the longest path to and from a cluster, itself included, where nothing
  // is transferred.
  std::vector<double> head_, tail_;

  // Scratch. By cluster; the union on trial has the next free number.
  Cluster trial_;
  std::vector<int> device_;
  std::vector<double> way_;      // the longest path that ends with the cluster
  std::vector<double> through_;  // those that pass the union; else -infinity
  std::vector<int> behind_;      // the clusters with an entry in `through_`
  // By device.
  DeviceQueue prefix_, queue_;  // after the clusters before place j; on trial
  std::vector<Bytes> saved_;    // inputs that are there already; all 0 between calls
};

}  // namespace plimsoll::partition
