#include "plimsoll/partition/contiguous_split.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>

#include "partition/cost_graphs.h"
#include "partition/judged.h"

namespace plimsoll::partition {
namespace {

// Judged by the checker too.
ContiguousSplit split(const CostGraph& graph, const ContiguousSplitOptions& options = {}) {
  const auto result = split_contiguously(graph, options);
  EXPECT_TRUE(result.has_value()) << format_error(result.error());
  expect_right(graph, result->outcome, true);
  return *result;
}

double optimum(const CostGraph& graph, const ContiguousSplitOptions& options = {}) {
  return proved_optimum(split(graph, options).outcome);
}

//            b 3
//          ↗     ↘
//   a 2  →         d 2      amounts: a 1 (one net to b and c), b 4, c 1; two accelerators
//          ↘     ↗
//            c 3
//
// {a b c | d}: 8 + 5 = 13 and 2 + 5. {a | b c d}: 2 + 1 and 8 + 1 = 9. {a c | b d}: 5 + 1 + 1 = 7
// (a's net once, c's net), and 5 + 1 + 1 = 7. {a b | c d}: 5 + 1 + 4 = 10. {a b c d}: 10.
CostGraph diamond(int num_accelerators, int num_cpus) {
  CostGraph graph;
  graph.classes = accelerators_and_cpus(num_accelerators, num_cpus);
  graph.nodes = {cost_node("a", {2, 20}, 1), cost_node("b", {3, 30}, 1), cost_node("c", {3, 30}, 1),
                 cost_node("d", {2, 20}, 1)};
  graph.nets = {{0, {1, 2}, 1}, {1, {3}, 4}, {2, {3}, 1}};
  return graph;
}

TEST(ContiguousSplit, CutsADiamondWhereLittleIsMoved) {
  const ContiguousSplit result = split(diamond(2, 0));
  EXPECT_EQ(result.outcome.status, SolveStatus::kOptimal);
  EXPECT_EQ(result.outcome.certificate.objective, 7);
  EXPECT_NEAR(result.outcome.certificate.lower_bound.value(), 7, 1e-8);
  EXPECT_EQ(result.outcome.plan->device, (std::vector<int>{0, 1, 0, 1}));
}

TEST(ContiguousSplit, LeavesDevicesIdleThatWouldOnlyMove) {
  CostGraph graph = diamond(3, 1);
  for (Net& net : graph.nets) net.amount = 100;
  const ContiguousSplit result = split(graph);
  EXPECT_EQ(result.outcome.certificate.objective, 10);
  EXPECT_EQ(result.outcome.plan->device, (std::vector<int>(4, result.outcome.plan->device[0])));
}

// Pins go against the order in which devices are numbered.
TEST(ContiguousSplit, HonoursPinsAndForbiddenDevices) {
  CostGraph graph = diamond(2, 1);
  graph.nodes[0].pinned_device = 1;
  EXPECT_EQ(optimum(graph), 7);
  EXPECT_EQ(split(graph).outcome.plan->device, (std::vector<int>{1, 0, 1, 0}));
  graph.nodes[3].forbidden_devices = {0, 2};
  EXPECT_EQ(optimum(graph), 10);  // all on one: a and d are on device 1, and nothing can be between
}

TEST(ContiguousSplit, KeepsMemoryCapsExactly) {
  CostGraph graph = diamond(2, 0);
  graph.nodes[1].memory = 3;  // {a b} 4, {b d} 4, {a c} 2
  graph.classes[0].memory_cap = 4;
  EXPECT_EQ(optimum(graph), 7);
  graph.classes[0].memory_cap = 3;  // only {b} alone fits, and then a c d must be on the other
  const ContiguousSplit result = split(graph);
  EXPECT_EQ(result.outcome.status, SolveStatus::kInfeasible);
  EXPECT_TRUE(std::isnan(result.outcome.certificate.objective));
  EXPECT_EQ(result.outcome.explanation.binding, "memory");
  EXPECT_EQ(result.outcome.explanation.missing, 0);
  graph.classes[0].memory_cap = 2;
  EXPECT_EQ(split(graph).outcome.explanation.missing, 2);
}

//   x 5 → y 5 → z 5   forward, on two accelerators; x' 1, y' 1, z' 1 backward, mates of x, y, z.
//   z' → y' → x'      All nets move 1. {x | y z}: 6 + 2, 12 + 2 (x's net out, y's net back).
TEST(ContiguousSplit, ChargesTheBackwardPassWithTheForwardOne) {
  CostGraph graph;
  graph.classes = accelerators_and_cpus(2, 0);
  for (int i = 0; i < 6; ++i) {
    graph.nodes.push_back(cost_node(std::to_string(i), {i < 3 ? 5.0 : 1.0, 0}));
    graph.nodes.back().colour = i % 3;
    graph.nodes.back().is_backward = i >= 3;
  }
  graph.nets = {{0, {1}, 1}, {1, {2}, 1}, {5, {4}, 1}, {4, {3}, 1}};
  EXPECT_EQ(optimum(graph), 14);
}

// Nobody may run b.
TEST(ContiguousSplit, ProvesThatNobodyMayRunANode) {
  CostGraph graph = diamond(2, 1);
  graph.nodes[1].time_ms = {kUnlimited, kUnlimited};
  const ContiguousSplit result = split(graph);
  EXPECT_EQ(result.outcome.status, SolveStatus::kInfeasible);
  EXPECT_EQ(result.outcome.explanation.binding, "permissions");
  EXPECT_FALSE(result.outcome.certificate.lower_bound.has_value());
}

TEST(ContiguousSplit, TakesAGraphWithoutNodes) {
  CostGraph graph;
  graph.classes = accelerators_and_cpus(2, 1);
  EXPECT_EQ(optimum(graph), 0);
}

TEST(ContiguousSplit, EqualsBruteForce) {
  int num_infeasible = 0;
  for (std::uint64_t seed = 0; seed < 4000; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    const CostGraph graph = random_cost_graph(random);
    const double expected = BruteForce(graph).best();
    expect_near(optimum(graph), expected);
    num_infeasible += std::isinf(expected) ? 1 : 0;
  }
  EXPECT_GT(num_infeasible, 100);
  EXPECT_LT(num_infeasible, 2000);
}

// Weights that several nodes read, with caps that they make tight.
TEST(ContiguousSplit, EqualsBruteForceWithWeights) {
  int num_infeasible = 0;
  for (std::uint64_t seed = 0; seed < 2000; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    CostGraph graph = random_cost_graph(random, {.has_weights = true});
    graph.classes[0].memory_cap = draw(random, 4, 40);
    const double expected = BruteForce(graph).best();
    expect_near(optimum(graph), expected);
    ContiguousSplitOptions options;
    options.rules.absorbs_groups = false;
    expect_near(optimum(graph, options), expected);
    num_infeasible += std::isinf(expected) ? 1 : 0;
  }
  EXPECT_GT(num_infeasible, 100);
  EXPECT_LT(num_infeasible, 1000);
}

// a and b read one weight of 4 bytes, c and d another; c comes between. {a b | c d} holds each
// weight once, {a c | b d} both twice.
//
//   a 1 → b 1     amounts: 0.1, but from b to d 3
//     ↘     ↘
//       c 1 → d 1
TEST(ContiguousSplit, KeepsReadersOfAWeightTogetherWhereRoomIsScarce) {
  CostGraph graph;
  graph.classes = accelerators_and_cpus(2, 0);
  for (const char* name : {"a", "b", "c", "d"}) graph.nodes.push_back(cost_node(name, {1, 0}));
  graph.nets = {{0, {1, 2}, 0.1}, {1, {3}, 3}, {2, {3}, 0.1}};
  graph.weights = {{"left", 4, {0, 1}}, {"right", 4, {2, 3}}};
  EXPECT_NEAR(optimum(graph), 2.2, 1e-12);
  graph.classes[0].memory_cap = 8;
  EXPECT_NEAR(optimum(graph), 2.2, 1e-12);
  graph.classes[0].memory_cap = 7;
  EXPECT_NEAR(optimum(graph), 5.1, 1e-12);
  graph.classes[0].memory_cap = 3;
  const ContiguousSplit result = split(graph);
  EXPECT_EQ(result.outcome.status, SolveStatus::kInfeasible);
  EXPECT_EQ(result.outcome.explanation.missing, 2);
}

TEST(ContiguousSplit, BoundsAndChargesPairRatesTruly) {
  int num_optimal = 0;
  for (std::uint64_t seed = 0; seed < 1000; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    const CostGraph graph =
        random_cost_graph(random, {.has_weights = true, .has_pair_rates = true});
    const double expected = BruteForce(graph).best();
    const ContiguousSplit result = split(graph);
    const Certificate& certificate = result.outcome.certificate;
    if (result.outcome.status == SolveStatus::kInfeasible) {
      EXPECT_TRUE(std::isinf(expected));
      continue;
    }
    ASSERT_TRUE(result.outcome.plan.has_value());
    EXPECT_GE(certificate.objective, expected * (1 - 1e-9));
    EXPECT_LE(certificate.lower_bound.value(), expected * (1 + 1e-9));
    num_optimal += certificate.objective <= expected * (1 + 1e-9) ? 1 : 0;
  }
  EXPECT_GT(num_optimal, 600);
}

TEST(ContiguousSplit, HasTheSameOptimumWithoutAnyRule) {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    const CostGraph graph = random_cost_graph(random, {.max_nodes = 12, .max_amount = 30});
    const double expected = optimum(graph);
    for (unsigned rules = 0; rules < 32; ++rules) {
      SCOPED_TRACE(rules);
      ContiguousSplitOptions options;
      options.rules = {(rules & 1) != 0, (rules & 2) != 0, (rules & 4) != 0, (rules & 8) != 0,
                       (rules & 16) != 0};
      expect_near(optimum(graph, options), expected);
    }
  }
}

// Sixteen layers of three parallel operators each, little moved.
CostGraph wide_graph(std::mt19937_64& random, int num_layers) {
  CostGraph graph;
  graph.classes = accelerators_and_cpus(4, 1);
  for (int i = 0; i < 3 * num_layers; ++i) {
    const double time = 0.1 * draw(random, 10, 40);
    graph.nodes.push_back(cost_node(std::to_string(i), {time, 10 * time}, 1));
    Net net{i, {i + 3}, 0.1};
    if (i % 5 == 0) net.consumers.push_back(i + 4 - (i % 3 == 2 ? 2 : 0));
    if (i + 4 < 3 * num_layers) graph.nets.push_back(net);
  }
  return graph;
}

struct Work {
  std::int64_t downsets = 0, pairs = 0;
};

Work work_of(const CostGraph& graph, const ContiguousRules& rules) {
  ContiguousSplitOptions options;
  options.rules = rules;
  const ContiguousSplit result = split(graph, options);
  EXPECT_EQ(result.outcome.status, SolveStatus::kOptimal);
  return {result.num_downsets, result.num_pairs};
}

TEST(ContiguousSplit, EachRuleSavesWork) {
  std::mt19937_64 random(1);
  const CostGraph graph = wide_graph(random, 10);
  const Work all = work_of(graph, {});
  ContiguousRules rules;
  rules.uses_windows = false;
  EXPECT_GT(work_of(graph, rules).pairs, 2 * all.pairs);
  rules = {};
  rules.guesses_from_below = false;
  rules.starts_from_orders = false;
  const std::int64_t blind = work_of(graph, rules).pairs;
  EXPECT_GT(blind, 2 * all.pairs);
  rules.starts_from_orders = true;
  EXPECT_GT(blind, work_of(graph, rules).pairs);
  rules = {};
  rules.guesses_from_below = false;
  EXPECT_GT(work_of(graph, rules).pairs, all.pairs);

  // Constants that one operator each reads.
  CostGraph fringed = graph;
  for (int i = 0; i < 8; ++i) {
    fringed.nets.push_back({fringed.num_nodes(), {3 * i}, 1});
    fringed.nodes.push_back(cost_node("w", {0, 0}, 1));
  }
  rules = {};
  rules.absorbs_groups = false;
  EXPECT_EQ(work_of(fringed, {}).downsets, all.downsets);
  EXPECT_GT(work_of(fringed, rules).downsets, 8 * all.downsets);

  // A cap that the whole graph just fits does not bind: nothing changes.
  fringed.classes[0].memory_cap = fringed.num_nodes();
  EXPECT_EQ(work_of(fringed, {}).downsets, all.downsets);
  EXPECT_EQ(work_of(fringed, {}).pairs, all.pairs);

  // Caps that bind nowhere at the optimum, but keep constants from being absorbed.
  fringed.classes[0].memory_cap = 25;
  rules = {};
  rules.relaxes_memory = false;
  EXPECT_GT(work_of(fringed, rules).downsets, 8 * work_of(fringed, {}).downsets);
}

TEST(ContiguousSplit, AnswersWithABoundWhereDownsetsAreTooMany) {
  int num_feasible = 0;
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    const CostGraph graph = random_cost_graph(random, {.has_limits = false});
    const double expected = BruteForce(graph).best();
    ContiguousSplitOptions options;
    options.max_downsets = 1;
    options.num_orders = 1;
    options.rules.starts_from_orders = seed % 2 == 0;
    options.rules.tries_everything = false;
    const ContiguousSplit result = split(graph, options);
    ASSERT_TRUE(result.outcome.plan.has_value());
    EXPECT_GE(result.outcome.certificate.objective, expected * (1 - 1e-9));
    EXPECT_LE(result.outcome.certificate.lower_bound.value(), expected * (1 + 1e-9));
    if (result.outcome.status == SolveStatus::kFeasible) {
      ++num_feasible;
      EXPECT_EQ(result.outcome.stop, StopReason::kEffort);
    }
  }
  EXPECT_GT(num_feasible, 30);
}

// x 10 → y 1 → z 1 → u 1, 5 bytes each, every net 1, devices of 10 bytes. Without caps {x | y z u}
// is best and does not fit; neither search is allowed to enumerate downsets.
TEST(ContiguousSplit, FindsAPlanWithinCapsWhereTheBoundWasCutShort) {
  CostGraph graph;
  graph.classes = accelerators_and_cpus(2, 0, 10);
  graph.nodes = {cost_node("x", {10, 0}, 5), cost_node("y", {1, 0}, 5), cost_node("z", {1, 0}, 5),
                 cost_node("u", {1, 0}, 5)};
  graph.nets = {{0, {1}, 1}, {1, {2}, 1}, {2, {3}, 1}};
  ContiguousSplitOptions options;
  options.max_downsets = 1;
  options.rules.tries_everything = false;
  const ContiguousSplit result = split(graph, options);
  EXPECT_EQ(result.outcome.status, SolveStatus::kFeasible);
  EXPECT_EQ(result.outcome.certificate.objective, 12);
  EXPECT_EQ(optimum(graph), 12);
}

TEST(ContiguousSplit, TakesTheAnswerWithoutCapsWhereItJustFits) {
  CostGraph graph = diamond(2, 0);
  const std::int64_t without = split(graph).num_pairs;
  graph.classes[0].memory_cap = 2;
  EXPECT_EQ(split(graph).num_pairs, without);
}

TEST(ContiguousSplit, ComesCloseWhereDownsetsAreTooMany) {
  double found = 0;
  double best = 0;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    std::mt19937_64 random(seed);
    const CostGraph graph = wide_graph(random, 8);
    ContiguousSplitOptions options;
    options.max_downsets = 1;
    options.num_orders = 2;
    found += split(graph, options).outcome.certificate.objective;
    best += optimum(graph);
  }
  EXPECT_LT(found, 1.02 * best);  // 1.054 from the start alone
}

TEST(ContiguousSplit, StopsAtItsEffortWithATrueBound) {
  std::mt19937_64 random(3);
  const CostGraph graph = wide_graph(random, 8);
  const double expected = optimum(graph);
  for (std::int64_t effort = 0; effort < 400'000; effort = effort * 3 + 1) {
    SCOPED_TRACE(effort);
    ContiguousSplitOptions options;
    options.search.effort = effort;
    const ContiguousSplit result = split(graph, options);
    EXPECT_LE(result.outcome.certificate.lower_bound.value(), expected * (1 + 1e-9));
    if (result.outcome.plan) {
      EXPECT_GE(result.outcome.certificate.objective, expected * (1 - 1e-9));
    }
    if (result.outcome.status != SolveStatus::kOptimal) {
      EXPECT_EQ(result.outcome.stop, StopReason::kEffort);
    }
  }
}

TEST(ContiguousSplit, StopsAtTheClockAndWhenCancelled) {
  const CostGraph graph = diamond(2, 0);
  RunContext late;
  late.deadline = std::chrono::steady_clock::now() - std::chrono::seconds(1);
  const auto cut = split_contiguously(graph, {}, late);
  ASSERT_TRUE(cut.has_value());
  EXPECT_EQ(cut->outcome.status, SolveStatus::kLimit);
  EXPECT_EQ(cut->outcome.stop, StopReason::kDeadline);
  EXPECT_EQ(cut->outcome.certificate.lower_bound, 5);  // total work on two devices
  const std::atomic<bool> cancel = true;
  RunContext cancelled;
  cancelled.cancel = &cancel;
  EXPECT_EQ(split_contiguously(graph, {}, cancelled)->outcome.stop, StopReason::kCancelled);
}

// Forty nodes that nobody orders have 2^40 downsets.
TEST(ContiguousSplit, KeepsItsPlanWhenTheClockEndsTheEnumeration) {
  CostGraph graph;
  graph.classes = accelerators_and_cpus(3, 0);
  for (int i = 0; i < 40; ++i) graph.nodes.push_back(cost_node("", {1.0 + i, 0}));
  ContiguousSplitOptions options;
  options.max_downsets = std::int64_t{1} << 41;
  options.num_orders = 1;
  options.search.tolerance = 0;
  RunContext context;
  context.deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(50);
  const auto result = split_contiguously(graph, options, context);
  ASSERT_TRUE(result.has_value());
  EXPECT_EQ(result->outcome.status, SolveStatus::kFeasible);
  EXPECT_EQ(result->outcome.stop, StopReason::kDeadline);
  EXPECT_NEAR(result->outcome.certificate.lower_bound.value(), 820.0 / 3, 1e-9);
}

TEST(ContiguousSplit, IsDeterministicAndIndependentOfLabels) {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    const CostGraph graph = random_cost_graph(random, {.max_nodes = 14});
    const ContiguousSplit once = split(graph);
    const ContiguousSplit twice = split(graph);
    EXPECT_EQ(once.outcome.plan, twice.outcome.plan);
    EXPECT_EQ(once.num_pairs, twice.num_pairs);
    const CostGraph other = relabel(graph, random_permutation(random, graph.num_nodes()));
    expect_near(optimum(other), optimum(graph));
  }
}

TEST(ContiguousSplit, ObeysMetamorphicLaws) {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    const CostGraph graph = random_cost_graph(random, {.max_nodes = 10});
    const double base = optimum(graph);

    CostGraph doubled = graph;
    for (CostNode& node : doubled.nodes) {
      for (double& time : node.time_ms) time *= 2;
    }
    for (Net& net : doubled.nets) net.amount *= 2;
    expect_near(optimum(doubled), 2 * base);

    CostGraph useless = graph;
    useless.classes.push_back({"useless", 2, {}, 1});
    for (CostNode& node : useless.nodes) node.time_ms.push_back(kUnlimited);
    expect_near(optimum(useless), base);

    CostGraph larger = graph;
    for (DeviceClass& devices : larger.classes) {
      if (devices.memory_cap) ++*devices.memory_cap;
    }
    larger.classes.push_back({"more", 1, {}, 1});
    for (CostNode& node : larger.nodes) node.time_ms.push_back(node.time_ms[0]);
    EXPECT_LE(optimum(larger), base * (1 + 1e-9));

    CostGraph busier = graph;
    for (Net& net : busier.nets) net.amount += 0.5;
    EXPECT_GE(optimum(busier), base * (1 - 1e-9));
  }
}

TEST(ContiguousSplit, RefusesBadOptions) {
  ContiguousSplitOptions options;
  options.max_downsets = 0;
  EXPECT_EQ(split_contiguously(diamond(1, 0), options).error().code, ErrorCode::kUsage);
  options = {};
  options.num_orders = 0;
  EXPECT_EQ(split_contiguously(diamond(1, 0), options).error().code, ErrorCode::kUsage);
  options = {};
  options.search.tolerance = std::nan("");
  EXPECT_EQ(split_contiguously(diamond(1, 0), options).error().code, ErrorCode::kUsage);
  EXPECT_EQ(split_contiguously(CostGraph{}).error().code, ErrorCode::kValue);
}

}  // namespace
}  // namespace plimsoll::partition
