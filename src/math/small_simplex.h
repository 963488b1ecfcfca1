// A linear program with few rows whose columns arrive one by one: the master of a column
// generation.
//
// Problem. minimise sum of cost_j x_j so that every row is a_i x >= rhs_i or a_i x <= rhs_i, 0 <=
// x_j <= upper_j. A row a_i x >= rhs_i may be missed at `penalty` a unit, so that there always is a
// solution. Method. Primal simplex with bounds on the variables and a dense inverse of the basis,
// which is kept from one call to the next; the column of the least reduced cost enters, after a run
// of pivots without gain the first one that may (Bland's rule). The inverse is computed afresh
// every 64 pivots. Cost. O(rows^2 + entries of all columns) a pivot, O(rows^2) memory. Promises.
// Deterministic; ties go to the column that came first. Not promised: exact arithmetic; what a
// bound takes from the prices must be valid at any prices.
// [1] V. Chvatal, "Linear Programming", Freeman, 1983, ISBN 0-7167-1587-2, chapters 7 and 8.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "plimsoll/core/numbers.h"

namespace plimsoll::math {

struct SimplexRow {
  double rhs = 0;           // >= 0
  bool is_at_least = true;  // else at most
  double penalty = 0;       // > 0, a unit missed of a row at least
};

struct SimplexEntry {
  int row = 0;
  double value = 0;
};

class SmallSimplex {
 public:
  explicit SmallSimplex(std::vector<SimplexRow> rows);

  // The column's number, from 0 on. At most one entry a row.
  int add_column(double cost, std::vector<SimplexEntry> entries, double upper = kInfinity);

  // To the optimum of the present columns, or `max_pivots` pivots, or a column without end; returns
  // the pivots made.
  std::int64_t solve(std::int64_t max_pivots = 1 << 20);

  // Of the last solve().
  double value() const;                                          // penalties included
  double missed() const;                                         // of all rows together
  double x(int column) const;                                    // of column add_column returned
  const std::vector<double>& prices() const { return prices_; }  // [rows] what a unit of rhs costs
  int num_rows() const { return static_cast<int>(rows_.size()); }

 private:
  enum class At { kLower, kUpper, kBasis };
  struct Column {
    double cost = 0;
    double upper = kInfinity;
    std::vector<SimplexEntry> entries;
    At at = At::kLower;
  };

  double& inverse(int row, int column) {
    return inverse_[static_cast<std::size_t>(row) * rows_.size() + column];
  }
  void find_prices();
  double reduced_cost(const Column& column) const;
  void refactor();
  bool pivot(int entering, double reduced);

  std::vector<SimplexRow> rows_;
  std::vector<Column> columns_;  // first one slack and, of rows at least, one penalty column a row
  int first_own_ = 0;            // of add_column
  std::vector<int> basis_;       // [rows]
  std::vector<double> inverse_;  // [rows * rows] of the basis
  std::vector<double> basic_;    // [rows] values
  std::vector<double> prices_;   // [rows]
  std::vector<double> direction_;
  int pivots_since_refactor_ = 0;
  bool has_gained_ = false;
};

}  // namespace plimsoll::math
