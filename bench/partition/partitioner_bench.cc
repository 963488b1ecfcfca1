// The reference partitioner: time with the partitions found and the critical path beside it.
//
// The names say mode, shape and operators. chain: each operator reads the one before; residual: and
// every third also the one three before; branchy: blocks of four branches of two operators that
// meet. Four devices with 2.6 times the graph's bytes together; sizes and times from the seed.

#include <benchmark/benchmark.h>

#include <cmath>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "plimsoll/partition/partitioner.h"

namespace plimsoll::bench {
namespace {

using partition::Graph;
using partition::Node;
using partition::NodeLatency;
using partition::OpKind;
using partition::PartitionerConfig;
using partition::PartitionMode;

enum class Shape { kChain, kResidual, kBranchy, kParallel };

struct Case {
  Graph graph;
  PartitionerConfig config;
};

class Random {
 public:
  // In [low, high].
  int draw(int low, int high) {
    state_ = state_ * 6364136223846793005U + 1442695040888963407U;
    return low + static_cast<int>((state_ >> 33) % static_cast<std::uint64_t>(high - low + 1));
  }

 private:
  std::uint64_t state_ = 1;
};

// The operators that operator i reads; node 0 is the input, operator i is node i + 1.
std::vector<int> inputs_of(Shape shape, int i) {
  switch (shape) {
    case Shape::kChain:
      return {i};
    case Shape::kResidual:
      if (i >= 3 && i % 3 == 0) return {i, i - 2};
      return {i};
    case Shape::kParallel:  // chains of five
      return {i % 5 == 0 ? 0 : i};
    case Shape::kBranchy: {
      const int block = i / 9 * 9;  // its first node is what the block reads
      const int place = i % 9;
      if (place == 8) return {block + 2, block + 4, block + 6, block + 8};
      return {place % 2 == 0 ? block : i};
    }
  }
  return {};
}

Case make_case(PartitionMode mode, Shape shape, int num_operators) {
  Random random;
  std::vector<Node> nodes;
  Case result;
  nodes.push_back({"x", OpKind::kPlaceholder, "", {}, {64, 64}});
  result.config.node_to_latency_mapping.emplace_back();
  for (int i = 0; i < num_operators; ++i) {
    Node node;
    node.name = "m" + std::to_string(i);
    node.op = OpKind::kCallModule;
    node.inputs = inputs_of(shape, i);
    node.size.output = 4 * random.draw(8, 64);
    node.size.total = node.size.output + 4 * random.draw(8, 300);
    nodes.push_back(std::move(node));
    const double memory = random.draw(1, 40);
    const double computation = random.draw(1, 40);
    result.config.node_to_latency_mapping.emplace_back(NodeLatency{memory, computation});
  }
  std::vector<int> ends{num_operators};
  for (int i = 5; shape == Shape::kParallel && i < num_operators; i += 5) ends.push_back(i);
  nodes.push_back({"output", OpKind::kOutput, "", ends, {}});
  result.config.node_to_latency_mapping.emplace_back();
  result.graph = *partition::make_graph(std::move(nodes));
  for (int d = 0; d < 4; ++d) {
    const double room = 2.6 * static_cast<double>(result.graph.total_size) / 4;
    result.config.devices.push_back({"d" + std::to_string(d), static_cast<Bytes>(room), d});
  }
  result.config.mode = mode;
  result.config.transfer_rate_bytes_per_sec = 8;
  return result;
}

void partition_graph(benchmark::State& state, PartitionMode mode, Shape shape) {
  const Case problem = make_case(mode, shape, static_cast<int>(state.range(0)));
  for (auto _ : state) {
    const auto result = partition::partition_like_torch(problem.graph, problem.config);
    if (!result || result->failure) {
      state.SkipWithError(format_error(result ? *result->failure : result.error()).c_str());
      return;
    }
    state.counters["partitions"] = static_cast<double>(result->outcome.plan->partitions.size());
    state.counters["critical_path_s"] = result->outcome.certificate.objective;
  }
}

#define PLIMSOLL_BENCH(mode, shape, name) \
  BENCHMARK_CAPTURE(partition_graph, name, PartitionMode::mode, Shape::shape)
PLIMSOLL_BENCH(kSizeBased, kChain, size_chain)->Arg(200)->Arg(3200)->Unit(benchmark::kMillisecond);
PLIMSOLL_BENCH(kSizeBased, kResidual, size_residual)->Arg(3200)->Unit(benchmark::kMillisecond);
PLIMSOLL_BENCH(kSizeBased, kBranchy, size_branchy)->Arg(3200)->Unit(benchmark::kMillisecond);
PLIMSOLL_BENCH(kCostAware, kChain, cost_chain)->Arg(200)->Unit(benchmark::kMillisecond);
PLIMSOLL_BENCH(kCostAware, kResidual, cost_residual)->Arg(200)->Unit(benchmark::kMillisecond);
PLIMSOLL_BENCH(kCostAware, kBranchy, cost_branchy)->Arg(200)->Unit(benchmark::kMillisecond);
PLIMSOLL_BENCH(kCostAware, kParallel, cost_parallel)->Arg(200)->Unit(benchmark::kMillisecond);
PLIMSOLL_BENCH(kKlBased, kChain, kl_chain)->Arg(200)->Unit(benchmark::kMillisecond);
PLIMSOLL_BENCH(kKlBased, kResidual, kl_residual)->Arg(200)->Unit(benchmark::kMillisecond);
PLIMSOLL_BENCH(kKlBased, kBranchy, kl_branchy)->Arg(200)->Unit(benchmark::kMillisecond);
PLIMSOLL_BENCH(kKlBased, kParallel, kl_parallel)->Arg(200)->Unit(benchmark::kMillisecond);
#undef PLIMSOLL_BENCH

}  // namespace
}  // namespace plimsoll::bench

BENCHMARK_MAIN();
