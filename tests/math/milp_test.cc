#include "math/milp.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>

namespace plimsoll::math {
namespace {

using ::testing::DoubleNear;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

MilpOutcome solve(const MilpProblem& problem, const MilpOptions& options = {}) {
  const auto outcome = solve_milp(problem, options);
  EXPECT_TRUE(outcome) << format_error(outcome.error());
  return outcome.value_or(MilpOutcome{});
}

//   x + y <= 1.5, x <= 1: as far as x + 2 y goes, whole numbers or not
//
//   y
//   1 *---o          * (0, 1) the best whole point
//     | \ |          o (0.5, 1) the best of all
//   0 +---+--- x
MilpProblem corner(bool is_integer) {
  MilpProblem problem;
  const int x = problem.add_column(0, 1, -1, is_integer);
  const int y = problem.add_column(0, 1, -2, is_integer);
  problem.add_row(-kInfinity, {{x, 1}, {y, 1}}, 1.5);
  return problem;
}

TEST(Milp, FindsTheBestCornerAndTheBestWholePoint) {
  const MilpOutcome relaxed = solve(corner(false));
  EXPECT_EQ(relaxed.status, SolveStatus::kOptimal);
  EXPECT_THAT(relaxed.values, ElementsAre(DoubleNear(0.5, 1e-9), DoubleNear(1, 1e-9)));
  EXPECT_NEAR(relaxed.objective, -2.5, 1e-9);

  const MilpOutcome whole = solve(corner(true));
  EXPECT_EQ(whole.status, SolveStatus::kOptimal);
  EXPECT_THAT(whole.values, ElementsAre(0, 1));
  EXPECT_EQ(whole.objective, -2);
  EXPECT_EQ(whole.lower_bound, -2);
  EXPECT_EQ(whole.stop, StopReason::kFinished);
}

TEST(Milp, TakesEqualitiesRangesAndNegativeBounds) {
  MilpProblem problem;
  const int x = problem.add_column(-kInfinity, kInfinity, 1);
  const int y = problem.add_column(-3, 3, 0, true);
  problem.add_row(0.5, {{x, 1}, {y, -1}}, 0.5);  // x = y + 0.5
  problem.add_row(-1.25, {{x, 1}}, kInfinity);   // y >= -1.75
  EXPECT_THAT(solve(problem).values, ElementsAre(DoubleNear(-0.5, 1e-9), -1));
}

TEST(Milp, ProvesThatNothingFits) {
  MilpProblem relaxed = corner(false);
  relaxed.add_row(1.75, {{0, 1}, {1, 1}}, kInfinity);
  EXPECT_EQ(solve(relaxed).status, SolveStatus::kInfeasible);
  EXPECT_THAT(solve(relaxed).values, IsEmpty());

  MilpProblem whole = corner(true);  // only halves fit
  whole.add_row(0.4, {{0, 1}}, 0.6);
  EXPECT_EQ(solve(whole).status, SolveStatus::kInfeasible);

  MilpProblem between;
  between.add_column(0.4, 0.6, 1, true);
  EXPECT_EQ(solve(between).status, SolveStatus::kInfeasible);

  MilpProblem nothing;
  nothing.add_row(1, {}, 2);
  EXPECT_EQ(solve(nothing).status, SolveStatus::kInfeasible);
  EXPECT_EQ(solve(MilpProblem{}).status, SolveStatus::kOptimal);
}

TEST(Milp, RefusesWhatIsNoProblem) {
  const double nan = std::nan("");
  MilpProblem unbounded;
  unbounded.add_column(0, kInfinity, -1);
  const auto no_bound = solve_milp(unbounded);
  ASSERT_FALSE(no_bound);
  EXPECT_EQ(no_bound.error().code, ErrorCode::kConflict);

  MilpProblem problem = corner(true);
  problem.columns[1].cost = nan;
  EXPECT_THAT(format_error(solve_milp(problem).error()), HasSubstr("column 1: the cost is nan"));
  problem = corner(true);
  problem.columns[0].lower = 2;
  EXPECT_THAT(format_error(solve_milp(problem).error()), HasSubstr("column 0: the bounds"));
  problem = corner(true);
  problem.rows[0].terms[1].coefficient = kInfinity;
  EXPECT_THAT(format_error(solve_milp(problem).error()), HasSubstr("row 0: the coefficient"));
  problem = corner(true);
  problem.rows[0].upper = nan;
  EXPECT_THAT(format_error(solve_milp(problem).error()), HasSubstr("row 0: the bounds"));
  problem = corner(true);
  problem.add_row(0, {{2, 1}}, 1);
  EXPECT_THAT(format_error(solve_milp(problem).error()), HasSubstr("row 1: column 2 is none of 2"));
  problem = corner(true);
  problem.add_row(0, {{0, 1}, {0, 1}}, 1);
  EXPECT_THAT(format_error(solve_milp(problem).error()), HasSubstr("occurs twice"));
  EXPECT_FALSE(solve_milp(corner(true), {.relative_gap = -1}));
  EXPECT_FALSE(solve_milp(corner(true), {.relative_gap = nan}));
  EXPECT_FALSE(solve_milp(corner(true), {.time_limit_s = 0}));
  EXPECT_FALSE(solve_milp(corner(true), {.max_nodes = 0}));
}

// A small generator of our own: 32 bits of a linear congruence.
struct Random {
  std::uint64_t state;
  int below(int limit) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return static_cast<int>((state >> 33) % static_cast<std::uint64_t>(limit));
  }
};

// Binary columns, rows of every kind, small whole coefficients.
MilpProblem random_problem(int seed, int num_columns, int num_rows) {
  Random random{static_cast<std::uint64_t>(seed) * 977 + 5};
  MilpProblem problem;
  for (int j = 0; j < num_columns; ++j) problem.add_binary(random.below(41) - 20);
  for (int i = 0; i < num_rows; ++i) {
    std::vector<MilpTerm> terms;
    for (int j = 0; j < num_columns; ++j) {
      if (random.below(3) > 0) terms.push_back({j, static_cast<double>(random.below(19) - 6)});
    }
    const double middle = random.below(12);
    const int sense = random.below(3);
    problem.add_row(sense == 0 ? -kInfinity : middle, std::move(terms),
                    sense == 1 ? kInfinity : middle + 5);
  }
  return problem;
}

// The least objective over all 2^n points; nothing where none fits.
std::optional<double> brute_force(const MilpProblem& problem) {
  std::optional<double> best;
  const auto n = problem.columns.size();
  for (unsigned bits = 0; bits < 1u << n; ++bits) {
    bool fits = true;
    for (const MilpRow& row : problem.rows) {
      double sum = 0;
      for (const MilpTerm& term : row.terms) sum += (bits >> term.column & 1) * term.coefficient;
      fits &= row.lower <= sum && sum <= row.upper;
    }
    if (!fits) continue;
    double objective = 0;
    for (std::size_t j = 0; j < n; ++j) objective += (bits >> j & 1) * problem.columns[j].cost;
    best = std::min(best.value_or(objective), objective);
  }
  return best;
}

TEST(Milp, AgreesWithBruteForceAndRepeatsItself) {
  int num_infeasible = 0;
  for (int seed = 0; seed < 600; ++seed) {
    SCOPED_TRACE(seed);
    const MilpProblem problem = random_problem(seed, 3 + seed % 7, 1 + seed % 5);
    const auto best = brute_force(problem);
    const MilpOutcome outcome = solve(problem);
    num_infeasible += best ? 0 : 1;
    ASSERT_EQ(outcome.status, best ? SolveStatus::kOptimal : SolveStatus::kInfeasible);
    if (best) {
      EXPECT_EQ(outcome.objective, *best);
      EXPECT_LE(*outcome.lower_bound, *best + 1e-9);
      const MilpOutcome rough = solve(problem, {.relative_gap = 0.3});
      EXPECT_GE(rough.objective, *best);
      EXPECT_LE(*rough.lower_bound, *best + 1e-9);
    }
    if (seed % 40 == 0) {
      EXPECT_EQ(solve(problem), outcome);
    }
  }
  EXPECT_GT(num_infeasible, 50);
  EXPECT_LT(num_infeasible, 550);
}

// A knapsack of near-equal ratios takes more than one node; the limit leaves what was found.
TEST(Milp, StopsAtTheNodeLimitAndSaysSo) {
  Random random{11};
  MilpProblem problem;
  std::vector<MilpTerm> weights, volumes;
  for (int j = 0; j < 60; ++j) {
    const int weight = 1000 + random.below(500);
    problem.add_binary(-weight - 0.001 * random.below(1000));
    weights.push_back({j, static_cast<double>(weight)});
    volumes.push_back({j, static_cast<double>(100 + random.below(900))});
  }
  problem.add_row(-kInfinity, weights, 31234.5);
  problem.add_row(-kInfinity, volumes, 12345.5);
  const MilpOutcome cut = solve(problem, {.max_nodes = 1});
  ASSERT_EQ(cut.status, SolveStatus::kFeasible);
  EXPECT_EQ(cut.stop, StopReason::kEffort);
  EXPECT_LT(*cut.lower_bound, cut.objective);
  const MilpOutcome rough = solve(problem, {.relative_gap = 0.01});
  EXPECT_EQ(rough.status, SolveStatus::kOptimal);
  EXPECT_GE(*rough.lower_bound, rough.objective * 1.0101);
}

// Stopped at any iteration of a linear program, or node, it says so, and nothing that is not so:
// Cbc alone calls some of these programs infeasible, and others optimal too early.
TEST(Milp, ProvesNothingFalseWhereverItIsStopped) {
  int num_points = 0, num_none = 0, num_decided = 0;
  for (int seed = 0; seed < 40; ++seed) {
    const MilpProblem problem = random_problem(seed, 9, 1 + seed % 4);
    const auto best = brute_force(problem);
    bool is_whole = false;
    for (int num_left = 0; !is_whole; num_left += 1 + num_left / 8) {
      SCOPED_TRACE(::testing::Message() << seed << ", stopped at " << num_left);
      int num_asked = 0;
      MilpOptions options;
      options.as_program = seed >= 30;
      options.find_stop = [&]() -> std::optional<StopReason> {
        if (num_asked++ < num_left) return std::nullopt;
        return StopReason::kCancelled;
      };
      const MilpOutcome outcome = solve(problem, options);
      is_whole = num_asked <= num_left;
      if (best) {
        EXPECT_LE(outcome.lower_bound.value_or(*best), *best + 1e-9);
      }
      if (outcome.status == SolveStatus::kInfeasible) {
        EXPECT_FALSE(best);
      } else if (outcome.status == SolveStatus::kOptimal) {
        EXPECT_EQ(outcome.objective, best);
      } else {
        EXPECT_FALSE(is_whole);
        EXPECT_EQ(outcome.stop, StopReason::kCancelled);
        EXPECT_EQ(outcome.values.empty(), outcome.status == SolveStatus::kLimit);
        (outcome.values.empty() ? num_none : num_points) += 1;
        continue;
      }
      ++num_decided;
    }
  }
  EXPECT_GT(num_points, 0);
  EXPECT_GT(num_none, 100);
  EXPECT_GE(num_decided, 30);
}

// A search stopped later has lost no point that one stopped earlier had, and none writes anything:
// Cbc has messages that no level keeps from stdout.
TEST(Milp, KeepsItsPointHoweverLateItIsStopped) {
  int num_points = 0;
  ::testing::internal::CaptureStdout();
  for (int seed = 0; seed < 12; ++seed) {
    const MilpProblem problem = random_problem(seed, 40, 8);
    bool has_point = false, is_whole = false;
    for (int num_left = 1; !is_whole && num_left < 20000; num_left += 1 + num_left / 3) {
      SCOPED_TRACE(::testing::Message() << seed << ", stopped at " << num_left);
      int num_asked = 0;
      MilpOptions options;
      options.as_program = true;
      options.find_stop = [&]() -> std::optional<StopReason> {
        if (num_asked++ < num_left) return std::nullopt;
        return StopReason::kCancelled;
      };
      const MilpOutcome outcome = solve(problem, options);
      is_whole = num_asked <= num_left;
      if (is_whole) break;
      EXPECT_FALSE(has_point && outcome.values.empty());
      has_point |= !outcome.values.empty();
      num_points += !outcome.values.empty();
    }
  }
  EXPECT_EQ(::testing::internal::GetCapturedStdout(), "");
  EXPECT_GT(num_points, 20);
}

}  // namespace
}  // namespace plimsoll::math
