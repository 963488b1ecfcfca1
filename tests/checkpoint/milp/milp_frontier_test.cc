// The frontier by mixed-integer programming against trying everything, in any order of return.
#include "checkpoint/milp/milp_frontier.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cmath>

#include "checkpoint/any_order.h"
#include "checkpoint/milp/milp_search.h"

namespace plimsoll::checkpoint {
namespace {

using math::Frontier;
using ::testing::Contains;
using ::testing::Field;
using ::testing::Not;

constexpr Bytes kLast = 175;  // no base of the small trees is above

Outcome<Frontier> frontier(const CheckpointProblem& problem,
                           const MilpFrontierOptions& options = {},
                           const RunContext& context = {}) {
  const auto outcome = plan_frontier_by_milp(problem, options, context);
  EXPECT_TRUE(outcome) << format_error(outcome.error());
  return outcome.value_or(Outcome<Frontier>{});
}

const auto kIsUnproved = Contains(Field(&Warning::code, "frontier_unproved"));

void expect_exact(const Outcome<Frontier>& found, const std::vector<double>& least) {
  ASSERT_EQ(found.status, SolveStatus::kOptimal);
  EXPECT_TRUE(found.plan->is_exact());
  EXPECT_THAT(found.warnings, Not(kIsUnproved));
  for (Bytes b = 0; b <= kLast; ++b) {
    EXPECT_NEAR(found.plan->ms_at(b).value_or(1e9), std::min(least[b], 1e9), 1e-5) << b;
  }
}

// R.b.x, below R.b, returns before R.a does.
//
//   position   0      1      2     3     4       R.a discards 30 at 1 ms a byte,
//   node       R.a.x  R.b.x  R.a   R.b   R       R.b discards 50 at 2 ms a byte
//   base       60     90     80    100   160
// From 90 to 130 R.b gives the last bytes, from there to 160 R.a alone: 30 + 2 (130 - B), 160 - B.
TEST(MilpFrontier, IsThatOfCrossingBlocks) {
  CheckpointProblem problem = bench::problem_over({-1, 0, 1, 0, 3});
  problem.tree.post_order = {2, 4, 1, 3, 0};
  problem.tree.position = {4, 2, 0, 3, 1};
  problem.tree.is_nested = false;
  problem.base = {160, 80, 60, 100, 90};
  for (const auto& [node, bytes, slope] : {std::tuple{1, 30, 1.0}, std::tuple{3, 50, 2.0}}) {
    CandidateUnit& unit = problem.units.emplace_back();
    unit.nodes = {node};
    unit.own_need = kNoNeed;
    unit.kept_inside = unit.sac_memory = bytes;
    unit.price.pieces = {{bytes, slope}};
  }
  const Outcome<Frontier> found = frontier(problem);
  ASSERT_EQ(found.status, SolveStatus::kOptimal);
  EXPECT_EQ(found.plan->upper(),
            (math::PiecewiseLinear{{90, 110, -2}, {130, 30, -1}, {160, 0, 0}}));
  EXPECT_THAT(found.warnings, testing::ElementsAre(Field(&Warning::code, "order_of_return")));
  EXPECT_EQ(plan_for_time_by_milp(problem, 50)->plan->figures.peak, 120);
  EXPECT_EQ(plan_for_time_by_milp(problem, 30)->plan->figures.peak, 130);
  EXPECT_EQ(plan_for_time_by_milp(problem, 0)->plan->figures.peak, 160);
  EXPECT_EQ(plan_for_time_by_milp(problem, -1)->status, SolveStatus::kInfeasible);
}

TEST(MilpFrontier, EqualsTryingEverythingInAnyOrder) {
  int num_shaped = 0;
  for (int seed = 0; seed < 400; ++seed) {
    SCOPED_TRACE(seed);
    const CheckpointProblem problem = scrambled(mixed_problem(seed, seed % 5 == 0), seed);
    const Outcome<Frontier> found = frontier(problem);
    expect_exact(found, least_times(problem, kLast));
    num_shaped += found.plan->num_breakpoints() > 3 ? 1 : 0;
  }
  EXPECT_GT(num_shaped, 80);
}

TEST(MilpFrontier, EqualsTheExactFrontierOnNestedTrees) {
  for (int seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(seed);
    const CheckpointProblem problem = mixed_problem(seed);
    const auto exact = plan_frontier(problem);
    const Outcome<Frontier> found = frontier(problem);
    ASSERT_EQ(found.plan->min_bytes(), exact->plan->min_bytes());
    for (Bytes b = found.plan->min_bytes(); b <= kLast; ++b) {
      EXPECT_NEAR(*found.plan->ms_at(b), *exact->plan->ms_at(b), 1e-5) << b;
    }
  }
}

TEST(MilpFrontier, SaysHowMuchIsProvedWhereItStops) {
  int num_open = 0;
  for (int seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(seed);
    const CheckpointProblem problem = scrambled(mixed_problem(seed), seed);
    const std::vector<double> least = least_times(problem, kLast);
    for (const int max_programs : {1, 2, 3, 5}) {
      const Outcome<Frontier> found = frontier(problem, {.max_programs = max_programs});
      ASSERT_TRUE(found.plan);
      for (Bytes b = found.plan->min_bytes(); b <= kLast; ++b) {
        EXPECT_GE(*found.plan->ms_at(b), least[b] - 1e-5) << b;
        EXPECT_LE(math::value_at(found.plan->lower(), b), least[b] + 1e-5) << b;
        EXPECT_LE(math::value_at(found.plan->lower(), b), *found.plan->ms_at(b)) << b;
      }
      if (found.status == SolveStatus::kOptimal) continue;
      ++num_open;
      EXPECT_EQ(found.stop, StopReason::kEffort);
      EXPECT_FALSE(found.plan->is_exact());
      EXPECT_THAT(found.warnings, kIsUnproved);
    }
  }
  EXPECT_GT(num_open, 60);
}

TEST(MilpFrontier, EndsWithTheClockAndWithACancel) {
  const CheckpointProblem problem = scrambled(mixed_problem(4), 4);
  std::atomic<bool> cancel = true;
  RunContext context;
  context.cancel = &cancel;
  const Outcome<Frontier> cancelled = frontier(problem, {}, context);
  EXPECT_EQ(cancelled.stop, StopReason::kCancelled);
  ASSERT_EQ(cancelled.status, SolveStatus::kFeasible);
  EXPECT_THAT(cancelled.warnings, Contains(Field(&Warning::code, "smallest_budget_unproved")));
  context.cancel = nullptr;
  context.deadline = std::chrono::steady_clock::now() - std::chrono::seconds(1);
  EXPECT_EQ(frontier(problem, {}, context).stop, StopReason::kDeadline);
}

TEST(MilpFrontier, KeepsWhatChoicesLeftOutCouldSave) {
  CheckpointProblem problem = scrambled(mixed_problem(3), 3);
  problem.units.front().loss_ms = 0.5;
  problem.thinned = {problem.units.front().nodes.front()};
  const Outcome<Frontier> whole = frontier(scrambled(mixed_problem(3), 3));
  const Outcome<Frontier> found = frontier(problem);
  ASSERT_EQ(found.status, SolveStatus::kFeasible);
  EXPECT_EQ(found.plan->upper(), whole.plan->upper());
  EXPECT_THAT(found.warnings, Contains(Field(&Warning::code, "choices_left_out")));
  const Bytes first = found.plan->min_bytes();
  EXPECT_NEAR(math::value_at(found.plan->lower(), first), *found.plan->ms_at(first) - 0.5, 1e-9);
}

TEST(MilpFrontier, FindsTheLeastMemoryOfATime) {
  for (int seed = 0; seed < 100; ++seed) {
    SCOPED_TRACE(seed);
    const CheckpointProblem problem = scrambled(mixed_problem(seed), seed);
    const std::vector<double> least = least_times(problem, kLast);
    for (const double ms : {0.0, 0.5, 2.0, 6.125, 1000.0}) {
      SCOPED_TRACE(ms);
      Bytes right = 0;
      while (least[right] > ms + 1e-9) ++right;
      const auto outcome = plan_for_time_by_milp(problem, ms);
      ASSERT_TRUE(outcome);
      ASSERT_EQ(outcome->status, SolveStatus::kOptimal);
      EXPECT_EQ(std::max<Bytes>(0, outcome->plan->figures.peak), right);
      EXPECT_LE(outcome->plan->figures.recompute_ms, ms + 1e-9);
      EXPECT_NEAR(outcome->plan->figures.recompute_ms, least[right], 1e-5);
      EXPECT_THAT(outcome->warnings, Not(Contains(Field(&Warning::code, "more_memory"))));
    }
  }
}

TEST(MilpFrontier, RefusesWhatItDoesNotKnow) {
  CheckpointProblem problem = scrambled(mixed_problem(4), 4);
  problem.model.nested_units = true;
  EXPECT_EQ(plan_frontier_by_milp(problem).error().place, "nested_units");
  EXPECT_EQ(plan_for_time_by_milp(problem, 1).error().place, "nested_units");
}

}  // namespace
}  // namespace plimsoll::checkpoint
