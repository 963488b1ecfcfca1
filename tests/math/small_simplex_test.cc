#include "math/small_simplex.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "math/milp.h"
#include "math/random_functions.h"

namespace plimsoll::math {
namespace {

struct TestColumn {
  double cost = 0;
  std::vector<SimplexEntry> entries;
  double upper = kInfinity;
};

// A program and the same columns kept beside it.
struct Program {
  explicit Program(std::vector<SimplexRow> given) : rows(given), simplex(std::move(given)) {}

  int add(double cost, const std::vector<SimplexEntry>& entries, double upper = kInfinity) {
    columns.push_back({cost, entries, upper});
    return simplex.add_column(cost, entries, upper);
  }

  std::vector<SimplexRow> rows;
  std::vector<TestColumn> columns;
  SmallSimplex simplex;
};

// What Cbc finds, with a column of its own for what each row at least misses.
double optimum_of(const Program& program) {
  MilpProblem problem;
  std::vector<MilpRow> rows(program.rows.size());
  for (const TestColumn& column : program.columns) {
    const int number = problem.add_column(0, column.upper, column.cost);
    for (const SimplexEntry& entry : column.entries) {
      rows[entry.row].terms.push_back({number, entry.value});
    }
  }
  for (std::size_t row = 0; row < rows.size(); ++row) {
    const SimplexRow& given = program.rows[row];
    if (given.is_at_least) {
      rows[row].terms.push_back({problem.add_column(0, kInfinity, given.penalty), 1});
      problem.add_row(given.rhs, rows[row].terms, kInfinity);
    } else {
      problem.add_row(-kInfinity, rows[row].terms, given.rhs);
    }
  }
  const auto outcome = solve_milp(problem);
  if (!outcome || outcome->status != SolveStatus::kOptimal) return std::nan("");
  return outcome->objective;
}

// The amounts keep the rows and cost what value() says; the prices prove that nothing costs less.
void expect_proved(const Program& program) {
  const SmallSimplex& simplex = program.simplex;
  const double tolerance = 1e-7 * std::max(1.0, std::abs(simplex.value()));
  std::vector<double> sums(program.rows.size(), 0);
  double cost = 0;
  double dual = 0;
  for (std::size_t j = 0; j < program.columns.size(); ++j) {
    const TestColumn& column = program.columns[j];
    const double x = simplex.x(static_cast<int>(j));
    EXPECT_GE(x, 0);
    EXPECT_LE(x, column.upper + tolerance);
    cost += column.cost * x;
    double reduced = column.cost;
    for (const SimplexEntry& entry : column.entries) {
      sums[entry.row] += entry.value * x;
      reduced -= simplex.prices()[entry.row] * entry.value;
    }
    if (column.upper == kInfinity) {
      EXPECT_GE(reduced, -tolerance) << "column " << j;
    } else {
      dual += column.upper * std::min(0.0, reduced);
    }
  }
  double missed = 0;
  for (std::size_t row = 0; row < program.rows.size(); ++row) {
    const SimplexRow& given = program.rows[row];
    const double price = simplex.prices()[row];
    dual += price * given.rhs;
    if (given.is_at_least) {
      EXPECT_GE(price, -tolerance);
      EXPECT_LE(price, given.penalty + tolerance);
      missed += std::max(0.0, given.rhs - sums[row]);
      cost += given.penalty * std::max(0.0, given.rhs - sums[row]);
    } else {
      EXPECT_LE(price, tolerance);
      EXPECT_LE(sums[row], given.rhs + tolerance);
    }
  }
  EXPECT_NEAR(cost, simplex.value(), tolerance);
  EXPECT_NEAR(dual, simplex.value(), tolerance);
  EXPECT_NEAR(missed, simplex.missed(), tolerance);
}

double eighths(Random& random, std::int64_t low, std::int64_t high) {
  return .125 * static_cast<double>(random.whole(low, high));
}

std::vector<SimplexRow> random_rows(Random& random, int num_rows) {
  std::vector<SimplexRow> rows;
  for (int row = 0; row < num_rows; ++row) {
    const bool is_zero = random.whole(0, 3) == 0;
    rows.push_back(
        {is_zero ? 0 : eighths(random, 1, 60), random.whole(0, 2) > 0, eighths(random, 1, 200)});
  }
  return rows;
}

// Of small numbers, so that there are ties; one that costs less than nothing has an upper bound.
TestColumn random_column(Random& random, int num_rows) {
  TestColumn column;
  column.cost = eighths(random, -8, 60);
  if (column.cost < 0 || random.whole(0, 2) > 0) column.upper = eighths(random, 0, 12);
  for (int row = 0; row < num_rows; ++row) {
    if (random.whole(0, 1) == 0) continue;
    const auto value = static_cast<double>(random.whole(-2, 5));
    if (value != 0) column.entries.push_back({row, value});
  }
  return column;
}

TEST(SmallSimplex, FindsTheOptimumOfCbcAsColumnsArrive) {
  int num_missed = 0;
  int num_met = 0;
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    const auto num_rows = static_cast<int>(random.whole(1, 7));
    Program program(random_rows(random, num_rows));
    for (int j = 0; j < 24; ++j) {
      SCOPED_TRACE(j);
      TestColumn column = random_column(random, num_rows);
      if (j > 0 && random.whole(0, 4) == 0) {  // equal columns
        column = program.columns[static_cast<std::size_t>(random.whole(0, j - 1))];
      }
      EXPECT_EQ(program.add(column.cost, column.entries, column.upper), j);
      program.simplex.solve();
      expect_proved(program);
      if (j % 4 != 3) continue;
      const double optimum = optimum_of(program);
      EXPECT_NEAR(program.simplex.value(), optimum, 1e-7 * std::max(1.0, std::abs(optimum)));
      (program.simplex.missed() > 1e-6 ? num_missed : num_met) += 1;
    }
  }
  EXPECT_GT(num_missed, 50);
  EXPECT_GT(num_met, 50);
}

// After every 64 pivots, with columns at their upper bounds.
TEST(SmallSimplex, StaysExactWhereTheInverseIsComputedAfresh) {
  for (std::uint64_t seed = 0; seed < 6; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed + 1000);
    const int num_rows = 20;
    Program program(random_rows(random, num_rows));
    std::int64_t num_pivots = 0;
    for (int j = 0; j < 400; ++j) {
      const TestColumn column = random_column(random, num_rows);
      program.add(column.cost, column.entries, column.upper);
      if (j % 10 == 9) num_pivots += program.simplex.solve();
    }
    EXPECT_GT(num_pivots, 128);
    expect_proved(program);
    const double optimum = optimum_of(program);
    EXPECT_NEAR(program.simplex.value(), optimum, 1e-7 * std::max(1.0, std::abs(optimum)));
  }
}

// One pivot a call, or all at once: the same last basis.
TEST(SmallSimplex, StopsAfterTheGivenPivotsAndGoesOn) {
  Random random(7);
  const std::vector<SimplexRow> rows = random_rows(random, 8);
  Program once(rows), by_steps(rows);
  for (int j = 0; j < 40; ++j) {
    const TestColumn column = random_column(random, 8);
    once.add(column.cost, column.entries, column.upper);
    by_steps.add(column.cost, column.entries, column.upper);
  }
  const std::int64_t num_pivots = once.simplex.solve();
  ASSERT_GT(num_pivots, 5);
  EXPECT_EQ(by_steps.simplex.solve(0), 0);
  double last = by_steps.simplex.value();
  for (std::int64_t i = 0; i < num_pivots; ++i) {
    EXPECT_EQ(by_steps.simplex.solve(1), 1);
    EXPECT_LE(by_steps.simplex.value(), last + 1e-9);
    last = by_steps.simplex.value();
  }
  EXPECT_EQ(by_steps.simplex.solve(), 0);
  EXPECT_EQ(by_steps.simplex.value(), once.simplex.value());
  EXPECT_EQ(by_steps.simplex.prices(), once.simplex.prices());
}

TEST(SmallSimplex, PaysForWhatNoColumnGives) {
  Program program({{3, true, 10}, {2, true, 7}, {5, false, 0}});
  EXPECT_EQ(program.simplex.solve(), 0);
  EXPECT_EQ(program.simplex.value(), 3 * 10 + 2 * 7);
  EXPECT_EQ(program.simplex.missed(), 5);
  // 5 of what is at most 5 give 2.5 of the first row; the second one still has nothing.
  program.add(1, {{0, 0.5}, {2, 1}});
  program.simplex.solve();
  EXPECT_NEAR(program.simplex.x(0), 5, 1e-12);
  EXPECT_NEAR(program.simplex.missed(), 0.5 + 2, 1e-12);
  EXPECT_NEAR(program.simplex.value(), 5 + 0.5 * 10 + 2 * 7, 1e-12);
  // A unit of the last row saves half a penalty less its cost, one of the second row a penalty.
  EXPECT_NEAR(program.simplex.prices()[0], 10, 1e-12);
  EXPECT_NEAR(program.simplex.prices()[1], 7, 1e-12);
  EXPECT_NEAR(program.simplex.prices()[2], 1 - 0.5 * 10, 1e-12);
  expect_proved(program);
}

TEST(SmallSimplex, MissesARowThatIsDearerThanItsPenalty) {
  Program program({{4, true, 3}});
  program.add(3.5, {{0, 1}});
  program.simplex.solve();
  EXPECT_EQ(program.simplex.x(0), 0);
  EXPECT_EQ(program.simplex.missed(), 4);
  program.add(2.5, {{0, 1}});
  program.simplex.solve();
  EXPECT_EQ(program.simplex.x(1), 4);
  EXPECT_EQ(program.simplex.missed(), 0);
  EXPECT_EQ(program.simplex.value(), 10);
}

TEST(SmallSimplex, TakesTheCheapestFirstUpToTheirBounds) {
  Program program({{6, true, 100}});
  const int dear = program.add(5, {{0, 1}});
  const int middle = program.add(2, {{0, 1}}, 3);
  const int none = program.add(0.5, {{0, 1}}, 0);
  const int cheap = program.add(1, {{0, 1}}, 2);
  program.simplex.solve();
  EXPECT_EQ(program.simplex.x(cheap), 2);
  EXPECT_EQ(program.simplex.x(middle), 3);
  EXPECT_EQ(program.simplex.x(dear), 1);
  EXPECT_EQ(program.simplex.x(none), 0);
  EXPECT_EQ(program.simplex.value(), 2 * 1 + 3 * 2 + 1 * 5);
  EXPECT_EQ(program.simplex.prices()[0], 5);
  // One that comes later takes the place of the dear one, and the middle one leaves its bound.
  const int later = program.add(1.5, {{0, 1}}, 3.5);
  program.simplex.solve();
  EXPECT_EQ(program.simplex.x(cheap), 2);
  EXPECT_EQ(program.simplex.x(later), 3.5);
  EXPECT_EQ(program.simplex.x(middle), 0.5);
  EXPECT_EQ(program.simplex.x(dear), 0);
  expect_proved(program);
}

TEST(SmallSimplex, TakesTheFirstOfEqualColumns) {
  Program program({{2, true, 9}, {0, true, 9}});
  for (int copy = 0; copy < 3; ++copy) program.add(1, {{0, 1}, {1, 1}});
  program.simplex.solve();
  EXPECT_EQ(program.simplex.x(0), 2);
  EXPECT_EQ(program.simplex.x(1), 0);
  EXPECT_EQ(program.simplex.x(2), 0);
  EXPECT_EQ(program.simplex.value(), 2);
}

// Beale's program, on which the rule of the least reduced cost alone may turn in circles.
TEST(SmallSimplex, EndsWhereEveryPivotIsDegenerate) {
  Program program({{0, false, 0}, {0, false, 0}, {1, false, 0}});
  program.add(-0.75, {{0, 0.25}, {1, 0.5}});
  program.add(20, {{0, -8}, {1, -12}});
  program.add(-0.5, {{0, -1}, {1, -0.5}, {2, 1}});
  program.add(6, {{0, 9}, {1, 3}});
  EXPECT_LT(program.simplex.solve(), 1000);
  EXPECT_NEAR(program.simplex.value(), -1.25, 1e-9);
  expect_proved(program);
}

TEST(SmallSimplex, StopsAtAColumnWithoutEnd) {
  Program program({{1, true, 5}});
  program.add(-1, {{0, 1}});
  EXPECT_LT(program.simplex.solve(), 10);
  EXPECT_EQ(program.simplex.missed(), 0);
}

}  // namespace
}  // namespace plimsoll::math
