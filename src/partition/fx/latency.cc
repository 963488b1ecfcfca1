#include "partition/fx/latency.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <optional>

#include "core/check.h"
#include "partition/fx/longest_path.h"
#include "partition/fx/working_parts.h"

namespace plimsoll::partition {
namespace {

double time_of(const NodeLatency& latency) {
  return std::max(latency.computer_latency_sec, latency.mem_latency_sec);
}

// The least x >= 0 with x + addend >= sum: bisection over the bit patterns, which order
// non-negative numbers as their values do. Preconditions: addend >= 0, sum >= 0.
double least_prefix(double sum, double addend) {
  PLIMSOLL_DCHECK(addend >= 0 && sum >= 0, "neither number is negative");
  std::uint64_t low = 0;
  std::uint64_t high = std::bit_cast<std::uint64_t>(sum);
  while (low < high) {
    const std::uint64_t middle = low + (high - low) / 2;
    if (std::bit_cast<double>(middle) + addend >= sum) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return std::bit_cast<double>(low);
}

// The first path in depth-first order whose sum is `longest`.
PartitionLatency first_longest_path(const Graph& graph,
                                    const std::vector<std::optional<NodeLatency>>& latencies,
                                    std::span<const int> nodes, double longest) {
  Marks present(graph.num_nodes());
  present.assign(nodes);
  // Prefixes that still become `longest`: before the node is added, and after.
  std::vector<double> before(graph.nodes.size());
  std::vector<double> after(graph.nodes.size());
  for (auto it = nodes.rbegin(); it != nodes.rend(); ++it) {
    const int node = *it;
    if (!graph.is_operator(node)) continue;
    double least = std::numeric_limits<double>::infinity();
    for (const int user : graph.users[node]) {
      if (present.contains(user)) least = std::min(least, before[user]);
    }
    if (least == std::numeric_limits<double>::infinity()) least = longest;
    after[node] = least;
    before[node] = least_prefix(least, time_of(*latencies[node]));
  }

  PartitionLatency path;
  const auto step = [&](std::span<const int> candidates, bool only_tops) {
    for (const int node : candidates) {
      if (!present.contains(node) || !graph.is_operator(node)) continue;
      if (only_tops && std::any_of(graph.nodes[node].inputs.begin(), graph.nodes[node].inputs.end(),
                                   [&](int input) {
                                     return present.contains(input) && !graph.is_source(input);
                                   })) {
        continue;
      }
      if (path.overall_latency_sec < before[node]) continue;
      path.overall_latency_sec += time_of(*latencies[node]);
      path.mem_latency_sec += latencies[node]->mem_latency_sec;
      path.computer_latency_sec += latencies[node]->computer_latency_sec;
      return node;
    }
    return -1;
  };
  for (int node = step(nodes, true); node >= 0; node = step(graph.users[node], false)) {
  }
  return path;
}

// The first operator without a latency that a depth-first walk meets; -1 if all have one.
int find_missing(const Graph& graph, const std::vector<std::optional<NodeLatency>>& latencies,
                 std::span<const int> nodes) {
  const auto is_missing = [&](int node) {
    return graph.is_operator(node) &&
           (latencies.empty() || !latencies[static_cast<std::size_t>(node)]);
  };
  if (std::none_of(nodes.begin(), nodes.end(), is_missing)) return -1;
  Marks present(graph.num_nodes());
  present.assign(nodes);
  Marks seen(graph.num_nodes());
  for (const int top : nodes) {
    const auto& inputs = graph.nodes[top].inputs;
    if (!graph.is_operator(top) || std::any_of(inputs.begin(), inputs.end(), [&](int input) {
          return present.contains(input) && !graph.is_source(input);
        })) {
      continue;
    }
    std::vector<int> open{top};
    while (!open.empty()) {
      const int node = open.back();
      open.pop_back();
      if (!seen.insert(node)) continue;
      if (is_missing(node)) return node;
      const auto& users = graph.users[node];
      for (auto user = users.rbegin(); user != users.rend(); ++user) {
        if (present.contains(*user)) open.push_back(*user);
      }
    }
  }
  return -1;
}

// Partitions that a walk from the roots meets, parents first; nothing where it would go in circles.
std::optional<std::vector<int>> topological_order(const std::vector<Partition>& partitions) {
  std::vector<int> reached;
  std::vector<int> open(partitions.size());  // edges from reached partitions
  std::vector<bool> is_reached(partitions.size());
  std::vector<int> order;
  for (std::size_t p = 0; p < partitions.size(); ++p) {
    if (!partitions[p].parents.empty()) continue;
    is_reached[p] = true;
    reached.push_back(static_cast<int>(p));
  }
  order = reached;
  for (std::size_t i = 0; i < reached.size(); ++i) {
    for (const int child : partitions[reached[i]].children) {
      ++open[child];
      if (is_reached[child]) continue;
      is_reached[child] = true;
      reached.push_back(child);
    }
  }
  for (std::size_t i = 0; i < order.size(); ++i) {
    for (const int child : partitions[order[i]].children) {
      if (--open[child] == 0) order.push_back(child);
    }
  }
  if (order.size() != reached.size()) return std::nullopt;
  return order;
}

}  // namespace

double longest_path(const Graph& graph, const std::vector<std::optional<NodeLatency>>& latencies,
                    std::span<const int> nodes, Marks& marks, std::vector<double>& sums) {
  marks.assign(nodes);
  double longest = 0;
  for (const int node : nodes) {
    if (!graph.is_operator(node)) continue;
    double prefix = 0;
    for (const int input : graph.nodes[node].inputs) {
      if (marks.contains(input) && !graph.is_source(input)) prefix = std::max(prefix, sums[input]);
    }
    sums[node] = prefix + time_of(*latencies[node]);
    longest = std::max(longest, sums[node]);
  }
  return longest;
}

Result<void> check_latencies(const Graph& graph,
                             const std::vector<std::optional<NodeLatency>>& latencies,
                             std::span<const int> nodes) {
  const int missing = find_missing(graph, latencies, nodes);
  if (missing < 0) return {};
  const std::string& name = graph.nodes[missing].name;
  return raise_input_error("KeyError", name, name, "give every operator a latency");
}

Result<bool> check_operators(const Graph& graph,
                             const std::vector<std::optional<NodeLatency>>& latencies) {
  std::vector<int> operators;
  bool has_edge = false;
  for (int node = 0; node < graph.num_nodes(); ++node) {
    if (!graph.is_operator(node)) continue;
    if (node >= graph.num_sized) return raise_unsized(graph.nodes[node]);
    operators.push_back(node);
    for (const int input : graph.nodes[node].inputs) has_edge |= graph.is_operator(input);
  }
  for (const int node : operators) {
    const std::vector<int> alone{node};
    PLIMSOLL_RETURN_IF_ERROR(check_latencies(graph, latencies, alone));
  }
  return has_edge;
}

Result<PartitionLatency> latency_of_partition(
    const Graph& graph, const std::vector<std::optional<NodeLatency>>& latencies,
    std::span<const int> nodes) {
  PLIMSOLL_RETURN_IF_ERROR(check_latencies(graph, latencies, nodes));
  Marks marks(graph.num_nodes());
  std::vector<double> sums(graph.nodes.size());
  const double longest = longest_path(graph, latencies, nodes, marks, sums);
  if (longest == 0) return PartitionLatency{};
  return first_longest_path(graph, latencies, nodes, longest);
}

Result<double> latency_of_partitioned_graph(const Graph& graph,
                                            const std::vector<Partition>& partitions,
                                            std::span<const double> overall_latency_sec,
                                            double transfer_rate) {
  const auto order = topological_order(partitions);
  if (!order) {
    return raise_input_error("RecursionError", "maximum recursion depth exceeded", "",
                             "the partitions wait for each other");
  }
  Marks inside(graph.num_nodes());
  Marks counted(graph.num_nodes());
  // [num_partitions] the largest sum over the paths to it, its own latency left out.
  std::vector<double> prefix(partitions.size());
  double longest = 0;
  for (const int p : *order) {
    const Partition& parent = partitions[p];
    const double sum = prefix[p] + overall_latency_sec[p];
    longest = std::max(longest, sum);
    bool is_marked = false;
    for (const int q : parent.children) {
      const Partition& child = partitions[q];
      double transfer = 0;
      if (parent.logical_device_ids.empty() ||
          parent.logical_device_ids != child.logical_device_ids) {
        if (transfer_rate == 0) {
          return fail(ErrorCode::kZeroDivision, "transfer_rate_bytes_per_sec",
                      "float division by zero", "give the rate of a link");
        }
        if (!is_marked) inside.assign(parent.nodes);
        is_marked = true;
        // Quirk, kept: sources that both partitions hold count as sent.
        counted.clear();
        Bytes bytes = 0;
        for (const int node : child.nodes) {
          for (const int input : graph.nodes[node].inputs) {
            if (inside.contains(input) && counted.insert(input)) {
              bytes += graph.nodes[input].size.output;
            }
          }
        }
        transfer = static_cast<double>(bytes) / transfer_rate;
      }
      prefix[q] = std::max(prefix[q], sum + transfer);
    }
  }
  return longest;
}

}  // namespace plimsoll::partition
