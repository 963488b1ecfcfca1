#include "plimsoll/partition/latency_search.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>

#include "partition/graph/net_cut.h"
#include "partition/judged.h"
#include "partition/latency/latency_bound.h"
#include "partition/latency_graphs.h"
#include "plimsoll/check/latency_check.h"

namespace plimsoll::partition {
namespace {

using ::testing::ElementsAre;

constexpr int kNumSeeds = 250;

LatencyPlacement place(const CostGraph& graph, const LatencySearchOptions& options = {}) {
  return place_for_latency(graph, options).value();
}

LatencySearchOptions with_effort(std::int64_t effort) {
  LatencySearchOptions options;
  options.search.effort = effort;
  return options;
}

void expect_right(const CostGraph& graph, const LatencyPlacement& placed) {
  const Certificate& certificate = placed.outcome.certificate;
  ASSERT_EQ(placed.outcome.plan.has_value(), placed.outcome.status == SolveStatus::kOptimal ||
                                                 placed.outcome.status == SolveStatus::kFeasible);
  if (!placed.outcome.plan) return;
  const auto report =
      check::check_latency(graph, *placed.outcome.plan, certificate.objective).value();
  EXPECT_TRUE(report.is_right()) << report.violations().front().message;
  EXPECT_LE(*certificate.lower_bound, certificate.objective);
}

//   0 ──8──→ 1 ──1──→ 2 ──8──→ 3      1 ms each on an accelerator, 10 on a host; 1 byte each
CostGraph chain(int num_accelerators, int num_hosts, Bytes cap) {
  CostGraph graph;
  graph.classes = accelerators_and_cpus(num_accelerators, num_hosts, cap);
  for (int i = 0; i < 4; ++i) graph.nodes.push_back(cost_node("", {1, 10}, 1));
  graph.nets = {{0, {1}, 8}, {1, {2}, 1}, {2, {3}, 8}};
  return graph;
}

TEST(LatencySearch, KeepsWhatFitsOnOneDevice) {
  const LatencyPlacement placed = place(chain(2, 1, 4));
  EXPECT_EQ(placed.outcome.status, SolveStatus::kOptimal);
  EXPECT_EQ(placed.outcome.certificate.objective, 4);
}

// Two bytes a device: cut at the cheap net, 2 + 1 out, 1 in + 2.
TEST(LatencySearch, CutsWhereItIsCheap) {
  const LatencyPlacement placed = place(chain(2, 1, 2));
  EXPECT_EQ(placed.outcome.status, SolveStatus::kOptimal);
  EXPECT_EQ(placed.outcome.certificate.objective, 6);
  const auto& device = placed.outcome.plan->device;
  EXPECT_EQ(device[0], device[1]);
  EXPECT_EQ(device[2], device[3]);
  EXPECT_NE(device[0], device[2]);
}

// One device of three bytes: 0 to 2 there, 3 on the host: 3 + 8 + 10. Or 1 and 2 there, which moves
// 8 + 8; or 2 and 3 there, 20 + 1 + 2.
TEST(LatencySearch, LeavesTheRestToAHost) {
  EXPECT_EQ(place(chain(1, 1, 3)).outcome.certificate.objective, 21);
  EXPECT_EQ(place(chain(1, 1, 2)).outcome.certificate.objective, 23);
}

// Both branches on the host side by side are faster than one after the other on the accelerator.
//   0 ─→ 1 (6 | 7)
//   └──→ 2 (6 | 7)
TEST(LatencySearch, RunsBranchesSideBySide) {
  CostGraph graph;
  graph.classes = accelerators_and_cpus(1, 1);
  graph.nodes = {cost_node("", {1, 1}), cost_node("", {6, 7}), cost_node("", {6, 7})};
  graph.nets = {{0, {1, 2}, 2}};
  const LatencyPlacement placed = place(graph);
  EXPECT_EQ(placed.outcome.status, SolveStatus::kOptimal);
  EXPECT_EQ(placed.outcome.certificate.objective, 8);
  EXPECT_THAT(placed.outcome.plan->device, ElementsAre(1, 1, 1));
}

TEST(LatencySearch, ProvesThatNothingFits) {
  const LatencyPlacement by_bytes = place(chain(3, 0, 1));
  EXPECT_EQ(by_bytes.outcome.status, SolveStatus::kInfeasible);
  EXPECT_EQ(by_bytes.outcome.explanation.missing, 1);
  EXPECT_EQ(place(chain(4, 0, 1)).outcome.status, SolveStatus::kOptimal);
  // Together there is room, but no device holds both colour mates.
  CostGraph graph = chain(4, 0, 1);
  graph.nodes[0].colour = graph.nodes[3].colour = 1;
  EXPECT_EQ(place(graph).outcome.status, SolveStatus::kInfeasible);
  graph = chain(2, 1, 4);
  graph.nodes[2].time_ms = {kUnlimited, kUnlimited};
  const LatencyPlacement by_class = place(graph);
  EXPECT_EQ(by_class.outcome.status, SolveStatus::kInfeasible);
  EXPECT_EQ(by_class.outcome.explanation.binding, "permissions");
}

TEST(LatencySearch, TakesEmptyAndSingleGraphs) {
  CostGraph graph;
  graph.classes = accelerators_and_cpus(1, 0, 1);
  EXPECT_EQ(place(graph).outcome.status, SolveStatus::kOptimal);
  graph.nodes = {cost_node("", {3, 4}, 1)};
  EXPECT_EQ(place(graph).outcome.certificate.objective, 3);
  graph.nodes[0].memory = 2;
  EXPECT_EQ(place(graph).outcome.status, SolveStatus::kInfeasible);
}

TEST(LatencySearch, RefusesBadInput) {
  CostGraph graph = chain(2, 1, 4);
  graph.nets.push_back({3, {0}, 1});
  EXPECT_EQ(place_for_latency(graph).error().code, ErrorCode::kConflict);
  LatencySearchOptions options;
  options.num_orders = 0;
  EXPECT_EQ(place_for_latency(chain(2, 1, 4), options).error().code, ErrorCode::kUsage);
  options.num_orders = 1;
  options.search.tolerance = std::nan("");
  EXPECT_EQ(place_for_latency(chain(2, 1, 4), options).error().code, ErrorCode::kUsage);
}

TEST(LatencySearch, AgreesWithTryingEverything) {
  int num_infeasible = 0;
  for (std::uint64_t seed = 0; seed < kNumSeeds; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    const CostGraph graph = random_latency_graph(random, 6);
    const double best = LeastLatency(graph).find();
    const LatencyPlacement placed = place(graph);
    expect_right(graph, placed);
    expect_near(proved_optimum(placed.outcome), best, 1e-6);
    if (best == kUnlimited) ++num_infeasible;
  }
  EXPECT_GT(num_infeasible, 10);
}

// Each bound alone, without the tree that would replace it.
TEST(LatencyBound, NeverExceedsTheOptimum) {
  double sums[3] = {};
  double optimum = 0;
  for (std::uint64_t seed = 0; seed < 2 * kNumSeeds; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    const CostGraph graph = random_latency_graph(random, 6);
    const double best = LeastLatency(graph).find();
    const LatencyBoundRules rules[3] = {{false, false}, {true, false}, {true, true}};
    for (int i = 0; i < 3; ++i) {
      const LatencyBound bound = bound_latency(graph, rules[i], {});
      EXPECT_LE(bound.value, best * (1 + 1e-9));
      if (best < kUnlimited) sums[i] += bound.value;
    }
    if (best < kUnlimited) optimum += best;
  }
  EXPECT_LT(sums[0], 0.99 * sums[1]);  // spines raise it, and cuts further
  EXPECT_LT(sums[1], sums[2]);
  EXPECT_LE(sums[2], optimum);
}

// Two sets of nodes fixed, the others tried one by one.
TEST(NetCut, AgreesWithTryingEverything) {
  for (std::uint64_t seed = 0; seed < 400; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    const CostGraph graph = random_latency_graph(random, 8, false);
    const int size = graph.num_nodes();
    std::vector<Side> side;
    std::vector<int> root;
    std::vector<double> time;
    for (int node = 0; node < size; ++node) {
      side.push_back(static_cast<Side>(draw(random, 0, 2)));
      root.push_back(draw(random, 0, 3) == 0 && node > 0 ? root[draw(random, 0, node - 1)] : node);
      time.push_back(draw(random, 0, 9) == 0 ? kUnlimited : graph.nodes[node].time_ms[0]);
    }
    const auto sum_of = [&](int set) {
      const auto is_in = [set](int node) { return (set >> node & 1) != 0; };
      double sum = 0;
      for (int node = 0; node < size; ++node) {
        if (is_in(node) != is_in(root[node])) return kUnlimited;
        if (side[node] == (is_in(node) ? Side::kOut : Side::kIn)) return kUnlimited;
        if (is_in(node) && side[node] == Side::kFree) sum += time[node];
      }
      for (const Net& net : graph.nets) {
        const bool is_made_in = is_in(net.producer);
        const auto is_across = [&](int consumer) { return is_in(consumer) != is_made_in; };
        const auto& consumers = net.consumers;
        if (std::any_of(consumers.begin(), consumers.end(), is_across)) sum += net.amount / 2;
      }
      return sum;
    };
    double best = kUnlimited;
    for (int set = 0; set < 1 << size; ++set) best = std::min(best, sum_of(set));
    NetCut cut(graph, root);
    const double value = cut.solve(side, time, 2);
    if (best == kUnlimited) {
      EXPECT_EQ(value, kUnlimited);
    } else {
      EXPECT_NEAR(value, best, 1e-9);
      EXPECT_LE(value, best * (1 + 1e-12));
    }
  }
}

// Larger than what is searched to the end.
CostGraph wide_graph(std::uint64_t seed) {
  std::mt19937_64 random(seed);
  CostGraph graph;
  graph.classes = accelerators_and_cpus(3, 1, 40);
  for (int i = 0; i < 70; ++i) {
    const double time = 0.1 * draw(random, 1, 20);
    graph.nodes.push_back(cost_node("", {time, 8 * time}, draw(random, 1, 3)));
    Net net{i, {}, 0.1 * draw(random, 1, 40)};
    for (int k = 1; k <= 3; ++k) {
      const int reader = i + draw(random, 1, 6);
      if (reader < 70 &&
          std::find(net.consumers.begin(), net.consumers.end(), reader) == net.consumers.end()) {
        net.consumers.push_back(reader);
      }
    }
    if (!net.consumers.empty()) graph.nets.push_back(std::move(net));
  }
  return graph;
}

TEST(LatencySearch, EachRuleDoesItsPart) {
  double all = 0;
  double without_chains = 0;
  double without_annealing = 0;
  double greedy = 0;
  for (std::uint64_t seed = 0; seed < 6; ++seed) {
    SCOPED_TRACE(seed);
    const CostGraph graph = wide_graph(seed);
    LatencySearchOptions options = with_effort(4000);
    const auto value = [&] {
      const LatencyPlacement placed = place(graph, options);
      expect_right(graph, placed);
      return placed.outcome.certificate.objective;
    };
    all += value();
    options.rules.uses_chains = false;
    without_chains += value();
    options.rules.anneals = false;
    options.rules.uses_spines = false;
    greedy += value();
    options = with_effort(4000);
    options.rules.anneals = false;
    without_annealing += value();
  }
  EXPECT_LT(all, without_chains * 1.02);  // annealing makes up for it
  EXPECT_LT(all, 0.99 * without_annealing);
  EXPECT_LT(without_annealing, 0.9 * greedy);
}

// Without the tree nothing is wrong, only less is proved.
TEST(LatencySearch, TheTreeProvesWhatTheBoundsDoNot) {
  int num_proved = 0;
  int num_proved_without = 0;
  for (std::uint64_t seed = 0; seed < kNumSeeds; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    const CostGraph graph = random_latency_graph(random, 6);
    const LatencyPlacement with = place(graph);
    LatencySearchOptions options = with_effort(3000);
    options.rules.searches_tree = false;
    const LatencyPlacement without = place(graph, options);
    expect_right(graph, without);
    num_proved += with.outcome.status == SolveStatus::kOptimal ? 1 : 0;
    num_proved_without += without.outcome.status == SolveStatus::kOptimal ? 1 : 0;
    if (with.outcome.plan && without.outcome.plan) {
      EXPECT_LE(with.outcome.certificate.objective,
                without.outcome.certificate.objective * (1 + 1e-6));
    }
  }
  EXPECT_LT(num_proved_without, num_proved);
}

TEST(LatencySearch, RepeatsItself) {
  for (std::uint64_t seed = 0; seed < 4; ++seed) {
    SCOPED_TRACE(seed);
    const CostGraph graph = wide_graph(seed);
    const LatencyPlacement first = place(graph, with_effort(2000));
    const LatencyPlacement second = place(graph, with_effort(2000));
    EXPECT_EQ(first.outcome.plan, second.outcome.plan);
    EXPECT_EQ(first.outcome.certificate, second.outcome.certificate);
    EXPECT_EQ(first.num_evaluations, second.num_evaluations);
    EXPECT_LE(first.num_evaluations, 2000);
  }
}

// Where a cancel stops a search, the same effort stops it again, with the same plan.
TEST(LatencySearch, StopsAgainWhereItWasStopped) {
  int num_midway = 0;
  for (std::uint64_t seed = 0; seed < 12; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 generator(seed);
    const CostGraph graph = seed % 2 == 0 ? wide_graph(seed) : random_latency_graph(generator, 12);
    for (int calls = 1; calls < 40; calls = 2 * calls + 1) {
      std::atomic<bool> cancel{false};
      RunContext context;
      context.cancel = &cancel;
      int num_calls = 0;
      context.progress = [&](const Progress&) { cancel = ++num_calls >= calls; };
      const auto stopped = place_for_latency(graph, with_effort(20'000), context).value();
      const auto again = place_for_latency(graph, with_effort(stopped.num_evaluations)).value();
      EXPECT_EQ(again.outcome.plan, stopped.outcome.plan);
      EXPECT_EQ(again.num_evaluations, stopped.num_evaluations);
      num_midway += stopped.outcome.stop == StopReason::kCancelled &&
                            stopped.num_evaluations > 100 && stopped.num_evaluations < 20'000
                        ? 1
                        : 0;
    }
  }
  EXPECT_GT(num_midway, 5);
}

// More effort than the default does the runs over again: never worse.
TEST(LatencySearch, GoesOnWithMoreEffortThanTheDefault) {
  const CostGraph graph = wide_graph(2);
  const LatencyPlacement usual = place(graph);
  const LatencyPlacement more = place(graph, with_effort(usual.num_evaluations + 5000));
  EXPECT_LE(more.outcome.certificate.objective, usual.outcome.certificate.objective);
  if (usual.outcome.stop == StopReason::kEffort) {
    EXPECT_GT(more.num_evaluations, usual.num_evaluations);
  }
}

// Powers of two change no digit; a useless device changes nothing but its number.
TEST(LatencySearch, ScalesWithItsCosts) {
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    CostGraph graph = random_latency_graph(random, 6);
    const LatencyPlacement placed = place(graph);
    for (CostNode& node : graph.nodes) {
      for (double& time : node.time_ms) time *= 8;
    }
    for (Net& net : graph.nets) net.amount *= 8;
    const LatencyPlacement scaled = place(graph);
    EXPECT_EQ(scaled.outcome.status, placed.outcome.status);
    EXPECT_EQ(scaled.outcome.plan, placed.outcome.plan);
    graph.classes.push_back({"brick", 1, 0, 1});
    for (CostNode& node : graph.nodes) node.time_ms.push_back(kUnlimited);
    if (!graph.pair_rates.empty()) continue;
    const LatencyPlacement more = place(graph);
    EXPECT_EQ(more.outcome.status, placed.outcome.status);
    if (!placed.outcome.plan) continue;
    EXPECT_NEAR(more.outcome.certificate.objective, 8 * placed.outcome.certificate.objective,
                1e-6 * more.outcome.certificate.objective);
  }
}

TEST(LatencySearch, StopsWhenItIsTold) {
  const CostGraph graph = wide_graph(1);
  RunContext context;
  const std::atomic<bool> cancel{true};
  context.cancel = &cancel;
  const auto cancelled = place_for_latency(graph, {}, context).value();
  EXPECT_EQ(cancelled.outcome.stop, StopReason::kCancelled);
  expect_right(graph, cancelled);
  context.cancel = nullptr;
  context.deadline = std::chrono::steady_clock::now() - std::chrono::seconds(1);
  const auto late = place_for_latency(graph, {}, context).value();
  EXPECT_EQ(late.outcome.stop, StopReason::kDeadline);
  const auto idle = place(graph, with_effort(0));
  EXPECT_EQ(idle.outcome.status, SolveStatus::kLimit);
  EXPECT_EQ(idle.outcome.stop, StopReason::kEffort);
}

//   0 → 1 → 2 → 3 → 4      bytes 1, 2, 2, 9, 1; two accelerators of 4
TEST(FillGreedily, FillsDevicesInOrderAndLeavesTheRest) {
  CostGraph graph = chain(2, 1, 4);
  graph.nodes.push_back(graph.nodes[3]);
  graph.nets.push_back({3, {4}, 1});
  const Bytes bytes[] = {1, 2, 2, 9, 1};
  for (int i = 0; i < 5; ++i) graph.nodes[i].memory = bytes[i];
  EXPECT_THAT(fill_greedily(graph)->device, ElementsAre(0, 0, 1, 2, 2));
  graph.nodes[4].pinned_device = 1;
  EXPECT_EQ(fill_greedily(chain(1, 0, 3)), std::nullopt);
}

}  // namespace
}  // namespace plimsoll::partition
