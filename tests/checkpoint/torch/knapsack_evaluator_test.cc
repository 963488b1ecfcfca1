#include "checkpoint/torch/knapsack_evaluator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace plimsoll::checkpoint {
namespace {

using ::testing::DoubleNear;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pointwise;

//  [node1] ── [node2] ── node3 ── node4 ── [node5] ── output        [...]: candidates
//     └─────────────────────────────────────────────────┘
GraphInfo upstream_graph() {
  GraphInfo info;
  info.nodes = {"node1", "node2", "node3", "node4", "node5", "output"};
  info.edges = {{0, 1}, {1, 2}, {2, 3}, {3, 4}, {4, 5}, {0, 5}};
  info.candidates = {0, 1, 4};
  info.memory = {.1, .2, .2};
  info.runtimes = {100, 50, 51};
  return info;
}

std::vector<double> memories(const std::vector<TraceStep>& trace) {
  std::vector<double> memory;
  for (const TraceStep& step : trace) memory.push_back(step.memory);
  return memory;
}

TEST(CandidateGraph, JoinsByEdgesOrByPathsPastNoThird) {
  const GraphInfo info = upstream_graph();
  ASSERT_TRUE(validate(info).has_value());
  const CandidateGraph edges = make_edge_graph(info);
  EXPECT_THAT(edges.successors, ElementsAre(ElementsAre(1), IsEmpty(), IsEmpty()));
  const CandidateGraph paths = make_path_graph(info);
  EXPECT_THAT(paths.successors, ElementsAre(ElementsAre(1), ElementsAre(2), IsEmpty()));
  EXPECT_THAT(paths.predecessors, ElementsAre(IsEmpty(), ElementsAre(0), ElementsAre(1)));
}

TEST(CandidateGraph, LeadsNoPathThroughTheOutput) {
  GraphInfo info = upstream_graph();
  info.nodes = {"a", "b", "output", "c", "d", "e"};
  info.edges = {{0, 2}, {2, 3}, {1, 3}, {1, 3}};
  info.candidates = {3, 1, 0};
  EXPECT_THAT(make_path_graph(info).successors, ElementsAre(IsEmpty(), ElementsAre(0), IsEmpty()));
  EXPECT_THAT(make_path_graph(info).order, ElementsAre(2, 1, 0));
  EXPECT_THAT(make_edge_graph(info).successors, ElementsAre(IsEmpty(), ElementsAre(0), IsEmpty()));
  EXPECT_THAT(make_edge_graph(info).order, ElementsAre(0, 1, 2));
}

TEST(KnapsackEvaluator, AnswersUpstreamsVectors) {
  const GraphInfo info = upstream_graph();
  const KnapsackChoice choice{0, {0}, {1, 2}};
  const auto plain = evaluate(info, choice);
  ASSERT_TRUE(plain.has_value());
  EXPECT_EQ(plain->peak_memory, .1);
  EXPECT_EQ(plain->recomputation_runtime, 101);
  EXPECT_EQ(plain->non_ac_peak_memory, .5);
  EXPECT_EQ(plain->theoretical_max_runtime, 201);
  EXPECT_EQ(plain->percentage_of_theoretical_peak_memory, .1 / .5);
  EXPECT_EQ(plain->percentage_of_theoretical_peak_runtime, 101. / 201);
  const BackwardRules rules;
  EXPECT_EQ(evaluate(info, choice, &rules)->peak_memory, .5);
}

TEST(KnapsackEvaluator, TracesTheBackwardPass) {
  const GraphInfo info = upstream_graph();
  const auto trace = simulate_backward(info, make_path_graph(info), {1, 0, 0}, .1);
  EXPECT_THAT(memories(trace), Pointwise(DoubleNear(1e-15), {.1, .3, .5, .3, .1, 0.}));
  ASSERT_EQ(trace.size(), 6u);
  EXPECT_EQ(trace[1].event, TraceEvent::kRecompute);
  EXPECT_EQ(trace[1].candidate, 2);
  EXPECT_EQ(trace[2].event, TraceEvent::kRecomputeForUser);
  EXPECT_EQ(trace[2].candidate, 1);
  EXPECT_EQ(trace[3].event, TraceEvent::kDrop);
  EXPECT_EQ(trace[4].event, TraceEvent::kDropKept);
  EXPECT_EQ(trace[5].candidate, 0);
}

// 0 is saved and 1 needs it: upstream charges 0 again, and the charge stays to the end.
TEST(KnapsackEvaluator, ChargesASavedPredecessorAgainUnlessTold) {
  GraphInfo info;
  info.nodes = {"a", "b"};
  info.edges = {{0, 1}};
  info.candidates = {0, 1};
  info.memory = {4, 1};
  info.runtimes = {1, 1};
  const CandidateGraph graph = make_path_graph(info);
  EXPECT_THAT(memories(simulate_backward(info, graph, {1, 0}, 4)), ElementsAre(4, 5, 9, 8, 4));
  const BackwardRules fixed{.recharges_saved_predecessors = false};
  EXPECT_THAT(memories(simulate_backward(info, graph, {1, 0}, 4, fixed)), ElementsAre(4, 5, 4, 0));
  EXPECT_EQ(evaluate(info, {0, {0}, {1}}, &fixed)->peak_memory, 5);
}

// Whatever is saved is there at the start and gone at the end; what is recomputed comes and goes.
TEST(KnapsackEvaluator, EndsWithoutMemoryWhereNothingIsChargedTwice) {
  for (std::uint64_t seed = 0; seed < 500; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    GraphInfo info;
    const int n = 1 + static_cast<int>(random() % 12);
    for (int i = 0; i < n; ++i) {
      info.nodes.push_back("n" + std::to_string(i));
      for (int j = 0; j < i; ++j) {
        if (random() % 3 == 0) info.edges.emplace_back(j, i);
      }
      if (random() % 4 == 0) continue;
      info.candidates.push_back(i);
      info.memory.push_back(static_cast<double>(1 + random() % 9));
      info.runtimes.push_back(1);
    }
    std::shuffle(info.candidates.begin(), info.candidates.end(), random);
    ASSERT_TRUE(validate(info).has_value());
    std::vector<char> is_saved;
    double start = 0;
    for (double memory : info.memory) {
      is_saved.push_back(random() % 2 == 0 ? 1 : 0);
      if (is_saved.back()) start += memory;
    }
    const CandidateGraph graph = make_path_graph(info);
    const auto fixed = simulate_backward(info, graph, is_saved, start, {false});
    EXPECT_EQ(fixed.back().memory, 0);
    for (const TraceStep& step : fixed) EXPECT_GE(step.memory, 0);
    const auto quirky = simulate_backward(info, graph, is_saved, start);
    EXPECT_GE(quirky.back().memory, 0);
    EXPECT_EQ(simulate_backward(info, graph, is_saved, start), quirky);
  }
}

// Upstream walks sets of names in the order of their hashes, so its answer differs between runs;
// here neither the names nor the order of the edges matter.
TEST(KnapsackEvaluator, DoesNotDependOnNamesOrOnTheOrderOfEdges) {
  GraphInfo info;
  info.nodes = {"a", "b", "c", "d", "e"};
  info.edges = {{0, 2}, {1, 2}, {0, 3}, {1, 3}, {2, 4}, {3, 4}};
  info.candidates = {4, 3, 2, 1, 0};
  info.memory = {.1, .2, .3, .4, .7};
  info.runtimes = {1, 1, 1, 1, 1};
  const std::vector<char> is_saved = {0, 1, 0, 0, 0};
  const auto trace = simulate_backward(info, make_path_graph(info), is_saved, .2);
  std::mt19937_64 random(1);
  for (int i = 0; i < 50; ++i) {
    std::shuffle(info.edges.begin(), info.edges.end(), random);
    std::shuffle(info.nodes.begin(), info.nodes.end(), random);
    EXPECT_EQ(simulate_backward(info, make_path_graph(info), is_saved, .2), trace);
  }
}

TEST(KnapsackEvaluator, RefusesSetsThatDoNotPartTheCandidates) {
  const GraphInfo info = upstream_graph();
  for (const KnapsackChoice& choice : {KnapsackChoice{0, {0}, {1}},
                                       {0, {0, 1}, {1, 2}},
                                       {0, {0, 0}, {1, 2}},
                                       {0, {0, 3}, {1, 2}}}) {
    const auto evaluation = evaluate(info, choice);
    ASSERT_FALSE(evaluation.has_value());
    EXPECT_EQ(evaluation.error().code, ErrorCode::kValue);
  }
  GraphInfo weightless = info;
  weightless.memory = {0, 0, 0};
  EXPECT_EQ(evaluate(weightless, {0, {}, {0, 1, 2}}).error().code, ErrorCode::kZeroDivision);
  GraphInfo instant = info;
  instant.runtimes = {0, 0, 0};
  EXPECT_EQ(evaluate(instant, {0, {}, {0, 1, 2}}).error().code, ErrorCode::kZeroDivision);
}

// Upstream's test gives a table instead of a solver; what it lacks saves everything.
Result<KnapsackChoice> table_solver(const KnapsackProblem& problem) {
  if (problem.max_memory == .1 || problem.max_memory == .2) return KnapsackChoice{0, {0}, {1, 2}};
  if (problem.max_memory == .3 || problem.max_memory == .4) return KnapsackChoice{0, {0, 2}, {1}};
  return KnapsackChoice{0, {0, 1, 2}, {}};
}

TEST(KneeBudget, AnswersUpstreamsVectors) {
  const std::pair<double, double> expected[] = {{.1, .1}, {.2, .1}, {.3, .3}, {.4, .4}, {.5, .4}};
  for (const auto& [max_budget, knee] : expected) {
    const auto found = find_knee_budget(
        upstream_graph(), table_solver,
        {.max_memory_budget = max_budget, .min_memory_budget = .1, .iterations = 5});
    ASSERT_TRUE(found.has_value());
    EXPECT_EQ(*found, knee) << max_budget;
  }
}

TEST(KneeBudget, IsTheLargestWhereEveryBudgetGivesTheSame) {
  const auto constant = [](const KnapsackProblem&) -> Result<KnapsackChoice> {
    return KnapsackChoice{0, {0}, {1, 2}};
  };
  EXPECT_EQ(*find_knee_budget(upstream_graph(), constant, {.max_memory_budget = .5}), .5);
}

TEST(KneeBudget, PassesOnWhatASolverRefuses) {
  GraphInfo info = upstream_graph();
  info.memory[0] = 0;
  EXPECT_EQ(find_knee_budget(info, greedy_knapsack).error().code, ErrorCode::kZeroDivision);
  EXPECT_EQ(find_knee_budget(info, dp_knapsack, {.iterations = 1}).error().place, "iterations");
}

TEST(DynamicBudget, IsTheTableAtTheKnee) {
  const GraphInfo info = upstream_graph();
  const auto knee = find_knee_budget(info, dp_knapsack, {.max_memory_budget = .5});
  ASSERT_TRUE(knee.has_value());
  EXPECT_LT(*knee, .5);
  EXPECT_EQ(*dynamic_memory_budget_dp(info, .5), *dp_knapsack({info.memory, info.runtimes, *knee}));
}

TEST(GraphInfo, IsRefusedWithThePlaceOfTheMistake) {
  const auto place_of = [](auto change) {
    GraphInfo info = upstream_graph();
    change(info);
    const auto valid = validate(info);
    return valid ? "valid" : valid.error().place;
  };
  EXPECT_EQ(place_of([](GraphInfo&) {}), "valid");
  EXPECT_EQ(place_of([](GraphInfo& info) { info.nodes[1] = "node1"; }), "nodes");
  EXPECT_EQ(place_of([](GraphInfo& info) { info.edges[0] = {1, 0}; }), "edges");
  EXPECT_EQ(place_of([](GraphInfo& info) { info.edges[0] = {1, 1}; }), "edges");
  EXPECT_EQ(place_of([](GraphInfo& info) { info.edges[0] = {0, 6}; }), "edges");
  EXPECT_EQ(place_of([](GraphInfo& info) { info.edges[0] = {-1, 2}; }), "edges");
  EXPECT_EQ(place_of([](GraphInfo& info) { info.candidates[0] = 6; }), "candidates");
  EXPECT_EQ(place_of([](GraphInfo& info) { info.candidates[0] = 1; }), "candidates");
  EXPECT_EQ(place_of([](GraphInfo& info) { info.memory.pop_back(); }), "memory");
  EXPECT_EQ(place_of([](GraphInfo& info) { info.runtimes[0] = -1; }), "runtimes");
}

// Ten residual blocks: m_i is dear to keep, r_i = r_(i-1) + m_i is cheap to keep.
//   m1 ─ r1 ─ m2 ─ r2 ─ ... ─ r10
//         └─────────┘
// A budget for some of the r alone leaves the others to be made again in one chain, with every m on
// the way alive at once: pytorch/pytorch#197838. The bytes that are kept are not the peak.
TEST(KnapsackEvaluator, PeaksHigherWithLessBudgetWhereAChainIsMadeAgain) {
  GraphInfo info;
  for (int i = 0; i < 10; ++i) {
    for (const bool is_residual : {false, true}) {
      const int node = static_cast<int>(info.nodes.size());
      info.nodes.push_back((is_residual ? "r" : "m") + std::to_string(i + 1));
      info.candidates.push_back(node);
      info.memory.push_back(is_residual ? .02 : .08);
      info.runtimes.push_back(is_residual ? 10 : 8);
      if (node > 0) info.edges.emplace_back(node - 1, node);
      if (is_residual && i > 0) info.edges.emplace_back(node - 2, node);
    }
  }
  ASSERT_TRUE(validate(info));
  const BackwardRules rules{.recharges_saved_predecessors = false};
  std::vector<double> peaks;
  for (const double budget : {0.0, .1, .2, .6, 1.0}) {
    const auto choice = dp_knapsack({info.memory, info.runtimes, budget});
    ASSERT_TRUE(choice);
    const auto evaluation = evaluate(info, *choice, &rules);
    ASSERT_TRUE(evaluation);
    peaks.push_back(evaluation->peak_memory);
  }
  EXPECT_NEAR(peaks[0], 1.0, 1e-9);  // all of it, in one chain
  EXPECT_NEAR(peaks[1], .6, 1e-9);   // r1 to r5 are kept, five blocks are made again
  EXPECT_LT(peaks[2], .31);          // every r is kept
  EXPECT_GT(peaks[3], peaks[2]);
  EXPECT_NEAR(peaks[4], 1.0, 1e-9);
}

}  // namespace
}  // namespace plimsoll::checkpoint
