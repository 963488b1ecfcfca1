#include "plimsoll/partition/general_placement.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>

#include "partition/assignment/load_state.h"
#include "partition/cost_graphs.h"
#include "partition/judged.h"
#include "plimsoll/partition/contiguous_split.h"

namespace plimsoll::partition {
namespace {

constexpr std::int64_t kFewMoves = 3000;

// Judged by the checker too.
GeneralPlacement place(const CostGraph& graph, const GeneralPlacementOptions& options = {},
                       const RunContext& context = {}) {
  const auto result = place_generally(graph, options, context);
  EXPECT_TRUE(result.has_value()) << format_error(result.error());
  expect_right(graph, result->outcome, false);
  return *result;
}

GeneralPlacementOptions with_moves(std::int64_t moves) {
  GeneralPlacementOptions options;
  options.search.effort = moves;
  return options;
}

//   a 3 → b 3 → c 3 → d 3    every net 0.1, two accelerators
//
// Contiguous and general: {a b | c d} 6.1. With a and c of one colour a contiguous split puts all
// of a, b, c together: 9.1. A general one does not: {a c | b d} 6.3, for three nets are cut.
TEST(GeneralPlacement, LetsADeviceRunPartsThatAreNotContiguous) {
  CostGraph graph;
  graph.classes = accelerators_and_cpus(2, 0);
  for (const char* name : {"a", "b", "c", "d"}) graph.nodes.push_back(cost_node(name, {3, 0}));
  for (int i = 0; i < 3; ++i) graph.nets.push_back({i, {i + 1}, 0.1});
  EXPECT_NEAR(place(graph, with_moves(kFewMoves)).outcome.certificate.objective, 6.1, 1e-12);
  graph.nodes[0].colour = graph.nodes[2].colour = 1;
  EXPECT_NEAR(place(graph, with_moves(kFewMoves)).outcome.certificate.objective, 6.3, 1e-12);
  EXPECT_NEAR(split_contiguously(graph)->outcome.certificate.objective, 9.1, 1e-12);
}

// Nothing is moved and all times are equal: the bound is met and the search ends at once.
TEST(GeneralPlacement, EndsWhereTheBoundIsMet) {
  CostGraph graph;
  graph.classes = accelerators_and_cpus(4, 0);
  for (int i = 0; i < 8; ++i) graph.nodes.push_back(cost_node("", {1, 0}));
  const GeneralPlacement result = place(graph);
  EXPECT_EQ(result.outcome.status, SolveStatus::kOptimal);
  EXPECT_EQ(result.outcome.stop, StopReason::kFinished);
  EXPECT_EQ(result.outcome.certificate.objective, 2);
}

TEST(GeneralPlacement, ProvesWhatCannotFit) {
  CostGraph graph;
  graph.classes = accelerators_and_cpus(2, 0, 10);
  graph.nodes = {cost_node("a", {1, 0}, 11), cost_node("b", {1, 0}, 5)};
  GeneralPlacement result = place(graph);
  EXPECT_EQ(result.outcome.status, SolveStatus::kInfeasible);
  EXPECT_EQ(result.outcome.explanation.binding, "memory");
  EXPECT_EQ(result.outcome.explanation.missing, 1);
  graph.classes[0].memory_cap = 11;
  EXPECT_NE(place(graph).outcome.status, SolveStatus::kInfeasible);
  graph.nodes[0].time_ms[0] = kUnlimited;
  result = place(graph);
  EXPECT_EQ(result.outcome.status, SolveStatus::kInfeasible);
  EXPECT_EQ(result.outcome.explanation.binding, "permissions");
}

TEST(GeneralPlacement, TakesAGraphWithoutNodesAndASingleNode) {
  CostGraph graph;
  graph.classes = accelerators_and_cpus(2, 1);
  EXPECT_EQ(place(graph).outcome.certificate.objective, 0);
  graph.nodes = {cost_node("a", {2, 1})};
  EXPECT_EQ(place(graph).outcome.certificate.objective, 1);
}

// With every kind of limit, weights and pair rates by turns: to the end, by default.
TEST(GeneralPlacement, EqualsBruteForce) {
  int num_plans = 0;
  for (std::uint64_t seed = 0; seed < 1200; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    const CostGraph graph = random_cost_graph(
        random, {.max_nodes = 6, .has_weights = seed % 3 != 0, .has_pair_rates = seed % 4 == 0});
    const double expected = BruteForce(graph, false).best();
    const GeneralPlacement result = place(graph);
    expect_near(proved_optimum(result.outcome), expected);
    num_plans += result.outcome.plan ? 1 : 0;
    if (result.outcome.plan) continue;
    EXPECT_EQ(result.outcome.explanation.binding.empty(), false);
    EXPECT_FALSE(result.outcome.certificate.lower_bound.has_value());
  }
  EXPECT_GT(num_plans, 700);
}

// The refinement alone: its bound is none of a search to the end.
TEST(GeneralPlacement, FindsNearlyAllOptimaByRefinementAlone) {
  int num_plans = 0;
  int num_optimal = 0;
  for (std::uint64_t seed = 0; seed < 1200; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    const CostGraph graph = random_cost_graph(
        random, {.max_nodes = 6, .has_weights = seed % 3 != 0, .has_pair_rates = seed % 4 == 0});
    const double expected = BruteForce(graph, false).best();
    GeneralPlacementOptions options = with_moves(kFewMoves);
    options.rules.searches_tree = false;
    const GeneralPlacement result = place(graph, options);
    const Certificate& certificate = result.outcome.certificate;
    if (result.outcome.status == SolveStatus::kInfeasible) {
      EXPECT_TRUE(std::isinf(expected));
      continue;
    }
    EXPECT_LE(certificate.lower_bound.value(), expected * (1 + 1e-9));
    if (std::isinf(expected)) {
      EXPECT_EQ(result.outcome.status, SolveStatus::kLimit);
      continue;
    }
    ++num_plans;
    if (!result.outcome.plan) continue;
    EXPECT_GE(certificate.objective, expected * (1 - 1e-9));
    num_optimal += certificate.objective <= expected * (1 + 1e-9) ? 1 : 0;
  }
  EXPECT_GT(num_plans, 700);
  EXPECT_GE(num_optimal, num_plans * 99 / 100);
}

// Blocks of six in a line, each tied by heavy nets; to share them out evenly, whole blocks have to
// change places.
CostGraph blocks(int num_blocks) {
  CostGraph graph;
  graph.classes = accelerators_and_cpus(4, 0);
  for (int i = 0; i < 6 * num_blocks; ++i) {
    graph.nodes.push_back(cost_node("", {1 + 0.37 * (i / 6 * 5 % 7), 0}));
    if (i > 0) graph.nets.push_back({i - 1, {i}, i % 6 == 0 ? 0.05 : 20});
  }
  return graph;
}

TEST(GeneralPlacement, NeedsClustersWhereHeavyNetsTie) {
  const CostGraph graph = blocks(25);
  GeneralPlacementOptions options = with_moves(200'000);
  options.rules.starts_contiguously = false;
  options.rules.absorbs_groups = false;
  const double all = place(graph, options).outcome.certificate.objective;
  options.rules.uses_clusters = false;
  EXPECT_GT(place(graph, options).outcome.certificate.objective, all * 1.001);
}

TEST(GeneralPlacement, KeepsToTheOptimumWithoutAnyRule) {
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    const CostGraph graph = random_cost_graph(random, {.max_nodes = 6, .has_limits = false});
    const double expected = BruteForce(graph, false).best();
    for (unsigned rules = 0; rules < 32; ++rules) {
      SCOPED_TRACE(rules);
      GeneralPlacementOptions options = with_moves(20'000);
      options.rules = {(rules & 1) != 0, (rules & 2) != 0, (rules & 4) != 0, (rules & 8) != 0,
                       (rules & 16) != 0};
      EXPECT_NEAR(place(graph, options).outcome.certificate.objective, expected, 1e-9);
    }
  }
}

TEST(GeneralPlacement, AbsorbsGroupsWithoutLoss) {
  const CostGraph graph = blocks(5);
  GeneralPlacementOptions options = with_moves(100'000);
  const GeneralPlacement merged = place(graph, options);
  options.rules.absorbs_groups = false;
  const GeneralPlacement whole = place(graph, options);
  EXPECT_LT(merged.num_groups, whole.num_groups);
  EXPECT_LE(merged.outcome.certificate.objective, whole.outcome.certificate.objective * (1 + 1e-9));
}

TEST(GeneralPlacement, IsNeverWorseThanItsStart) {
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    const CostGraph graph = random_cost_graph(random, {.max_nodes = 12, .has_limits = false});
    const auto split = split_contiguously(graph);
    GeneralPlacementOptions options = with_moves(0);
    options.start = split->outcome.plan;
    options.rules.starts_contiguously = false;
    EXPECT_LE(place(graph, options).outcome.certificate.objective,
              split->outcome.certificate.objective);
  }
}

TEST(GeneralPlacement, IsDeterministic) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    const CostGraph graph = random_cost_graph(random, {.max_nodes = 20});
    const GeneralPlacement once = place(graph, with_moves(kFewMoves));
    const GeneralPlacement twice = place(graph, with_moves(kFewMoves));
    EXPECT_EQ(once.outcome.plan, twice.outcome.plan);
    EXPECT_EQ(once.num_moves, twice.num_moves);
  }
}

TEST(GeneralPlacement, StopsAtItsEffortTheClockAndWhenCancelled) {
  const CostGraph graph = blocks(9);
  GeneralPlacementOptions options = with_moves(500);
  options.rules.searches_tree = false;
  EXPECT_EQ(place(graph, options).outcome.stop, StopReason::kEffort);
  RunContext late;
  late.deadline = std::chrono::steady_clock::now() - std::chrono::seconds(1);
  const GeneralPlacement cut = place(graph, {}, late);
  EXPECT_EQ(cut.outcome.stop, StopReason::kDeadline);
  EXPECT_GT(cut.outcome.certificate.lower_bound.value(), 0);
  const std::atomic<bool> cancel = true;
  RunContext cancelled;
  cancelled.cancel = &cancel;
  EXPECT_EQ(place(graph, {}, cancelled).outcome.stop, StopReason::kCancelled);
}

TEST(GeneralPlacement, ReportsImprovements) {
  double last = kUnlimited;
  RunContext context;
  context.progress = [&](const Progress& progress) {
    EXPECT_LT(*progress.incumbent, last);
    EXPECT_LE(*progress.lower_bound, *progress.incumbent * (1 + 1e-9));
    last = *progress.incumbent;
  };
  const GeneralPlacement result = place(blocks(9), with_moves(100'000), context);
  EXPECT_EQ(last, result.outcome.certificate.objective);
}

TEST(GeneralPlacement, RefusesBadOptions) {
  const CostGraph graph = blocks(1);
  GeneralPlacementOptions options;
  options.known_bound = -1;
  EXPECT_EQ(place_generally(graph, options).error().code, ErrorCode::kUsage);
  options = {};
  options.search.tolerance = std::nan("");
  EXPECT_EQ(place_generally(graph, options).error().code, ErrorCode::kUsage);
  options = {};
  options.start = DeviceAssignment{{0, 0}};
  EXPECT_EQ(place_generally(graph, options).error().code, ErrorCode::kValue);
  options.start = DeviceAssignment{{0, 0, 0, 0, 0, 7}};
  EXPECT_EQ(place_generally(graph, options).error().code, ErrorCode::kValue);
}

// Against loads taken anew, after every move.
TEST(LoadState, KeepsLoadsAndBytesWhileGroupsMove) {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    const CostGraph graph = random_cost_graph(random, {.max_nodes = 9,
                                                       .has_limits = false,
                                                       .has_weights = true,
                                                       .has_pair_rates = seed % 2 == 0});
    const GroupGraph groups = make_colour_groups(graph);
    const LoadModel model(groups, graph.pair_rates);
    LoadState state(model, std::vector<int>(groups.nodes.size()));
    for (int i = 0; i < 30; ++i) {
      const int group = draw(random, 0, groups.num_groups() - 1);
      const int to = draw(random, 0, graph.num_devices() - 1);
      const int from = state.device_of(group);
      const std::vector<double> before = state.loads();
      const Bytes held = state.memory(to);
      const Bytes change = to == from ? 0 : state.memory_change(group, to);
      const auto [off, on] = to == from ? std::pair(0.0, 0.0) : state.load_changes(group, to);
      state.move(group, to);
      DeviceAssignment plan{std::vector<int>(graph.nodes.size())};
      for (int g = 0; g < groups.num_groups(); ++g) {
        for (const int node : groups.nodes[g]) plan.device[node] = state.device_of(g);
      }
      const auto loads = device_loads(graph, plan);
      const auto memory = device_memory(graph, plan);
      for (int d = 0; d < graph.num_devices(); ++d) {
        EXPECT_NEAR(state.loads()[d], loads[d], 1e-9);
        EXPECT_EQ(state.memory(d), memory[d]);
      }
      EXPECT_EQ(state.memory(to), held + change);
      if (graph.pair_rates.empty() && to != from) {
        EXPECT_NEAR(state.loads()[from], before[from] + off, 1e-9);
        EXPECT_NEAR(state.loads()[to], before[to] + on, 1e-9);
      }
    }
  }
}

}  // namespace
}  // namespace plimsoll::partition
