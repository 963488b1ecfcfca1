#include "checkpoint/torch/policy_per_module.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "checkpoint/random.h"
#include "math/milp.h"

namespace plimsoll::checkpoint {
namespace {

using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using ::testing::HasSubstr;

Outcome<ModulePolicy> solve(const SACStats& stats, double budget) {
  const auto outcome = optimal_policy_per_module(stats, budget);
  EXPECT_TRUE(outcome) << format_error(outcome.error());
  return outcome.value_or(Outcome<ModulePolicy>{});
}

// Upstream's own test:  copy_ in place on an argument, relu_ in place on linear, t a view.
SACStats upstream_example() {
  SACStats stats;
  stats.func_names = {"copy_", "add", "div", "mm", "native_dropout", "linear", "t", "relu_"};
  stats.runtimes = {5, 5, 8, 15, 15, 9, 1, 5};
  stats.memory = {0, 100, 100, 120, 0, 100, 0, 0};
  stats.view_like_ops = {6};
  stats.rand_ops = {4};
  stats.inplace_ops = {{0, 0}, {7, 5}};
  return stats;
}

TEST(PolicyPerModule, SolvesUpstreamsExample) {
  struct Row {
    int capacity;
    std::vector<int> save;
    double saved_runtime;
  };
  for (const Row& row :
       {Row{0, {1, 0, 0, 0, 1, 0, 0, 0}, 20}, Row{100, {1, 0, 0, 0, 1, 1, 0, 1}, 34},
        Row{120, {1, 0, 0, 1, 1, 0, 0, 0}, 35}, Row{200, {1, 0, 1, 0, 1, 1, 0, 1}, 42},
        Row{220, {1, 0, 0, 1, 1, 1, 0, 1}, 49}, Row{320, {1, 0, 1, 1, 1, 1, 0, 1}, 57},
        Row{420, {1, 1, 1, 1, 1, 1, 0, 1}, 62}}) {
    SCOPED_TRACE(row.capacity);
    const auto outcome = solve(upstream_example(), row.capacity / 420.0);
    ASSERT_EQ(outcome.status, SolveStatus::kOptimal);
    EXPECT_THAT(outcome.plan->save, ElementsAreArray(row.save));
    EXPECT_EQ(outcome.plan->saved_runtime, row.saved_runtime);
    EXPECT_LE(outcome.plan->saved_memory, row.capacity);
    EXPECT_EQ(outcome.certificate.objective, 63 - row.saved_runtime);
    EXPECT_EQ(outcome.certificate.gap(), 0);
  }
}

TEST(PolicyPerModule, RoundsTheCapacityUpAsUpstreamDoes) {
  std::vector<int> one_more;
  for (int k = 0; k <= 420; ++k) {
    const Bytes capacity = policy_capacity(upstream_example(), k / 420.0);
    if (capacity != k) {
      EXPECT_EQ(capacity, k + 1);
      one_more.push_back(k);
    }
  }
  EXPECT_THAT(one_more, ElementsAre(29, 58, 61, 109, 115, 116, 122, 217, 218, 219, 230, 231, 232,
                                    243, 244, 245));
}

SACStats stats_of(std::vector<Bytes> memory, std::vector<double> runtimes) {
  SACStats stats;
  stats.func_names.assign(memory.size(), "op");
  stats.memory = std::move(memory);
  stats.runtimes = std::move(runtimes);
  return stats;
}

TEST(PolicyPerModule, TreatsRandomOperatorsAlike) {
  SACStats stats = stats_of({10, 10, 10}, {5, 1, 4});
  stats.rand_ops = {0, 2};
  EXPECT_THAT(solve(stats, 2.0 / 3).plan->save, ElementsAre(1, 0, 1));
  EXPECT_THAT(solve(stats, 1.0 / 3).plan->save, ElementsAre(0, 1, 0));
  stats.force_store_random = true;
  EXPECT_THAT(solve(stats, 2.0 / 3).plan->save, ElementsAre(1, 0, 1));
  const auto outcome = solve(stats, 1.0 / 3);
  EXPECT_EQ(outcome.status, SolveStatus::kInfeasible);
  EXPECT_FALSE(outcome.plan);
  EXPECT_EQ(outcome.explanation.missing, 10);
}

TEST(PolicyPerModule, SeesWhereRulesContradictEachOther) {
  SACStats stats = stats_of({10, 10}, {5, 1});
  stats.force_store_random = true;
  stats.rand_ops = {0};
  stats.view_like_ops = {0};
  EXPECT_EQ(solve(stats, 1).status, SolveStatus::kInfeasible);
  stats.force_store_random = false;
  EXPECT_THAT(solve(stats, 1).plan->save, ElementsAre(0, 1));
  stats.inplace_ops = {{1, 0}};  // joins what must be dropped
  EXPECT_THAT(solve(stats, 1).plan->save, ElementsAre(0, 0));
  stats.inplace_ops = {{0, 0}};
  EXPECT_EQ(solve(stats, 1).status, SolveStatus::kInfeasible);
}

TEST(PolicyPerModule, KeepsNothingThatTakesNoTimeAndTheSmallerOfEquals) {
  EXPECT_THAT(solve(stats_of({0, 5}, {0, 1}), 1).plan->save, ElementsAre(0, 1));
  EXPECT_THAT(solve(stats_of({6, 4, 2}, {3, 3, 0}), 0.5).plan->save, ElementsAre(0, 1, 0));
  EXPECT_THAT(solve(stats_of({5, 5}, {3, 3}), 0.5).plan->save, ElementsAre(1, 0));
  EXPECT_THAT(solve(stats_of({0, 0}, {3, 3}), 0).plan->save, ElementsAre(1, 1));
  EXPECT_TRUE(solve(SACStats{}, 0.5).plan->save.empty());
}

// The judge: upstream's rows, one by one.
bool is_legal(const SACStats& stats, Bytes capacity, const std::vector<int>& save) {
  Bytes memory = 0;
  for (std::size_t i = 0; i < save.size(); ++i) memory += save[i] * stats.memory[i];
  bool legal = memory <= capacity;
  for (std::size_t k = 0; k < stats.rand_ops.size(); ++k) {
    legal &= stats.force_store_random ? save[stats.rand_ops[k]] == 1
                                      : save[stats.rand_ops[k]] == save[stats.rand_ops[0]];
  }
  for (const int op : stats.view_like_ops) legal &= save[op] == 0;
  for (const auto& [op, parent] : stats.inplace_ops) {
    legal &= op == parent ? save[op] == 1 : save[op] == save[parent];
  }
  return legal;
}

TEST(PolicyPerModule, AgreesWithBruteForce) {
  int num_infeasible = 0;
  for (int seed = 0; seed < 600; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    const int n = 1 + random.below(11);
    SACStats stats;
    for (int i = 0; i < n; ++i) {
      stats.func_names.emplace_back("op");
      stats.memory.push_back(random.one_in(5) ? 0 : random.below(30));
      stats.runtimes.push_back(random.one_in(6) ? 0 : random.below(40) / 4.0);
      if (random.one_in(6)) stats.rand_ops.push_back(i);
      if (random.one_in(8)) stats.view_like_ops.push_back(i);
      if (random.one_in(7)) stats.inplace_ops.emplace_back(i, random.below(i + 1));
    }
    stats.force_store_random = random.one_in(3);
    const double budget = random.below(11) / 10.0;
    const Bytes capacity = policy_capacity(stats, budget);
    double best = -1;
    for (unsigned bits = 0; bits < 1u << n; ++bits) {
      std::vector<int> save;
      double runtime = 0;
      for (int i = 0; i < n; ++i) {
        save.push_back(static_cast<int>(bits >> i & 1));
        runtime += save.back() * stats.runtimes[i];
      }
      if (is_legal(stats, capacity, save)) best = std::max(best, runtime);
    }
    const auto outcome = solve(stats, budget);
    ASSERT_EQ(outcome.status, best < 0 ? SolveStatus::kInfeasible : SolveStatus::kOptimal);
    num_infeasible += best < 0 ? 1 : 0;
    if (best < 0) continue;
    EXPECT_TRUE(is_legal(stats, capacity, outcome.plan->save));
    EXPECT_EQ(outcome.plan->saved_runtime, best);
    EXPECT_EQ(solve(stats, budget).plan, outcome.plan);
  }
  EXPECT_GT(num_infeasible, 30);
  EXPECT_LT(num_infeasible, 400);
}

TEST(PolicyPerModule, AgreesWithAMixedIntegerProgram) {
  for (int seed = 0; seed < 12; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    SACStats stats;
    math::MilpProblem problem;
    std::vector<math::MilpTerm> weights;
    for (int i = 0; i < 40; ++i) {
      stats.func_names.emplace_back("op");
      stats.memory.push_back(100 + random.below(900));
      stats.runtimes.push_back(1 + random.below(1000));
      weights.push_back(
          {problem.add_binary(-stats.runtimes[i]), static_cast<double>(stats.memory[i])});
    }
    const double budget = 0.1 + 0.07 * seed;
    problem.add_row(-kInfinity, weights, static_cast<double>(policy_capacity(stats, budget)));
    const auto milp = math::solve_milp(problem);
    ASSERT_TRUE(milp && milp->status == SolveStatus::kOptimal);
    EXPECT_NEAR(solve(stats, budget).plan->saved_runtime, -milp->objective, 1e-6);
  }
}

// Many different operators: without its bound the number of states would explode.
TEST(PolicyPerModule, StaysSmallOnAThousandOperators) {
  Random random(7);
  SACStats stats;
  for (int i = 0; i < 1000; ++i) {
    stats.func_names.emplace_back("op");
    stats.memory.push_back(1'000'000 + random.below(900'000'000));
    stats.runtimes.push_back(0.01 + random.below(1'000'000) / 1e5);
  }
  const auto outcome = solve(stats, 0.5);
  ASSERT_EQ(outcome.status, SolveStatus::kOptimal);
  EXPECT_LE(outcome.plan->saved_memory, policy_capacity(stats, 0.5));
  // Within one operator of the fractional optimum.
  std::vector<int> order(1000);
  std::iota(order.begin(), order.end(), 0);
  const auto density = [&](int op) {
    return stats.runtimes[op] / static_cast<double>(stats.memory[op]);
  };
  std::sort(order.begin(), order.end(), [&](int a, int b) { return density(a) > density(b); });
  double bound = 0;
  Bytes left = policy_capacity(stats, 0.5);
  for (const int op : order) {
    const double share =
        std::min(1.0, static_cast<double>(left) / static_cast<double>(stats.memory[op]));
    bound += share * stats.runtimes[op];
    if (share < 1) break;
    left -= stats.memory[op];
  }
  EXPECT_LE(outcome.plan->saved_runtime, bound + 1e-9);
  EXPECT_GE(outcome.plan->saved_runtime, bound * (1 - 1e-4));
}

TEST(PolicyPerModule, RefusesWhatUpstreamRefuses) {
  for (const double budget : {-0.1, 1.1, std::nan("")}) {
    const auto outcome = optimal_policy_per_module(upstream_example(), budget);
    ASSERT_FALSE(outcome);
    EXPECT_EQ(outcome.error().code, ErrorCode::kValue);
    EXPECT_THAT(outcome.error().message, HasSubstr("must be a float between 0 and 1. Got "));
  }
  SACStats stats = upstream_example();
  stats.memory.pop_back();
  EXPECT_EQ(optimal_policy_per_module(stats, 0.5).error().code, ErrorCode::kSchema);
  EXPECT_EQ(optimal_policy_per_module(stats_of({1, INT64_MAX}, {1, 1}), 0.5).error().code,
            ErrorCode::kOverflow);
  EXPECT_EQ(solve(stats_of({INT64_MAX}, {1}), 1).plan->saved_memory, INT64_MAX);
}

}  // namespace
}  // namespace plimsoll::checkpoint
