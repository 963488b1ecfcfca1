// What holds for every answer of the reference search, on random graphs: laws that need no oracle.

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <set>

#include "partition/fx/latency.h"
#include "partition/fx/memory.h"
#include "partition/graphs.h"
#include "plimsoll/partition/partitioner.h"

namespace plimsoll::partition::partitioner_properties {
namespace {

constexpr int kNumSeeds = 300;

struct Problem {
  Graph graph;
  PartitionerConfig config;
};

Problem random_problem(std::uint64_t seed, PartitionMode mode) {
  std::mt19937_64 random(seed);
  Problem problem;
  problem.graph = random_graph(random, draw(random, 2, 14));
  const int count = draw(random, 2, 5);
  const Bytes share = problem.graph.total_size * draw(random, 11, 26) / (10 * count) + 1;
  const bool is_equal = mode == PartitionMode::kSparseNn;
  std::vector<Bytes> memories;
  for (int d = 0; d < count; ++d) {
    memories.push_back(is_equal ? share : share * draw(random, 7, 13) / 10);
  }
  problem.config.devices = devices(memories);
  problem.config.mode = mode;
  problem.config.transfer_rate_bytes_per_sec = draw(random, 1, 40);
  problem.config.node_to_latency_mapping = random_latencies(random, problem.graph, 30);
  return problem;
}

constexpr PartitionMode kModes[] = {PartitionMode::kSizeBased, PartitionMode::kSparseNn,
                                    PartitionMode::kCostAware, PartitionMode::kKlBased};

// Calls `test` with every answer that has a placement.
void for_each_answer(const std::function<void(const Problem&, const ReferencePartition&)>& test) {
  int num_spread = 0;
  for (const PartitionMode mode : kModes) {
    for (std::uint64_t seed = 0; seed < kNumSeeds; ++seed) {
      SCOPED_TRACE(std::string(to_string(mode)) + " " + std::to_string(seed));
      const Problem problem = random_problem(seed, mode);
      const auto result = partition_like_torch(problem.graph, problem.config);
      ASSERT_TRUE(result) << format_error(result.error());
      ASSERT_EQ(result->failure.has_value(), !result->outcome.plan.has_value());
      if (result->failure) continue;
      num_spread += result->outcome.plan->partitions.size() > 1;
      test(problem, *result);
    }
  }
  EXPECT_GT(num_spread, kNumSeeds / 2);
}

bool holds(const std::vector<int>& list, int value) {
  return std::find(list.begin(), list.end(), value) != list.end();
}

TEST(PartitionerProperties, EveryOperatorStandsInOnePartitionWithItsSources) {
  for_each_answer([](const Problem& problem, const ReferencePartition& result) {
    const Graph& graph = problem.graph;
    const Placement& placement = *result.outcome.plan;
    std::vector<int> times(graph.nodes.size());
    for (const Partition& partition : placement.partitions) {
      EXPECT_TRUE(std::is_sorted(partition.nodes.begin(), partition.nodes.end()));
      for (const int node : partition.nodes) {
        ++times[node];
        for (const int input : graph.nodes[node].inputs) {
          EXPECT_TRUE(!graph.is_source(input) || holds(partition.nodes, input));
        }
      }
    }
    for (int node = 0; node < graph.num_nodes(); ++node) {
      if (!graph.is_operator(node)) continue;
      EXPECT_EQ(times[node], 1);
      ASSERT_TRUE(placement.node_to_partition[node]);
      if (problem.config.mode == PartitionMode::kKlBased) continue;  // may be stale
      const int id = *placement.node_to_partition[node];
      EXPECT_TRUE(holds(placement.partitions[id].nodes, node));
    }
  });
}

TEST(PartitionerProperties, EveryDeviceHoldsWhatItIsGiven) {
  for_each_answer([](const Problem& problem, const ReferencePartition& result) {
    const auto& partitions = result.outcome.plan->partitions;
    for (const Partition& partition : partitions) {
      if (partitions.size() > 1) {
        EXPECT_EQ(partition.used_mem_bytes, used_bytes(problem.graph, partition.nodes));
      }
    }
    // The final sweep of kl_based moves without asking again.
    if (problem.config.mode == PartitionMode::kKlBased) return;
    for (const Device& device : problem.config.devices) {
      std::set<int> nodes;
      for (const Partition& partition : partitions) {
        if (!holds(partition.logical_device_ids, device.logical_id)) continue;
        nodes.insert(partition.nodes.begin(), partition.nodes.end());
      }
      const std::vector<int> list(nodes.begin(), nodes.end());
      EXPECT_LE(used_bytes(problem.graph, list), device.available_mem_bytes);
    }
  });
}

TEST(PartitionerProperties, ParentsAndChildrenAreTheEdgesOfTheNodesWithoutCycles) {
  for_each_answer([](const Problem& problem, const ReferencePartition& result) {
    const auto& partitions = result.outcome.plan->partitions;
    if (partitions.size() == 1) return;
    for (std::size_t p = 0; p < partitions.size(); ++p) {
      std::set<int> children;
      for (std::size_t q = 0; q < partitions.size(); ++q) {
        for (const int node : partitions[q].nodes) {
          for (const int input : problem.graph.nodes[node].inputs) {
            if (p != q && holds(partitions[p].nodes, input) && !holds(partitions[q].nodes, input)) {
              children.insert(static_cast<int>(q));
            }
          }
        }
      }
      EXPECT_EQ(partitions[p].children, std::vector<int>(children.begin(), children.end()));
      for (const int child : partitions[p].children) {
        EXPECT_TRUE(holds(partitions[child].parents, static_cast<int>(p)));
        if (partitions[p].bfs_level >= 0) {
          EXPECT_GT(partitions[child].bfs_level, partitions[p].bfs_level);
        }
      }
      EXPECT_EQ(partitions[p].id, static_cast<int>(p));
    }
    const auto path = latency_of_partitioned_graph(problem.graph, partitions,
                                                   std::vector<double>(partitions.size(), 1.0), 1);
    EXPECT_TRUE(path) << "a cycle";
  });
}

// One call for each partition, after all that it needs.
TEST(PartitionerProperties, CallsComeAfterWhatTheyRead) {
  for_each_answer([](const Problem&, const ReferencePartition& result) {
    const auto& nodes = result.split.nodes;
    const auto position = [&nodes](const std::string& name) {
      return std::find(nodes.begin(), nodes.end(), name) - nodes.begin();
    };
    EXPECT_EQ(std::set<std::string>(nodes.begin(), nodes.end()).size(), nodes.size());
    for (const DagNode& call : result.split.dag) {
      for (const std::string& input : call.inputs) {
        EXPECT_LT(position(input), position(call.submodule));
      }
      for (const std::string& output : call.outputs) {
        EXPECT_GE(position(output), position(call.submodule));
      }
    }
  });
}

Problem scaled(Problem problem, Bytes bytes, double seconds) {
  std::vector<Node> nodes = problem.graph.nodes;
  for (Node& node : nodes) {
    node.size.output *= bytes;
    node.size.total *= bytes;
  }
  problem.graph = make_graph(nodes).value();
  for (Device& device : problem.config.devices) device.available_mem_bytes *= bytes;
  for (auto& latency : problem.config.node_to_latency_mapping) {
    if (!latency) continue;
    latency->mem_latency_sec *= seconds;
    latency->computer_latency_sec *= seconds;
  }
  problem.config.transfer_rate_bytes_per_sec *= static_cast<double>(bytes) / seconds;
  return problem;
}

// Powers of two change no digit of a sum.
TEST(PartitionerProperties, UnitsChangeNoDecision) {
  for_each_answer([](const Problem& problem, const ReferencePartition& result) {
    const Problem other = scaled(problem, 8, 4);
    const auto same = partition_like_torch(other.graph, other.config);
    ASSERT_TRUE(same && same->outcome.plan);
    Placement placement = *same->outcome.plan;
    for (Partition& partition : placement.partitions) partition.used_mem_bytes /= 8;
    EXPECT_EQ(placement, *result.outcome.plan);
    EXPECT_EQ(same->outcome.certificate.objective, 4 * result.outcome.certificate.objective);
  });
}

TEST(PartitionerProperties, NamesAndRepetitionChangeNoDecision) {
  for_each_answer([](const Problem& problem, const ReferencePartition& result) {
    std::vector<Node> nodes = problem.graph.nodes;
    for (Node& node : nodes) node.name = "q" + node.name;
    PartitionerConfig config = problem.config;
    for (Device& device : config.devices) device.name = "z" + device.name;
    const auto renamed = partition_like_torch(make_graph(nodes).value(), config);
    ASSERT_TRUE(renamed);
    EXPECT_EQ(renamed->outcome.plan, result.outcome.plan);
    const auto again = partition_like_torch(problem.graph, problem.config);
    ASSERT_TRUE(again);
    EXPECT_EQ(again->outcome.plan, result.outcome.plan);
    EXPECT_EQ(again->split, result.split);
  });
}

TEST(PartitionerProperties, ReleasesDifferInTextsAndDeadPartsAlone) {
  for (const PartitionMode mode : kModes) {
    for (std::uint64_t seed = 0; seed < kNumSeeds; ++seed) {
      SCOPED_TRACE(seed);
      const Problem problem = random_problem(seed, mode);
      const auto now = partition_like_torch(problem.graph, problem.config);
      const auto then =
          partition_like_torch(problem.graph, problem.config, find_dialect("torch-1.13").value());
      ASSERT_TRUE(now && then);
      EXPECT_EQ(now->outcome.plan, then->outcome.plan);
      EXPECT_EQ(now->split, then->split);
      ASSERT_EQ(now->failure.has_value(), then->failure.has_value());
      if (now->failure) {
        EXPECT_EQ(now->failure->kind, then->failure->kind);
      }
    }
  }
}

}  // namespace
}  // namespace plimsoll::partition::partitioner_properties
