#include "partition/stages/path_bound.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>

#include "partition/cost_graphs.h"
#include "partition/graph/downsets.h"
#include "partition/graph/group_absorption.h"
#include "partition/graph/shared_work.h"
#include "plimsoll/partition/contiguous_split.h"

namespace plimsoll::partition {
namespace {

constexpr std::int64_t kSteps = 60'000'000;

double start_of(const GroupGraph& groups) {
  double bound = shared_work(groups);
  for (const double work : work_of_groups(groups)) bound = std::max(bound, work);
  return bound;
}

// From the work alone, with a goal far above.
double bound_of(const CostGraph& graph) {
  const GroupGraph groups = make_groups(graph);
  const double start = start_of(groups);
  return bound_by_paths(graph, groups, start, 4 * start, kSteps, {});
}

//   a 2 → b 2 → c 2 → d 2     two devices: {a b | c d} takes 4 and moves b's net, 1; three: two
//   groups and a net are 5 on any, for {a} {b} {c} leaves d to one of them.
CostGraph chain(int num_devices) {
  CostGraph graph;
  graph.classes = accelerators_and_cpus(num_devices, 0);
  for (const char* name : {"a", "b", "c", "d"}) graph.nodes.push_back(cost_node(name, {2, 0}));
  graph.nets = {{0, {1}, 1}, {1, {2}, 1}, {2, {3}, 1}};
  return graph;
}

TEST(PathBound, CountsWhatStagesOfAChainMove) {
  EXPECT_NEAR(bound_of(chain(1)), 8, 1e-6);
  EXPECT_NEAR(bound_of(chain(2)), 5, 0.01);
  EXPECT_NEAR(bound_of(chain(3)), 5, 0.01);
}

// Whoever holds x, one net more is cut: x's or a's.
//
//   a 2 → b 2 → c 2 → d 2
//    ↘          ↗
//      x 0 ────
TEST(PathBound, ChargesWhatIsMovedBesideThePath) {
  CostGraph graph = chain(2);
  graph.nodes.push_back(cost_node("x", {0, 0}));
  graph.nets.push_back({0, {4}, 0.5});
  graph.nets.push_back({4, {2}, 0.5});
  EXPECT_NEAR(bound_of(graph), 5.5, 0.01);
}

TEST(PathBound, NeverExceedsTheBestSplit) {
  int num_better = 0;
  int num_met = 0;
  for (std::uint64_t seed = 0; seed < 3000; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    const CostGraph graph =
        random_cost_graph(random, {.has_weights = seed % 3 == 0, .has_pair_rates = seed % 4 == 0});
    const double best = BruteForce(graph).best();
    GroupGraph groups = make_groups(graph);
    if (seed % 2 == 0) groups = absorb_groups(graph, groups);
    const double start = start_of(groups);
    if (!(start > 0) || start == kUnlimited) continue;
    for (const double goal : {1.5 * start, 4 * start}) {
      const double bound = bound_by_paths(graph, groups, start, goal, kSteps, {});
      EXPECT_LE(bound, best * (1 + 1e-9));
      EXPECT_LE(bound, goal);
      EXPECT_GE(bound, start);
      EXPECT_EQ(bound, bound_by_paths(graph, groups, start, goal, kSteps, {}));
      num_better += bound > start * 1.001 ? 1 : 0;
      num_met += bound > start * 1.001 && bound > 0.995 * best ? 1 : 0;
    }
  }
  EXPECT_GT(num_better, 500);
  EXPECT_GT(num_met, 50);
}

// Long chains with skips, whose downsets are few: the exact search is the judge.
TEST(PathBound, NeverExceedsTheBestSplitOfLongGraphs) {
  double total = 0;
  double total_work = 0;
  double total_best = 0;
  for (std::uint64_t seed = 0; seed < 150; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    CostGraph graph;
    graph.classes = accelerators_and_cpus(draw(random, 2, 5), draw(random, 0, 1));
    const int size = draw(random, 20, 40);
    for (int i = 0; i < size; ++i) {
      const double time = 0.1 * draw(random, 1, 10);
      graph.nodes.push_back(cost_node("", {time, 10 * time}));
      Net net{i, {}, 0.05 * draw(random, 1, 10)};
      if (i + 1 < size) net.consumers.push_back(i + 1);
      const int skip = i + draw(random, 2, 6);
      if (skip < size && draw(random, 0, 1) == 0) net.consumers.push_back(skip);
      if (!net.consumers.empty()) graph.nets.push_back(net);
    }
    const auto split = split_contiguously(graph);
    ASSERT_EQ(split->outcome.status, SolveStatus::kOptimal);
    const double best = split->outcome.certificate.objective;
    const double start = start_of(make_groups(graph));
    const double bound = bound_of(graph);
    EXPECT_LE(bound, best * (1 + 1e-9));
    total += bound;
    total_work += start;
    total_best += best;
  }
  EXPECT_GT(total, total_work + 0.5 * (total_best - total_work));
}

TEST(PathBound, LooksNoFurtherThanTheGoalAndTheClock) {
  const CostGraph graph = chain(2);
  const GroupGraph groups = make_groups(graph);
  EXPECT_NEAR(bound_by_paths(graph, groups, 4, 4.5, kSteps, {}), 4.5, 1e-6);
  RunContext late;
  late.deadline = std::chrono::steady_clock::now() - std::chrono::seconds(1);
  EXPECT_EQ(bound_by_paths(graph, groups, 4, 8, kSteps, late), 4);
}

}  // namespace
}  // namespace plimsoll::partition
