#include "partition/throughput/placement_bounds.h"

#include <gtest/gtest.h>

#include "partition/cost_graphs.h"
#include "partition/graph/group_cut.h"
#include "partition/throughput/placement_program.h"

namespace plimsoll::partition {
namespace {

ThroughputBound bound(const CostGraph& graph, const PlacementBoundOptions& options = {}) {
  const auto result = bound_placement(graph, options);
  EXPECT_TRUE(result.has_value()) << format_error(result.error());
  return *result;
}

PlacementBoundOptions only(bool work, bool groups, bool block, bool program, bool packing = false,
                           bool shares = false) {
  PlacementBoundOptions options;
  options.rules = {.uses_work = work,
                   .uses_packing = packing,
                   .uses_groups = groups,
                   .uses_shares = shares,
                   .uses_block = block,
                   .uses_program = program};
  if (block || program) options.program_time_limit_s = 20;
  return options;
}

//   a 1 ═ b 5 ═ c 1     two accelerators, both nets 3
//
// All work: 7 / 2. b's device runs b alone, 5 + 6, with a or c, 6 + 3, or everything, 7.
TEST(PlacementBounds, ChargeAGroupWithWhatItsDeviceCannotAvoid) {
  CostGraph graph;
  graph.classes = accelerators_and_cpus(2, 0);
  graph.nodes = {cost_node("a", {1, 0}), cost_node("b", {5, 0}), cost_node("c", {1, 0})};
  graph.nets = {{0, {1}, 3}, {1, {2}, 3}};
  EXPECT_NEAR(bound(graph, only(true, false, false, false)).lower_bound, 3.5, 1e-9);
  EXPECT_NEAR(bound(graph, only(false, true, false, false)).lower_bound, 7, 1e-6);
  graph.nets[1].amount = 0.5;  // b and a without c: 6.5
  EXPECT_NEAR(bound(graph, only(false, true, false, false)).lower_bound, 6.5, 1e-6);
}

//   a 2 ═ b 2 ═ c 2 ═ d 2    two accelerators, nets 3, 1, 3
//
// Some device computes for 4: {a b} 4 + 1. A single group alone could be with all others: 5, too.
// With nets of 3 only, {a b c d} is best: 8; the block of 4 has 4 + 3.
TEST(PlacementBounds, ChargeTheDeviceThatComputesMost) {
  CostGraph graph;
  graph.classes = accelerators_and_cpus(2, 0);
  for (int i = 0; i < 4; ++i) graph.nodes.push_back(cost_node("", {2, 0}));
  graph.nets = {{0, {1}, 3}, {1, {2}, 1}, {2, {3}, 3}};
  EXPECT_NEAR(bound(graph, only(false, false, true, false)).lower_bound, 5, 1e-4);
  EXPECT_NEAR(bound(graph, only(false, false, false, true)).lower_bound, 5, 1e-4);
  graph.nets[1].amount = 3;
  EXPECT_NEAR(bound(graph, only(false, false, true, false)).lower_bound, 7, 1e-4);
  EXPECT_NEAR(bound(graph, only(false, false, false, true)).lower_bound, 7, 1e-4);
}

// Nine groups of 1 on four devices: three on one of them. Two of 0.2 more: none has to be with
// three.
TEST(PlacementBounds, PackWholeGroups) {
  CostGraph graph;
  graph.classes = accelerators_and_cpus(4, 0);
  for (int i = 0; i < 9; ++i) graph.nodes.push_back(cost_node("", {1, 0}));
  const PlacementBoundOptions options = only(true, false, false, false, true);
  EXPECT_NEAR(bound(graph, options).lower_bound, 3, 1e-6);
  graph.nodes.push_back(cost_node("", {0.2, 0}));
  EXPECT_NEAR(bound(graph, options).lower_bound, 3, 1e-6);
  graph.classes[0].count = 9;  // one has to take 0.2
  EXPECT_NEAR(bound(graph, options).lower_bound, 1.2, 0.2);
}

// Against all assignments of groups that nothing ties, on two speeds.
TEST(PlacementBounds, PackNoTighterThanTheBestAssignment) {
  double sum = 0;
  double best = 0;
  for (std::uint64_t seed = 0; seed < 400; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    CostGraph graph;
    graph.classes = accelerators_and_cpus(draw(random, 1, 3), draw(random, 0, 1));
    for (int i = draw(random, 1, 7); i > 0; --i) {
      const double time = draw(random, 1, 12);
      graph.nodes.push_back(cost_node("", {time, time * 4}));
    }
    const double expected = BruteForce(graph, false).best();
    const double packed = bound(graph, only(true, true, false, false, true)).lower_bound;
    EXPECT_LE(packed, expected * (1 + 1e-12));
    sum += packed;
    best += expected;
  }
  EXPECT_GT(sum, 0.95 * best);
}

// Every bound on its own; the program is the optimum.
TEST(PlacementBounds, NeverExceedTheOptimum) {
  double sums[6] = {};
  double sum = 0;
  for (std::uint64_t seed = 0; seed < 160; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    const CostGraph graph = random_cost_graph(
        random, {.max_nodes = 6, .has_weights = seed % 2 == 0, .has_pair_rates = seed % 4 == 0});
    const double expected = BruteForce(graph, false).best();
    if (std::isinf(expected)) continue;
    sum += expected;
    for (int rule = 0; rule < 6; ++rule) {
      SCOPED_TRACE(rule);
      const ThroughputBound answer =
          bound(graph, only(rule % 5 == 0, rule == 1, rule == 2, rule == 3, rule == 4, rule == 5));
      EXPECT_FALSE(answer.is_infeasible);
      EXPECT_LE(answer.lower_bound, expected * (1 + 1e-6) + 1e-9);
      sums[rule] += answer.lower_bound;
      if (rule == 3 && graph.pair_rates.empty()) {
        EXPECT_NEAR(answer.lower_bound, expected, 1e-5 * (1 + expected));
      }
    }
  }
  sums[4] = std::max(sums[4], sums[0]);  // it raises the bound of work where it can
  EXPECT_GT(sums[5], sums[0] + 0.1 * (sum - sums[0]));
  for (const double s : sums) EXPECT_GT(s, 0.4 * sum);
}

TEST(PlacementBounds, ProveOnlyWhatIsInfeasible) {
  int num_proved = 0;
  int num_infeasible = 0;
  for (std::uint64_t seed = 0; seed < 2000; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    const CostGraph graph = random_cost_graph(random, {.max_nodes = 5, .has_weights = true});
    const bool is_infeasible = std::isinf(BruteForce(graph, false).best());
    const ThroughputBound answer = bound(graph);
    num_infeasible += is_infeasible ? 1 : 0;
    num_proved += answer.is_infeasible ? 1 : 0;
    if (answer.is_infeasible) {
      EXPECT_TRUE(is_infeasible);
      EXPECT_FALSE(answer.explanation.lines.empty());
    }
  }
  EXPECT_GT(num_proved, num_infeasible / 2);
}

TEST(PlacementBounds, EndAtTheGoal) {
  std::mt19937_64 random(7);
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(seed);
    const CostGraph graph = random_cost_graph(random, {.max_nodes = 6, .has_limits = false});
    const double expected = BruteForce(graph, false).best();
    if (expected == 0) continue;
    PlacementBoundOptions options;
    options.program_time_limit_s = 20;
    options.goal = expected;
    const ThroughputBound met = bound(graph, options);
    EXPECT_GE(met.lower_bound, expected * (1 - 1.001e-6));
    EXPECT_LE(met.lower_bound, expected * (1 + 1e-9));
    options.goal = expected * 1.2 + 0.1;  // a plan that is not the best
    const ThroughputBound better = bound(graph, options);
    EXPECT_LE(better.lower_bound, expected * (1 + 1e-9));
    if (better.plan) {
      const auto loads = device_loads(graph, *better.plan);
      EXPECT_LT(*std::max_element(loads.begin(), loads.end()), options.goal);
    }
  }
}

// Over all sets by trying them.
TEST(GroupCut, IsTheLeastLoadOverAllSets) {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    const GroupGraph groups = make_colour_groups(random_cost_graph(random, {.max_nodes = 8}));
    for (int k = 0; k < groups.num_kinds(); ++k) {
      GroupCut cut(groups, k);
      for (int g = 0; g < groups.num_groups(); ++g) {
        if (std::isinf(groups.time_ms[k][g])) continue;
        double least = kUnlimited;
        for (unsigned set = 0; set < 1U << groups.nodes.size(); ++set) {
          if ((set >> g & 1U) == 0) continue;
          double load = 0;
          for (int i = 0; i < groups.num_groups(); ++i) {
            if ((set >> i & 1U) != 0) load += groups.time_ms[k][i];
          }
          for (const GroupNet& net : groups.nets) {
            const auto inside = std::count_if(net.groups.begin(), net.groups.end(),
                                              [&](int i) { return (set >> i & 1U) != 0; });
            if (inside != 0 && inside != static_cast<std::ptrdiff_t>(net.groups.size())) {
              load += net.amount / groups.kinds[k].link_rate;
            }
          }
          least = std::min(least, load);
        }
        EXPECT_NEAR(cut.least_load_with(g, kUnlimited, {}), least, 1e-9);
      }
    }
  }
}

TEST(PlacementBounds, RefuseBadOptions) {
  CostGraph graph;
  graph.classes = accelerators_and_cpus(1, 0);
  PlacementBoundOptions options;
  options.goal = 0;
  EXPECT_EQ(bound_placement(graph, options).error().code, ErrorCode::kUsage);
  options = {};
  options.program_time_limit_s = 0;
  EXPECT_EQ(bound_placement(graph, options).error().code, ErrorCode::kUsage);
  options = {};
  options.max_cuts = 0;
  EXPECT_EQ(bound_placement(graph, options).error().code, ErrorCode::kUsage);
  options = {};
  options.max_share_steps = -1;
  EXPECT_EQ(bound_placement(graph, options).error().code, ErrorCode::kUsage);
  EXPECT_EQ(bound_placement(CostGraph{}).error().code, ErrorCode::kValue);
}

}  // namespace
}  // namespace plimsoll::partition
