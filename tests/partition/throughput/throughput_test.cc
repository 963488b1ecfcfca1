#include "plimsoll/partition/throughput.h"

#include <gtest/gtest.h>

#include <chrono>

#include "partition/cost_graphs.h"
#include "partition/graph/placement_bill.h"
#include "partition/judged.h"
#include "partition/stages/acyclic_coarsening.h"

namespace plimsoll::partition::throughput {
namespace {

// Judged by the checker too.
ThroughputPlacement place(const CostGraph& graph, const ThroughputOptions& options,
                          const RunContext& context = {}) {
  const auto result = place_for_throughput(graph, options, context);
  EXPECT_TRUE(result.has_value()) << format_error(result.error());
  const auto& outcome = result->outcome;
  expect_right(graph, outcome, options.is_contiguous);
  if (outcome.plan) {
    EXPECT_TRUE(outcome.certificate.proof.is_given());
  }
  return *result;
}

TEST(Throughput, BoundsAndPlacesBothWays) {
  for (std::uint64_t seed = 0; seed < 400; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    const CostGraph graph = random_cost_graph(
        random, {.max_nodes = 6, .has_weights = seed % 2 == 0, .has_pair_rates = seed % 5 == 0});
    for (const bool is_contiguous : {true, false}) {
      const double expected = BruteForce(graph, is_contiguous).best();
      ThroughputOptions options;
      options.is_contiguous = is_contiguous;
      options.search.effort = 20'000;
      const auto outcome = place(graph, options).outcome;
      if (outcome.status == SolveStatus::kInfeasible) {
        EXPECT_TRUE(std::isinf(expected));
        continue;
      }
      EXPECT_LE(outcome.certificate.lower_bound.value(), expected * (1 + 1e-9));
      if (outcome.status == SolveStatus::kOptimal) {
        EXPECT_NEAR(outcome.certificate.objective, expected, 2e-6 * (1 + expected));
      }
    }
  }
}

TEST(Throughput, ProvesByPrograms) {
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    const CostGraph graph = random_cost_graph(random, {.max_nodes = 6, .has_limits = false});
    ThroughputOptions options;
    options.is_contiguous = false;
    options.search.effort = 2000;
    options.program_time_limit_s = 20;
    const auto outcome = place(graph, options).outcome;
    EXPECT_EQ(outcome.status, SolveStatus::kOptimal);
    EXPECT_NEAR(outcome.certificate.objective, BruteForce(graph, false).best(), 1e-5);
  }
}

// Three devices of 10 bytes, and three groups of 10: one byte less on each, and nothing fits.
TEST(Throughput, TellsByHowManyBytesDevicesAreTooSmall) {
  CostGraph graph;
  graph.classes = accelerators_and_cpus(3, 0, 10);
  for (int i = 0; i < 3; ++i) graph.nodes.push_back(cost_node("", {1, 0}, 9));
  graph.weights = {{"w", 1, {0}}, {"shared", 0, {0, 1, 2}}};
  EXPECT_EQ(place(graph, {}).outcome.status, SolveStatus::kOptimal);
  graph.classes[0].memory_cap = 9;
  for (const bool is_contiguous : {true, false}) {
    ThroughputOptions options;
    options.is_contiguous = is_contiguous;
    const auto outcome = place(graph, options).outcome;
    EXPECT_EQ(outcome.status, SolveStatus::kInfeasible);
    EXPECT_EQ(outcome.explanation.binding, "memory");
    EXPECT_EQ(outcome.explanation.missing, 1);
    EXPECT_FALSE(outcome.certificate.lower_bound.has_value());
  }
}

// A wide and long graph: every operator reads some of the fifty before it.
CostGraph large_graph(int num_nodes) {
  std::mt19937_64 random(1);
  CostGraph graph;
  graph.classes = accelerators_and_cpus(6, 0, Bytes{num_nodes} / 4);
  std::vector<std::vector<int>> readers(static_cast<std::size_t>(num_nodes));
  for (int i = 0; i < num_nodes; ++i) {
    graph.nodes.push_back(cost_node("", {0.1 * draw(random, 0, 9), 0}, 1));
    for (int k = draw(random, 1, 3); k > 0 && i > 0; --k) {
      const int producer = i - draw(random, 1, std::min(i, 50));
      if (readers[producer].empty() || readers[producer].back() != i) {
        readers[producer].push_back(i);
      }
    }
  }
  for (int i = 0; i < num_nodes; ++i) {
    if (!readers[i].empty()) graph.nets.push_back({i, readers[i], 0.02 * draw(random, 1, 5)});
  }
  return graph;
}

TEST(Throughput, SplitsLargeGraphsWithinSomePercent) {
  const CostGraph graph = large_graph(1500);
  ContiguousSplitOptions options;
  options.search.effort = 1'000'000;
  options.max_groups = 100;
  options.max_downsets = 2000;
  const auto split = split_contiguously(graph, options);
  ASSERT_TRUE(split.has_value());
  const Certificate& refined = split->outcome.certificate;
  EXPECT_LT(refined.gap().value(), 0.05);
  options.rules.refines_in_order = false;
  EXPECT_GT(split_contiguously(graph, options)->outcome.certificate.objective,
            refined.objective * 1.001);
}

TEST(Throughput, HasAPlanOfALargeGraphAlsoWithoutTime) {
  const CostGraph graph = large_graph(5000);
  RunContext late;
  late.deadline = std::chrono::steady_clock::now() - std::chrono::seconds(1);
  for (const bool is_contiguous : {true, false}) {
    ThroughputOptions options;
    options.is_contiguous = is_contiguous;
    const auto outcome = place(graph, options, late).outcome;
    EXPECT_EQ(outcome.status, SolveStatus::kFeasible);
    EXPECT_EQ(outcome.stop, StopReason::kDeadline);
    EXPECT_LT(outcome.certificate.gap().value(), 1);
  }
}

TEST(Throughput, HasAPlanWhateverTheClockLeaves) {
  const CostGraph graph = large_graph(500);
  for (const int ms : {1, 5, 20, 80}) {
    for (const bool is_contiguous : {true, false}) {
      SCOPED_TRACE(std::to_string(ms) + (is_contiguous ? " ms, contiguous" : " ms"));
      ThroughputOptions options;
      options.is_contiguous = is_contiguous;
      RunContext context;
      context.deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(ms);
      const auto outcome = place(graph, options, context).outcome;
      ASSERT_TRUE(outcome.plan);
      if (is_contiguous) {
        EXPECT_TRUE(find_line(graph, *outcome.plan));
      }
      EXPECT_NE(outcome.certificate.proof, ProofKind::kCallersBound);
    }
  }
}

TEST(Throughput, IsDeterministic) {
  const CostGraph graph = large_graph(500);
  for (const bool is_contiguous : {true, false}) {
    ThroughputOptions options;
    options.is_contiguous = is_contiguous;
    options.search.effort = 10'000;
    EXPECT_EQ(place(graph, options).outcome.plan, place(graph, options).outcome.plan);
  }
}

TEST(AcyclicCoarsening, LeavesNoCircleAndNothingOut) {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    const GroupGraph groups = make_groups(random_cost_graph(random, {.max_nodes = 40}));
    for (const int max_clusters : {1, 3, 10}) {
      for (const GroupGraph& coarse :
           {coarsen_acyclically(groups, max_clusters, {}), cut_into_runs(groups, max_clusters)}) {
        EXPECT_LE(coarse.num_groups(), max_clusters);
        std::size_t num_nodes = 0;
        for (const auto& nodes : coarse.nodes) num_nodes += nodes.size();
        std::size_t expected = 0;
        for (const auto& nodes : groups.nodes) expected += nodes.size();
        EXPECT_EQ(num_nodes, expected);
        for (int g = 0; g < coarse.num_groups(); ++g) {
          for (const int before : coarse.predecessors[g]) EXPECT_LT(before, g);
          for (const int after : coarse.successors[g]) EXPECT_GT(after, g);
        }
      }
    }
  }
}

TEST(Throughput, RefusesBadOptions) {
  ThroughputOptions options;
  options.program_time_limit_s = 0;
  EXPECT_EQ(place_for_throughput(large_graph(3), options).error().code, ErrorCode::kUsage);
  EXPECT_EQ(place_for_throughput(CostGraph{}).error().code, ErrorCode::kValue);
}

}  // namespace
}  // namespace plimsoll::partition::throughput
