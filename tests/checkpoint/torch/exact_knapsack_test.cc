#include "checkpoint/torch/exact_knapsack.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "checkpoint/random_knapsack.h"

namespace plimsoll::checkpoint {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

SearchOptions options_of(std::int64_t effort) {
  SearchOptions options;
  options.effort = effort;
  options.tolerance = 0;
  return options;
}

KnapsackChoice solve(const KnapsackProblem& problem) {
  const auto outcome = exact_knapsack(problem);
  EXPECT_TRUE(outcome.has_value());
  EXPECT_TRUE(outcome->plan.has_value());
  return outcome->plan.value_or(KnapsackChoice{});
}

// By ratio the first candidate leads, and it keeps the better pair out:
//
//   memory   [===== 0 =====]            runtime 7, 1.17 a unit
//            [==== 1 ===]               runtime 5.5, 1.1 a unit
//            [==== 2 ===]               runtime 5.5
//   budget   [------------------- 10 ------]
TEST(ExactKnapsack, TakesThePairThatTheGreedyRuleMisses) {
  const KnapsackChoice choice = solve({{6, 5, 5}, {7, 5.5, 5.5}, 10});
  EXPECT_EQ(choice.saved_runtime, 11);
  EXPECT_THAT(choice.saved, ElementsAre(1, 2));
  EXPECT_THAT(choice.recomputed, ElementsAre(0));
}

TEST(ExactKnapsack, EqualsTheBestOfAllSetsAndIsNeverOverBudget) {
  for (std::uint64_t seed = 0; seed < 4000; ++seed) {
    SCOPED_TRACE(seed);
    const KnapsackProblem problem = random_knapsack(seed);
    const auto outcome = exact_knapsack(problem);
    ASSERT_TRUE(outcome.has_value());
    EXPECT_EQ(outcome->status, SolveStatus::kOptimal);
    EXPECT_EQ(outcome->stop, StopReason::kFinished);
    const KnapsackChoice& choice = *outcome->plan;
    EXPECT_TRUE(parts_all(problem, choice));
    EXPECT_EQ(choice.saved_runtime, try_every_set(problem).runtime);
    EXPECT_LE(memory_of(problem, choice), problem.max_memory);
    EXPECT_EQ(outcome->certificate.objective, *outcome->certificate.lower_bound);
  }
}

TEST(ExactKnapsack, FillsTheBudgetToTheLastBit) {
  for (std::uint64_t seed = 0; seed < 500; ++seed) {
    SCOPED_TRACE(seed);
    KnapsackProblem problem = random_knapsack(seed);
    if (problem.memory.empty()) continue;
    problem.runtimes = problem.memory;
    problem.max_memory = 0;
    for (std::size_t i = 0; i < problem.memory.size(); i += 2) {
      problem.max_memory += problem.memory[i];
    }
    EXPECT_EQ(memory_of(problem, solve(problem)), problem.max_memory);
  }
}

// Doubles would say 1 + 2^-60 <= 1, and 0.1 + 0.2 > 0.30000000000000004 is false in them.
TEST(ExactKnapsack, AddsMemoryWithoutRounding) {
  EXPECT_THAT(solve({{1, 0x1p-60}, {2, 1}, 1}).saved, ElementsAre(0));
  EXPECT_THAT(solve({{1, 0x1p-300}, {2, 1}, 1}).saved, ElementsAre(0));
  EXPECT_THAT(solve({{1, 0x1p-60}, {2, 1}, 1 + 0x1p-52}).saved, ElementsAre(0, 1));
  EXPECT_THAT(solve({{0.1, 0.2}, {1, 1}, 0.3}).saved.size(), 1);
  EXPECT_THAT(solve({{0.1, 0.2}, {1, 1}, 0.30000000000000004}).saved.size(), 2);
  // 5e-5 rounds to no step of 1e-4 and 2.5 steps to 2: with steps all three fit.
  EXPECT_THAT(solve({{5e-5, 1.5e-4, 2.5e-4}, {1, 1, 1}, 3e-4}).saved.size(), 2);
}

TEST(ExactKnapsack, SeesTheLastOfAMillionMillionFlops) {
  const KnapsackChoice choice = solve({{.5, .25, .25}, {1e12, 1, 1}, 1});
  EXPECT_THAT(choice.saved, ElementsAre(0, 1, 2));
  EXPECT_EQ(choice.saved_runtime, 1e12 + 2);
}

TEST(ExactKnapsack, SavesWhatIsFreeAndNothingWithoutRuntime) {
  const KnapsackChoice choice = solve({{0, 0, 1, 2}, {3, 0, 0, 4}, 0});
  EXPECT_THAT(choice.saved, ElementsAre(0));
  EXPECT_THAT(choice.recomputed, ElementsAre(1, 2, 3));
  EXPECT_THAT(solve({{0, 0, 1, 2}, {3, 0, 0, 4}, 9}).saved, ElementsAre(0, 3));
  EXPECT_THAT(solve({{}, {}, 1}).saved, IsEmpty());
}

TEST(ExactKnapsack, BoundsTheOptimumWhereverItIsStopped) {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    const KnapsackProblem problem = random_knapsack(seed);
    const double total = std::accumulate(problem.runtimes.begin(), problem.runtimes.end(), 0.0);
    const double optimum = total - try_every_set(problem).runtime;
    for (std::int64_t effort : {0, 1, 2, 5, 10, 20, 40}) {
      SCOPED_TRACE(testing::Message() << seed << " " << effort);
      const auto outcome = exact_knapsack(problem, options_of(effort));
      ASSERT_TRUE(outcome.has_value());
      EXPECT_LE(*outcome->certificate.lower_bound, optimum);
      EXPECT_GE(outcome->certificate.objective, optimum);
      EXPECT_EQ(outcome->certificate.objective, total - outcome->plan->saved_runtime);
      EXPECT_LE(memory_of(problem, *outcome->plan), problem.max_memory);
      if (outcome->stop == StopReason::kFinished) {
        EXPECT_EQ(outcome->status, SolveStatus::kOptimal);
      }
    }
  }
}

KnapsackProblem large(std::size_t n, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  KnapsackProblem problem;
  double total = 0;
  for (std::size_t i = 0; i < n; ++i) {
    problem.memory.push_back(static_cast<double>(1 + random() % 1000));
    problem.runtimes.push_back(static_cast<double>(1 + random() % 1000));
    total += problem.memory.back();
  }
  problem.max_memory = total / 2;
  return problem;
}

TEST(ExactKnapsack, StopsAtTheEffortTheClockAndACancel) {
  const KnapsackProblem problem = large(60, 1);
  EXPECT_EQ(exact_knapsack(problem, options_of(1))->stop, StopReason::kEffort);
  RunContext late;
  late.deadline = std::chrono::steady_clock::time_point::min();
  EXPECT_EQ(exact_knapsack(problem, {}, late)->stop, StopReason::kDeadline);
  const std::atomic<bool> is_cancelled = true;
  RunContext cancelled;
  cancelled.cancel = &is_cancelled;
  const auto outcome = exact_knapsack(problem, options_of(-1), cancelled);
  EXPECT_EQ(outcome->stop, StopReason::kCancelled);
  EXPECT_EQ(outcome->status, SolveStatus::kFeasible);
  EXPECT_TRUE(outcome->plan.has_value());
}

// Neither rule changes a value; without either the same effort no longer suffices.
TEST(ExactKnapsack, NeedsBothOfItsRulesForSpeedAlone) {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(seed);
    const KnapsackProblem problem = random_knapsack(seed);
    const double value = solve(problem).saved_runtime;
    for (const KnapsackPruning& pruning :
         {KnapsackPruning{false, true}, {true, false}, {false, false}}) {
      EXPECT_EQ(exact_knapsack(problem, {}, {}, pruning)->plan->saved_runtime, value);
    }
  }
  // Runtimes that follow memory make the relaxation loose: 1002 sets with both rules, 1894 without
  // dominance, 7914 without the relaxation.
  KnapsackProblem problem = large(30, 3);
  for (std::size_t i = 0; i < problem.memory.size(); ++i) {
    problem.runtimes[i] = problem.memory[i] + 50;
  }
  const SearchOptions options = options_of(1500);
  EXPECT_EQ(exact_knapsack(problem, options)->stop, StopReason::kFinished);
  EXPECT_EQ(exact_knapsack(problem, options, {}, {.by_dominance = false})->stop,
            StopReason::kEffort);
  EXPECT_EQ(exact_knapsack(problem, options, {}, {.by_relaxation = false})->stop,
            StopReason::kEffort);
}

TEST(ExactKnapsack, KeepsItsValueWhenCandidatesAreRenumberedOrScaled) {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(seed);
    const KnapsackProblem problem = random_knapsack(seed);
    const KnapsackChoice choice = solve(problem);
    EXPECT_EQ(solve(problem), choice);
    KnapsackProblem other = problem;
    std::reverse(other.memory.begin(), other.memory.end());
    std::reverse(other.runtimes.begin(), other.runtimes.end());
    EXPECT_EQ(solve(other).saved_runtime, choice.saved_runtime);
    for (double& memory : other.memory) memory *= 1024;
    other.max_memory *= 1024;
    for (double& runtime : other.runtimes) runtime *= 0.5;
    EXPECT_EQ(solve(other).saved_runtime, choice.saved_runtime * 0.5);
    KnapsackProblem more = problem;
    more.max_memory *= 1.25;
    EXPECT_GE(solve(more).saved_runtime, choice.saved_runtime);
  }
}

TEST(ExactKnapsack, RefusesFiguresThatMakeNoSense) {
  EXPECT_EQ(exact_knapsack({{1}, {}, 1}).error().code, ErrorCode::kSchema);
  EXPECT_EQ(exact_knapsack({{-1}, {1}, 1}).error().place, "memory");
  EXPECT_EQ(exact_knapsack({{1}, {std::nan("")}, 1}).error().place, "runtimes");
  EXPECT_EQ(exact_knapsack({{1}, {1}, -1}).error().place, "max_memory");
  EXPECT_EQ(exact_knapsack({{1}, {1}, INFINITY}).error().code, ErrorCode::kValue);
}

}  // namespace
}  // namespace plimsoll::checkpoint
