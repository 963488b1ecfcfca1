#include "partition/fx/latency.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <vector>

#include "partition/graphs.h"

namespace plimsoll::partition {
namespace {

using ::testing::IsEmpty;

using Latencies = std::vector<std::optional<NodeLatency>>;

// ---------------------------------------------------------------------------- every path

bool holds(const std::vector<int>& list, int value) {
  return std::find(list.begin(), list.end(), value) != list.end();
}

// The definition: walk every path, keep the first of the longest.
PartitionLatency walk_all_paths(const Graph& graph, const Latencies& latencies,
                                const std::vector<int>& nodes) {
  const std::function<PartitionLatency(int, PartitionLatency)> walk = [&](int node,
                                                                          PartitionLatency path) {
    const NodeLatency& latency = *latencies[node];
    path.overall_latency_sec += std::max(latency.computer_latency_sec, latency.mem_latency_sec);
    path.mem_latency_sec += latency.mem_latency_sec;
    path.computer_latency_sec += latency.computer_latency_sec;
    bool is_last = true;
    PartitionLatency best;
    for (const int user : graph.users[node]) {
      if (!holds(nodes, user)) continue;
      is_last = false;
      const PartitionLatency found = walk(user, path);
      if (found.overall_latency_sec > best.overall_latency_sec) best = found;
    }
    return is_last ? path : best;
  };
  PartitionLatency best;
  for (const int node : nodes) {
    const auto& inputs = graph.nodes[node].inputs;
    const bool is_top = std::none_of(inputs.begin(), inputs.end(), [&](int input) {
      return holds(nodes, input) && graph.is_operator(input);
    });
    if (!graph.is_operator(node) || !is_top) continue;
    const PartitionLatency found = walk(node, {});
    if (found.overall_latency_sec > best.overall_latency_sec) best = found;
  }
  return best;
}

double walk_all_partitions(const Graph& graph, const std::vector<Partition>& partitions,
                           const std::vector<double>& latencies, double rate) {
  const auto transfer = [&](const Partition& parent, const Partition& child) {
    if (!parent.logical_device_ids.empty() &&
        parent.logical_device_ids == child.logical_device_ids) {
      return 0.0;
    }
    Bytes bytes = 0;
    for (const int node : parent.nodes) {
      const auto& users = graph.users[node];
      if (std::any_of(users.begin(), users.end(), [&](int u) { return holds(child.nodes, u); })) {
        bytes += graph.nodes[node].size.output;
      }
    }
    return static_cast<double>(bytes) / rate;
  };
  const std::function<double(int, double)> walk = [&](int p, double sum) {
    sum += latencies[p];
    double best = 0;
    for (const int child : partitions[p].children) {
      best = std::max(best, walk(child, sum + transfer(partitions[p], partitions[child])));
    }
    return partitions[p].children.empty() ? sum : best;
  };
  double best = 0;
  for (std::size_t p = 0; p < partitions.size(); ++p) {
    if (partitions[p].parents.empty()) best = std::max(best, walk(static_cast<int>(p), 0));
  }
  return best;
}

// Random blocks of graph order; parents and children by the definition.
std::vector<Partition> random_partitions(std::mt19937_64& random, const Graph& graph) {
  std::vector<Partition> partitions(1);
  for (int node = 0; node < graph.num_nodes(); ++node) {
    if (!graph.is_operator(node)) continue;
    if (draw(random, 0, 2) == 0 && !partitions.back().nodes.empty()) partitions.emplace_back();
    for (const int input : graph.nodes[node].inputs) {
      if (graph.is_source(input)) partitions.back().nodes.push_back(input);
    }
    partitions.back().nodes.push_back(node);
  }
  for (Partition& partition : partitions) {
    auto& nodes = partition.nodes;
    std::sort(nodes.begin(), nodes.end());
    nodes.erase(std::unique(nodes.begin(), nodes.end()), nodes.end());
    partition.logical_device_ids.assign(static_cast<std::size_t>(draw(random, 0, 2)), 7);
  }
  for (std::size_t p = 0; p < partitions.size(); ++p) {
    for (std::size_t q = 0; q < partitions.size(); ++q) {
      const bool has_edge =
          std::any_of(partitions[p].nodes.begin(), partitions[p].nodes.end(), [&](int node) {
            const auto& users = graph.users[node];
            return !holds(partitions[q].nodes, node) &&
                   std::any_of(users.begin(), users.end(),
                               [&](int user) { return holds(partitions[q].nodes, user); });
          });
      if (p == q || !has_edge) continue;
      partitions[p].children.push_back(static_cast<int>(q));
      partitions[q].parents.push_back(static_cast<int>(p));
    }
  }
  return partitions;
}

// Few ticks make many ties; tenths make sums depend on their order.
TEST(Latency, EqualsTheWalkOverAllPathsToTheLastDigit) {
  for (std::uint64_t seed = 0; seed < 400; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    const Graph graph = random_graph(random, draw(random, 1, 14));
    const Latencies latencies = random_latencies(random, graph, draw(random, 1, 30));
    std::vector<int> nodes;
    for (int node = 0; node < graph.num_nodes() - 1; ++node) {
      if (draw(random, 0, 5) > 0) nodes.push_back(node);
    }
    EXPECT_EQ(latency_of_partition(graph, latencies, nodes),
              walk_all_paths(graph, latencies, nodes));

    const std::vector<Partition> partitions = random_partitions(random, graph);
    std::vector<double> overall;
    for (const Partition& partition : partitions) {
      overall.push_back(
          latency_of_partition(graph, latencies, partition.nodes)->overall_latency_sec);
    }
    EXPECT_EQ(latency_of_partitioned_graph(graph, partitions, overall, 7.0),
              walk_all_partitions(graph, partitions, overall, 7.0));
  }
}

// ---------------------------------------------------------------------------- by hand

//   a(3|1) ──► b(2|2) ──► d(1|4)     memory | computation; each node takes the larger
//      └─────► c(1|2) ──────┘
TEST(Latency, AddsTheLargerOfMemoryAndComputation) {
  const Graph graph = GraphBuilder()
                          .call("a", {}, 1)
                          .call("b", {"a"}, 1)
                          .call("c", {"a"}, 1)
                          .call("d", {"b", "c"}, 1)
                          .build();
  const Latencies latencies = {NodeLatency{3, 1}, NodeLatency{2, 2}, NodeLatency{1, 2},
                               NodeLatency{1, 4}};
  // Both branches take 2: the first one, through b, gives the parts.
  EXPECT_EQ(latency_of_partition(graph, latencies, std::vector<int>{0, 1, 2, 3}),
            (PartitionLatency{6, 7, 9}));
  EXPECT_EQ(latency_of_partition(graph, latencies, std::vector<int>{1, 2}),
            (PartitionLatency{2, 2, 2}));
  EXPECT_EQ(latency_of_partition(graph, latencies, std::vector<int>{}), PartitionLatency{});
}

// 1e16 swallows 1: a path through the lighter branch ends in the same sum, and it comes first.
//   a(0) ─┬─► light(1) ─┬─► heavy(1e16)
//         └─► full(2)   ┘   under half an ulp either way? 1e16 + 1 = 1e16, 1e16 + 2 > 1e16
TEST(Latency, TakesTheFirstPathAmongSumsThatRoundAlike) {
  const Graph graph = GraphBuilder()
                          .call("a", {}, 1)
                          .call("light", {"a"}, 1)
                          .call("full", {"a"}, 1)
                          .call("heavy", {"light", "full"}, 1)
                          .build();
  const std::vector<int> all{0, 1, 2, 3};
  Latencies latencies = {NodeLatency{0, 0}, NodeLatency{0.25, 0}, NodeLatency{0.5, 0},
                         NodeLatency{0, 1e16}};
  EXPECT_EQ(latency_of_partition(graph, latencies, all), (PartitionLatency{0.25, 1e16, 1e16}));
  latencies[2] = NodeLatency{2, 0};
  EXPECT_EQ(latency_of_partition(graph, latencies, all), (PartitionLatency{2, 1e16, 1e16 + 2}));
}

// c comes first in graph order among the operators without latency, but the walk from a meets d
// before it starts from c.
//   a ──► d     c
TEST(Latency, NamesTheFirstOperatorWithoutLatencyThatTheWalkMeets) {
  const Graph graph = GraphBuilder().call("a", {}, 1).call("c", {}, 1).call("d", {"a"}, 1).build();
  const Latencies latencies = {NodeLatency{1, 1}, std::nullopt, std::nullopt};
  const auto both = latency_of_partition(graph, latencies, std::vector<int>{0, 1, 2});
  ASSERT_FALSE(both);
  EXPECT_EQ(both.error().kind, "KeyError");
  EXPECT_EQ(both.error().message, "d");
  EXPECT_EQ(latency_of_partition(graph, latencies, std::vector<int>{0, 1}).error().message, "c");
  EXPECT_TRUE(latency_of_partition(graph, latencies, std::vector<int>{0}));
  EXPECT_EQ(latency_of_partition(graph, {}, std::vector<int>{0}).error().message, "a");
}

//   {x, a} ──8 bytes──► {x, b}      and both hold x, 24 bytes: 32 bytes at rate 4
std::vector<Partition> two_partitions() {
  std::vector<Partition> partitions(2);
  partitions[0].nodes = {0, 1};
  partitions[0].children = {1};
  partitions[1].nodes = {0, 2};
  partitions[1].parents = {0};
  return partitions;
}

TEST(Latency, ChargesTransfersBetweenDifferentListsOfDevices) {
  const Graph graph =
      GraphBuilder().input("x", 24).call("a", {"x"}, 8).call("b", {"a", "x"}, 1).build();
  auto partitions = two_partitions();
  const std::vector<double> latencies{1, 2};
  const auto path = [&](double rate) {
    return latency_of_partitioned_graph(graph, partitions, latencies, rate);
  };
  EXPECT_EQ(path(4), 1 + 8 + 2);  // nobody has a device: not together
  partitions[0].logical_device_ids = {0, 1};
  partitions[1].logical_device_ids = {1, 0};
  EXPECT_EQ(path(4), 1 + 8 + 2);
  EXPECT_EQ(path(0).error().code, ErrorCode::kZeroDivision);
  EXPECT_EQ(path(0).error().message, "float division by zero");
  partitions[1].logical_device_ids = {0, 1};
  EXPECT_EQ(path(4), 3);
  EXPECT_EQ(path(0), 3);
}

TEST(Latency, SaysWhenPartitionsWaitForEachOther) {
  const Graph graph =
      GraphBuilder().input("x", 24).call("a", {"x"}, 8).call("b", {"a", "x"}, 1).build();
  auto partitions = two_partitions();
  const std::vector<double> latencies{1, 2, 4};
  partitions[1].children = {0};
  partitions[0].parents = {1};
  EXPECT_EQ(latency_of_partitioned_graph(graph, partitions, latencies, 1), 0);  // no root
  partitions.emplace_back().children = {0};
  partitions[0].parents = {1, 2};
  const auto circle = latency_of_partitioned_graph(graph, partitions, latencies, 1);
  ASSERT_FALSE(circle);
  EXPECT_EQ(circle.error().kind, "RecursionError");
}

// Where upstream would end at Python's recursion limit, or walk 3^1000 paths.
TEST(Latency, HasNoLimitOnTheLengthOrNumberOfPaths) {
  GraphBuilder builder;
  builder.call("n0", {}, 1).call("n1", {"n0"}, 1).call("n2", {"n1", "n0"}, 1);
  for (int i = 3; i < 1000; ++i) {
    const auto name = [i](int back) { return "n" + std::to_string(i - back); };
    builder.call(name(0), {name(1), name(2), name(3)}, 1);
  }
  const Graph graph = builder.build();
  std::vector<int> all;
  for (int node = 0; node < graph.num_nodes(); ++node) all.push_back(node);
  EXPECT_EQ(latency_of_partition(graph, equal_latencies(graph, 1, 2), all),
            (PartitionLatency{1000, 2000, 2000}));
}

}  // namespace
}  // namespace plimsoll::partition
