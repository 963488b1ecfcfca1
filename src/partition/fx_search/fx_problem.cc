#include "partition/fx_search/fx_problem.h"

#include <algorithm>

#include "core/check.h"
#include "partition/fx/cluster_graph.h"

namespace plimsoll::partition {

FxProblem::FxProblem(const Graph& graph, const PartitionerConfig& config) {
  PLIMSOLL_CHECK(
      is_costed(graph, config),
      "the configuration is valid, every operator has a size and a latency, values a rate");
  std::vector<int> index(graph.nodes.size(), -1);
  for (int n = 0; n < graph.num_nodes(); ++n) {
    if (!graph.is_operator(n)) continue;
    index[n] = num_operators();
    node.push_back(n);
  }
  num_tensors = num_operators();
  for (int n = 0; n < graph.num_nodes(); ++n) {
    if (graph.is_source(n)) index[n] = num_tensors++;
  }
  readers.resize(node.size());
  for (const int n : node) {
    const NodeLatency& latency = *config.node_to_latency_mapping[n];
    seconds.push_back(std::max(latency.mem_latency_sec, latency.computer_latency_sec));
    total.push_back(graph.nodes[n].size.total);
    output.push_back(graph.nodes[n].size.output);
    const std::vector<int>& own = graph.nodes[n].inputs;
    std::vector<Edge>& edges = inputs.emplace_back();
    std::vector<Tensor>& reads = tensors.emplace_back();
    for (const int input : own) {
      const NodeSize& size = graph.nodes[input].size;
      if (graph.is_source(input)) {
        reads.push_back({index[input], size.total});
        continue;
      }
      reads.push_back({index[input], size.output});
      Bytes bytes = size.output;
      for (const int shared : graph.nodes[input].inputs) {
        if (graph.is_source(shared) && std::find(own.begin(), own.end(), shared) != own.end()) {
          bytes += graph.nodes[shared].size.output;
        }
      }
      edges.push_back(
          {index[input], static_cast<double>(bytes) / config.transfer_rate_bytes_per_sec});
      readers[index[input]].push_back(index[n]);
    }
  }
  for (const Device& device : config.devices) room.push_back(device.available_mem_bytes);
  tail.resize(node.size());
  for (int op = num_operators() - 1; op >= 0; --op) {
    for (const int reader : readers[op]) {
      tail[op] = std::max(tail[op], tail[reader] + seconds[reader]);
    }
  }
}

double FxProblem::critical_path(const std::vector<int>& device, int count,
                                std::vector<double>& finish) const {
  double longest = 0;
  for (int op = 0; op < count; ++op) {
    double start = 0;
    for (const Edge& edge : inputs[op]) {
      const double ready =
          device[edge.from] == device[op] ? finish[edge.from] : finish[edge.from] + edge.seconds;
      start = std::max(start, ready);
    }
    finish[op] = start + seconds[op];
    longest = std::max(longest, finish[op]);
  }
  return longest;
}

FxState::FxState(const FxProblem& problem)
    : problem_(problem),
      device_(problem.node.size(), -1),
      readers_(static_cast<std::size_t>(problem.num_tensors) * problem.room.size()),
      bytes_(problem.room.size()) {}

void FxState::clear() {
  std::fill(device_.begin(), device_.end(), -1);
  std::fill(readers_.begin(), readers_.end(), 0);
  std::fill(bytes_.begin(), bytes_.end(), 0);
}

void FxState::assign(const std::vector<int>& device) {
  clear();
  for (int op = 0; op < problem_.num_operators(); ++op) move(op, device[op]);
}

void FxState::move(int op, int to) {
  const int from = device_[op];
  const auto num_readers = [this](int tensor, int device) -> int& {
    return readers_[static_cast<std::size_t>(tensor) * bytes_.size() +
                    static_cast<std::size_t>(device)];
  };
  const auto is_there = [this](int tensor, int device) {
    return tensor < problem_.num_operators() && device_[tensor] == device;
  };
  if (from >= 0) {
    bytes_[from] -= problem_.total[op];
    if (num_readers(op, from) > 0) bytes_[from] += problem_.output[op];
    for (const auto& tensor : problem_.tensors[op]) {
      if (--num_readers(tensor.index, from) == 0 && !is_there(tensor.index, from)) {
        bytes_[from] -= tensor.bytes;
      }
    }
  }
  device_[op] = to;
  if (to < 0) return;
  bytes_[to] += problem_.total[op];
  if (num_readers(op, to) > 0) bytes_[to] -= problem_.output[op];
  for (const auto& tensor : problem_.tensors[op]) {
    if (num_readers(tensor.index, to)++ == 0 && !is_there(tensor.index, to)) {
      bytes_[to] += tensor.bytes;
    }
  }
}

}  // namespace plimsoll::partition
