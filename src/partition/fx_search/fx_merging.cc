#include "partition/fx_search/fx_merging.h"

#include <algorithm>
#include <limits>

#include "core/marks.h"
#include "partition/fx/latency.h"
#include "partition/fx/longest_path.h"
#include "partition/fx/working_parts.h"

namespace plimsoll::partition {
namespace {

constexpr std::int64_t kMaxWork = 20'000'000;  // attempts times operators and edges

class Merger {
 public:
  Merger(const Graph& graph, const PartitionerConfig& config, const FxProblem& problem,
         const std::vector<int>& device)
      : graph_(graph),
        config_(config),
        problem_(problem),
        device_(device),
        part_(problem.node.size()),
        marks_(graph.num_nodes()),
        sums_(graph.nodes.size()) {
    for (std::size_t op = 0; op < part_.size(); ++op) part_[op] = static_cast<int>(op);
  }

  void merge(double value) {
    merge_devices(value);
    std::int64_t size = 0;
    for (const auto& edges : problem_.inputs) size += 1 + static_cast<std::int64_t>(edges.size());
    std::int64_t attempts_left = kMaxWork / size;
    for (int op = 0; op < problem_.num_operators(); ++op) {
      for (const FxProblem::Edge& edge : problem_.inputs[op]) {
        const int into = part_[edge.from];
        const int from = part_[op];
        if (into == from || device_[edge.from] != device_[op]) continue;
        if (--attempts_left < 0) return;
        std::vector<int> joined = part_;
        std::replace(joined.begin(), joined.end(), from, into);
        keep_if_no_longer(std::move(joined), value);
      }
    }
  }

  // In the order of their first operators, linked and levelled.
  std::vector<Partition> make_partitions() {
    std::vector<int> index(part_.size(), -1);
    std::vector<Partition> partitions;
    for (std::size_t op = 0; op < part_.size(); ++op) {
      int& place = index[part_[op]];
      if (place < 0) {
        place = static_cast<int>(partitions.size());
        partitions.emplace_back().logical_device_ids = {config_.devices[device_[op]].logical_id};
      }
      partitions[place].nodes.push_back(problem_.node[op]);
    }
    for (Partition& partition : partitions) {
      std::vector<int> sources;
      for (const int node : partition.nodes) {
        for (const int input : graph_.nodes[node].inputs) {
          if (graph_.is_source(input)) sources.push_back(input);
        }
      }
      partition.nodes.insert(partition.nodes.end(), sources.begin(), sources.end());
      std::sort(partition.nodes.begin(), partition.nodes.end());
      partition.nodes.erase(std::unique(partition.nodes.begin(), partition.nodes.end()),
                            partition.nodes.end());
    }
    link_partitions(graph_, partitions);
    set_levels(partitions);
    return partitions;
  }

  // Its nodes' total sizes, and each value from outside once.
  Bytes bytes_of(const Partition& partition) {
    marks_.assign(partition.nodes);
    Bytes bytes = 0;
    for (const int node : partition.nodes) {
      bytes += graph_.nodes[node].size.total;
      for (const int input : graph_.nodes[node].inputs) {
        if (marks_.insert(input)) bytes += graph_.nodes[input].size.output;
      }
    }
    return bytes;
  }

 private:
  // All that a device runs as one partition: where branches part and join, each merge of two
  // partitions alone may lengthen the path, and that of all of them not.
  void merge_devices(double value) {
    for (std::size_t d = 0; d < config_.devices.size(); ++d) {
      std::vector<int> joined = part_;
      int first = -1;
      for (std::size_t op = 0; op < part_.size(); ++op) {
        if (device_[op] != static_cast<int>(d)) continue;
        if (first < 0) first = part_[op];
        joined[op] = first;
      }
      if (first >= 0) keep_if_no_longer(std::move(joined), value);
    }
  }

  void keep_if_no_longer(std::vector<int> joined, double value) {
    std::swap(part_, joined);
    if (!(critical_path(make_partitions()) <= value)) std::swap(part_, joined);
  }

  // Infinite where partitions wait for each other.
  double critical_path(const std::vector<Partition>& partitions) {
    std::vector<int> ready;
    std::vector<std::size_t> open(partitions.size());
    std::vector<double> seconds;
    for (std::size_t p = 0; p < partitions.size(); ++p) {
      open[p] = partitions[p].parents.size();
      if (open[p] == 0) ready.push_back(static_cast<int>(p));
      seconds.push_back(longest_path(graph_, config_.node_to_latency_mapping, partitions[p].nodes,
                                     marks_, sums_));
    }
    for (std::size_t i = 0; i < ready.size(); ++i) {
      for (const int child : partitions[ready[i]].children) {
        if (--open[child] == 0) ready.push_back(child);
      }
    }
    if (ready.size() != partitions.size()) return std::numeric_limits<double>::infinity();
    return latency_of_partitioned_graph(graph_, partitions, seconds,
                                        config_.transfer_rate_bytes_per_sec)
        .value_or(std::numeric_limits<double>::infinity());
  }

  const Graph& graph_;
  const PartitionerConfig& config_;
  const FxProblem& problem_;
  const std::vector<int>& device_;
  std::vector<int> part_;  // [num_operators] the number of an operator in it
  Marks marks_;
  std::vector<double> sums_;
};

}  // namespace

Placement make_placement(const Graph& graph, const PartitionerConfig& config,
                         const FxProblem& problem, const std::vector<int>& device, double value,
                         bool merges) {
  Merger merger(graph, config, problem, device);
  if (merges) merger.merge(value);
  Placement placement;
  placement.partitions = merger.make_partitions();
  for (Partition& partition : placement.partitions) {
    partition.used_mem_bytes = merger.bytes_of(partition);
  }
  placement.node_to_partition = map_nodes(graph, placement.partitions);
  return placement;
}

}  // namespace plimsoll::partition
