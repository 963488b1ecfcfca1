// cost_aware beside docs/mathematics/torch-fx-partitioner.md#cost-aware taken literally: every
// merge is carried out on a copy of the list, mapped and measured as a whole.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "partition/fx/device_mapping.h"
#include "partition/fx/latency.h"
#include "partition/fx/longest_path.h"
#include "partition/fx/modes.h"
#include "partition/fx/working_parts.h"
#include "partition/graphs.h"

namespace plimsoll::partition {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

class Naive {
 public:
  Naive(const Graph& graph, const PartitionerConfig& config)
      : graph_(graph),
        config_(config),
        mapper_(graph, config.devices),
        marks_(graph.num_nodes()),
        sums_(graph.nodes.size()) {}

  std::vector<Partition> run() {
    std::vector<Partition> parts;
    for (int node = 0; node < graph_.num_nodes(); ++node) {
      if (!graph_.is_operator(node)) continue;
      Partition& part = parts.emplace_back();
      add_node(graph_, part.nodes, node);
      part.used_mem_bytes = used_bytes(graph_, part.nodes, marks_);
    }
    link_partitions(graph_, parts);
    set_levels(parts);
    while (parts.size() > 1 && run_round(parts)) {
    }
    return parts;
  }

 private:
  bool run_round(std::vector<Partition>& parts) {
    double cost = cost_of(parts);
    std::vector<Partition> best;
    for (int i = 0; i < static_cast<int>(parts.size()); ++i) {
      for (int j = i + 1; j < static_cast<int>(parts.size()); ++j) {
        std::vector<Partition> trial = parts;
        const double value = try_merge(trial, i, j);
        if (value > cost || value == kNever) continue;
        cost = value;
        best = std::move(trial);
      }
    }
    const bool is_found = !best.empty();
    if (is_found) parts = std::move(best);
    set_levels(parts);
    map(parts);
    return is_found;
  }

  double try_merge(std::vector<Partition>& parts, int i, int j) {
    const Partition a = parts[i];
    const Partition b = parts[j];
    const auto has = [](const std::vector<int>& list, int index) {
      return std::find(list.begin(), list.end(), index) != list.end();
    };
    if (std::abs(a.bfs_level - b.bfs_level) > 1 && !has(a.parents, j) && !has(a.children, j)) {
      return kNever;
    }
    parts.erase(parts.begin() + j);
    parts.erase(parts.begin() + i);
    Partition& both = parts.emplace_back();
    both.nodes = a.nodes;
    for (const int node : b.nodes) insert_sorted(both.nodes, node);
    both.used_mem_bytes = used_bytes(graph_, both.nodes, marks_);
    link_partitions(graph_, parts);
    if (is_on_cycle(parts, static_cast<int>(parts.size()) - 1)) return kNever;
    return map(parts) ? cost_of(parts) : kNever;
  }

  bool map(std::vector<Partition>& parts) {
    for (Partition& part : parts) part.logical_device_ids.clear();
    return mapper_.map(parts);
  }

  double cost_of(const std::vector<Partition>& parts) {
    const auto& latencies = config_.node_to_latency_mapping;
    std::vector<double> own;
    for (const Partition& part : parts) {
      own.push_back(longest_path(graph_, latencies, part.nodes, marks_, sums_));
    }
    return latency_of_partitioned_graph(graph_, parts, own, config_.transfer_rate_bytes_per_sec)
        .value();
  }

  const Graph& graph_;
  const PartitionerConfig& config_;
  DeviceMapper mapper_;
  Marks marks_;
  std::vector<double> sums_;
};

// Some have room for nearly everything on every device, some for nothing.
PartitionerConfig random_config(std::mt19937_64& random, const Graph& graph, int ticks) {
  PartitionerConfig config;
  const int count = draw(random, 2, 4);
  const Bytes share = graph.total_size * draw(random, 9, 26) / (10 * count) + 1;
  std::vector<Bytes> memories;
  for (int d = 0; d < count; ++d) memories.push_back(share * draw(random, 8, 12) / 10);
  config.devices = devices(memories);
  if (draw(random, 0, 3) == 0) config.devices[1].logical_id = 0;  // it means the later one
  config.mode = PartitionMode::kCostAware;
  config.transfer_rate_bytes_per_sec = draw(random, 1, 40);
  config.node_to_latency_mapping = random_latencies(random, graph, ticks);
  return config;
}

void expect_equal(const Graph& graph, const PartitionerConfig& config) {
  const std::vector<Partition> expected = Naive(graph, config).run();
  const auto parts = partition_cost_aware(graph, config);
  ASSERT_TRUE(parts);
  ASSERT_EQ(parts->partitions.size(), expected.size());
  for (std::size_t p = 0; p < expected.size(); ++p) {
    SCOPED_TRACE(p);
    const Partition& found = parts->partitions[p];
    EXPECT_EQ(found.nodes, expected[p].nodes);
    EXPECT_EQ(found.used_mem_bytes, expected[p].used_mem_bytes);
    EXPECT_EQ(found.logical_device_ids, expected[p].logical_device_ids);
    EXPECT_EQ(found.parents, expected[p].parents);
    EXPECT_EQ(found.children, expected[p].children);
    EXPECT_EQ(found.bfs_level, expected[p].bfs_level);
  }
}

TEST(CostAwareTrials, EqualMergesCarriedOut) {
  for (std::uint64_t seed = 0; seed < 400; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    const Graph graph = random_graph(random, draw(random, 2, 12));
    expect_equal(graph, random_config(random, graph, seed % 3 == 0 ? 2 : 30));
  }
}

// Most paths have nothing to do with the pair on trial.
TEST(CostAwareTrials, EqualMergesCarriedOutOnParallelChains) {
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    GraphBuilder builder;
    builder.input("x", draw(random, 1, 60));
    std::vector<std::string> ends;
    for (int chain = 0; chain < 5; ++chain) {
      std::string before = "x";
      for (int i = 0; i < 3; ++i) {
        const std::string name = "m" + std::to_string(3 * chain + i);
        const Bytes output = draw(random, 1, 60);
        builder.module(name, {before}, output, output + draw(random, 0, 100));
        before = name;
      }
      ends.push_back(before);
    }
    const Graph graph = builder.output(ends).build();
    expect_equal(graph, random_config(random, graph, 20));
  }
}

}  // namespace
}  // namespace plimsoll::partition
