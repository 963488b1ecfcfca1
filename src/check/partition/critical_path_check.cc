#include "plimsoll/check/critical_path_check.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "plimsoll/core/numbers.h"

namespace plimsoll::check {
namespace {

using partition::Graph;
using partition::Partition;
using partition::PartitionerConfig;
using partition::Placement;
using Code = FindingCode;

class PartitionJudge {
 public:
  PartitionJudge(const Graph& graph, const PartitionerConfig& config, const Placement& placement)
      : graph_(graph), config_(config), placement_(placement) {
    for (const Partition& partition : placement.partitions) {
      sets_.emplace_back(partition.nodes.begin(), partition.nodes.end());
    }
  }

  CriticalPathReport judge_path(std::optional<double> stated_sec) {
    judge_nodes();
    judge_devices();
    const std::vector<Edge> edges = find_edges();
    std::vector<double> own;
    for (std::size_t p = 0; p < num_parts(); ++p) own.push_back(own_seconds(p));
    report_.own_sec = own;
    find_path(edges, own);
    judge_stated(stated_sec);
    return std::move(report_);
  }

  CriticalPathReport judge_partitions() {
    judge_nodes();
    judge_devices();
    find_path(find_edges(), std::vector<double>(num_parts()));
    if (std::isfinite(report_.critical_path_sec)) report_.critical_path_sec = 0;
    return std::move(report_);
  }

 private:
  struct Edge {
    std::size_t from, to;
    double seconds;
  };

  void find(Code code, const std::string& place, const std::string& message) {
    report_.findings.push_back({code, place, std::nullopt, "", "", message});
  }
  std::size_t num_parts() const { return sets_.size(); }

  void judge_nodes() {
    for (int node = 0; node < graph_.num_nodes(); ++node) {
      if (!graph_.is_operator(node)) continue;
      const std::string& name = graph_.nodes[node].name;
      int count = 0;
      for (std::size_t p = 0; p < num_parts(); ++p) {
        if (sets_[p].count(node) == 0) continue;
        ++count;
        if (static_cast<std::size_t>(node) >= placement_.node_to_partition.size() ||
            placement_.node_to_partition[node] != placement_.partitions[p].id) {
          find(Code::kMappingMismatch, name, "the mapping names another partition");
        }
        for (const int input : graph_.nodes[node].inputs) {
          if (graph_.is_source(input) && sets_[p].count(input) == 0) {
            find(Code::kMissingSource, name, "its partition lacks " + graph_.nodes[input].name);
          }
        }
      }
      if (count != 1) {
        find(Code::kNotPlaced, name, "stands in " + std::to_string(count) + " partitions");
      }
    }
  }

  void judge_devices() {
    std::vector<std::set<int>> held(config_.devices.size());
    for (std::size_t p = 0; p < num_parts(); ++p) {
      const std::vector<int>& ids = placement_.partitions[p].logical_device_ids;
      bool is_known = !ids.empty();
      for (const int id : ids) {
        bool exists = false;
        for (std::size_t d = 0; d < held.size(); ++d) {
          if (config_.devices[d].logical_id != id) continue;
          exists = true;
          held[d].insert(sets_[p].begin(), sets_[p].end());
        }
        is_known = is_known && exists;
      }
      if (!is_known) {
        find(Code::kUnknownDevice, "", "partition " + std::to_string(p) + " is on no such device");
      }
    }
    for (const auto& nodes : sets_) report_.own_bytes.push_back(bytes_of(nodes));
    for (std::size_t d = 0; d < held.size(); ++d) {
      const Bytes bytes = bytes_of(held[d]);
      report_.memory.push_back(bytes);
      if (bytes > config_.devices[d].available_mem_bytes) {
        find(Code::kOverMemory, config_.devices[d].name,
             std::to_string(bytes) + " bytes on a device of " +
                 std::to_string(config_.devices[d].available_mem_bytes));
      }
    }
  }

  // Its nodes, and each value from outside once.
  Bytes bytes_of(const std::set<int>& nodes) const {
    Bytes bytes = 0;
    std::set<int> from_outside;
    for (const int node : nodes) {
      bytes += graph_.nodes[node].size.total;
      for (const int input : graph_.nodes[node].inputs) {
        if (nodes.count(input) == 0) from_outside.insert(input);
      }
    }
    for (const int node : from_outside) bytes += graph_.nodes[node].size.output;
    return bytes;
  }

  double own_seconds(std::size_t p) const {
    std::vector<double> finish(graph_.nodes.size());
    double longest = 0;
    for (const int node : sets_[p]) {
      if (!graph_.is_operator(node)) continue;
      for (const int input : graph_.nodes[node].inputs) {
        if (sets_[p].count(input) != 0) finish[node] = std::max(finish[node], finish[input]);
      }
      const auto& latency = *config_.node_to_latency_mapping[node];
      finish[node] += std::max(latency.mem_latency_sec, latency.computer_latency_sec);
      longest = std::max(longest, finish[node]);
    }
    return longest;
  }

  // What q reads and p holds; is there anything that q does not hold itself?
  bool is_edge(std::size_t p, std::size_t q, double& seconds) const {
    std::set<int> sent;
    bool is_needed = false;
    for (const int node : sets_[q]) {
      for (const int input : graph_.nodes[node].inputs) {
        if (sets_[p].count(input) == 0) continue;
        sent.insert(input);
        is_needed = is_needed || sets_[q].count(input) == 0;
      }
    }
    Bytes bytes = 0;
    for (const int node : sent) bytes += graph_.nodes[node].size.output;
    const auto& devices = placement_.partitions[p].logical_device_ids;
    const bool is_near = !devices.empty() && devices == placement_.partitions[q].logical_device_ids;
    const double rate = config_.transfer_rate_bytes_per_sec;
    seconds = is_near || rate == 0 ? 0 : static_cast<double>(bytes) / rate;
    return is_needed;
  }

  std::vector<Edge> find_edges() const {
    std::vector<Edge> edges;
    for (std::size_t p = 0; p < num_parts(); ++p) {
      for (std::size_t q = 0; q < num_parts(); ++q) {
        double seconds = 0;
        if (p != q && is_edge(p, q, seconds)) edges.push_back({p, q, seconds});
      }
    }
    return edges;
  }

  // Raises the end of every partition until nothing changes.
  void find_path(const std::vector<Edge>& edges, const std::vector<double>& own) {
    std::vector<double> finish = own;
    std::vector<std::size_t> depth(num_parts());
    bool has_changed = true;
    for (std::size_t round = 0; has_changed && round <= num_parts(); ++round) {
      has_changed = false;
      for (const Edge& edge : edges) {
        finish[edge.to] =
            std::max(finish[edge.to], finish[edge.from] + edge.seconds + own[edge.to]);
        if (depth[edge.from] + 1 <= depth[edge.to]) continue;
        depth[edge.to] = depth[edge.from] + 1;
        has_changed = true;
      }
    }
    for (const double end : finish) {
      report_.critical_path_sec = std::max(report_.critical_path_sec, end);
    }
    if (!has_changed) return;
    report_.critical_path_sec = kInfinity;
    find(Code::kPartitionsWait, "", "partitions wait for each other in a cycle");
  }

  void judge_stated(std::optional<double> stated_sec) {
    if (!stated_sec || std::abs(*stated_sec - report_.critical_path_sec) <=
                           1e-9 * std::abs(report_.critical_path_sec)) {
      return;
    }
    find(Code::kPathMismatch, "",
         "stated " + std::to_string(*stated_sec) + ", found " +
             std::to_string(report_.critical_path_sec));
  }

  const Graph& graph_;
  const PartitionerConfig& config_;
  const Placement& placement_;
  std::vector<std::set<int>> sets_;  // [num_partitions]
  CriticalPathReport report_;
};

Result<void> check_arguments(const Graph& graph, const PartitionerConfig& config,
                             const Placement& placement) {
  PLIMSOLL_RETURN_IF_ERROR(partition::validate(config, graph));
  for (std::size_t p = 0; p < placement.partitions.size(); ++p) {
    for (const int node : placement.partitions[p].nodes) {
      if (node >= 0 && node < graph.num_nodes()) continue;
      return fail(ErrorCode::kValue, "partition " + std::to_string(p),
                  "there is no node " + std::to_string(node), "give nodes of the graph");
    }
  }
  return {};
}

}  // namespace

Result<CriticalPathReport> check_critical_path(const Graph& graph, const PartitionerConfig& config,
                                               const Placement& placement,
                                               std::optional<double> stated_sec) {
  PLIMSOLL_RETURN_IF_ERROR(check_arguments(graph, config, placement));
  if (config.transfer_rate_bytes_per_sec == 0) {
    return fail(ErrorCode::kValue, "transfer_rate_bytes_per_sec", "a rate of 0",
                "give the rate of a link");
  }
  for (int node = 0; node < graph.num_nodes(); ++node) {
    if (!graph.is_operator(node)) continue;
    if (config.node_to_latency_mapping.empty() || !config.node_to_latency_mapping[node]) {
      return fail(ErrorCode::kRuntime, graph.nodes[node].name, "has no latency",
                  "give every operator a latency");
    }
  }
  return PartitionJudge(graph, config, placement).judge_path(stated_sec);
}

Result<CriticalPathReport> check_partitions(const Graph& graph, const PartitionerConfig& config,
                                            const Placement& placement) {
  PLIMSOLL_RETURN_IF_ERROR(check_arguments(graph, config, placement));
  return PartitionJudge(graph, config, placement).judge_partitions();
}

}  // namespace plimsoll::check
