#include "partition/throughput/share_bound.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <limits>

#include "partition/cost_graphs.h"
#include "partition/graph/group_absorption.h"
#include "partition/graph/shared_work.h"

namespace plimsoll::partition {
namespace {

constexpr std::int64_t kEndless = std::numeric_limits<std::int64_t>::max();

double bound_of(const CostGraph& graph, std::int64_t max_steps = kEndless) {
  const GroupGraph groups = make_colour_groups(graph);
  const double start = shared_work(groups);
  return bound_by_shares(groups, start, 4 * start, max_steps, {});
}

//   a 2 ═ b 2   and nothing else between them: two accelerators, net 1
//
// Together 4, apart 3. A device within T < 4 holds one of them and moves half its time: all that
// both do is 6, so T >= 3.
TEST(ShareBound, ChargesWhatEveryGroupMustMove) {
  CostGraph graph;
  graph.classes = accelerators_and_cpus(2, 0);
  graph.nodes = {cost_node("a", {2, 0}), cost_node("b", {2, 0})};
  graph.nets = {{0, {1}, 1}};
  EXPECT_NEAR(bound_of(graph), 3, 0.1);
  graph.nets[0].amount = 3;  // apart 5: together is better
  EXPECT_NEAR(bound_of(graph), 4, 0.1);
  graph.classes[1].count = 1;  // it moves for free, but takes ten times as long
  for (CostNode& node : graph.nodes) node.time_ms[1] = 20;
  EXPECT_LE(bound_of(graph), 4);
  EXPECT_GT(bound_of(graph), 3);
  graph.classes[0].link_rate = kUnlimited;  // nothing is paid for
  EXPECT_NEAR(bound_of(graph), 4 / 2.1, 1e-9);
}

TEST(ShareBound, NeverExceedsTheBestPlacement) {
  int num_better = 0;
  int num_met = 0;
  for (std::uint64_t seed = 0; seed < 4000; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    const CostGraph graph =
        random_cost_graph(random, {.has_weights = seed % 3 == 0, .has_pair_rates = seed % 4 == 0});
    GroupGraph groups = make_colour_groups(graph);
    std::vector<int> merged_of;
    if (graph.pair_rates.empty() && seed % 2 == 0) {
      groups = absorb_unordered_groups(groups, merged_of);
    }
    const double start = shared_work(groups);
    if (!(start > 0) || start == kUnlimited) continue;
    const double best = BruteForce(graph, false).best();
    for (const double goal : {1.3 * start, 5 * start}) {
      const double bound = bound_by_shares(groups, start, goal, kEndless, {});
      EXPECT_LE(bound, best * (1 + 1e-9));
      EXPECT_LE(bound, goal);
      EXPECT_GE(bound, start);
      num_better += bound > 1.001 * start ? 1 : 0;
      num_met += bound > 1.001 * start && bound > 0.99 * best ? 1 : 0;
    }
  }
  EXPECT_GT(num_better, 1000);
  EXPECT_GT(num_met, 100);
}

//   a chain of twelve groups of 1, nets of 0.25, four accelerators: three groups each, the inner
//   ones move 0.5
TEST(ShareBound, SaysMoreTheMoreItMayAsk) {
  CostGraph graph;
  graph.classes = accelerators_and_cpus(4, 0);
  for (int i = 0; i < 12; ++i) {
    graph.nodes.push_back(cost_node("", {1, 0}));
    if (i > 0) graph.nets.push_back({i - 1, {i}, 0.25});
  }
  EXPECT_EQ(bound_of(graph, 0), 3);
  const double some = bound_of(graph, 2000);
  EXPECT_GE(some, 3);
  EXPECT_GE(bound_of(graph), some);
  EXPECT_GT(bound_of(graph), 3.2);
  EXPECT_LE(bound_of(graph), 3.5);
  EXPECT_EQ(bound_of(graph), bound_of(graph));
}

TEST(ShareBound, StopsAtTheClock) {
  CostGraph graph;
  graph.classes = accelerators_and_cpus(2, 0);
  graph.nodes = {cost_node("a", {2, 0}), cost_node("b", {2, 0})};
  graph.nets = {{0, {1}, 1}};
  RunContext late;
  late.deadline = std::chrono::steady_clock::now() - std::chrono::seconds(1);
  EXPECT_EQ(bound_by_shares(make_colour_groups(graph), 2, 8, kEndless, late), 2);
}

}  // namespace
}  // namespace plimsoll::partition
