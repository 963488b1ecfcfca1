// A program in COIN-OR's form, for Clp's simplex and for Cbc's solver interface alike.
#pragma once

#include <CoinPackedMatrix.hpp>
#include <algorithm>
#include <vector>

#include "math/milp.h"

namespace plimsoll::math {

// COIN's infinity is the largest double.
inline double to_coin(double bound) { return std::clamp(bound, -COIN_DBL_MAX, COIN_DBL_MAX); }

// Loads columns, rows and costs; which columns are whole is left to the caller. `solver` has the
// loadProblem() of OsiSolverInterface. Precondition: a column at most once a row.
template <class Solver>
void load_program(const MilpProblem& problem, Solver& solver) {
  std::vector<int> rows, columns;
  std::vector<double> coefficients, row_lower, row_upper;
  for (const MilpRow& row : problem.rows) {
    for (const MilpTerm& term : row.terms) {
      if (term.coefficient == 0) continue;
      rows.push_back(static_cast<int>(row_lower.size()));
      columns.push_back(term.column);
      coefficients.push_back(term.coefficient);
    }
    row_lower.push_back(to_coin(row.lower));
    row_upper.push_back(to_coin(row.upper));
  }
  std::vector<double> lower, upper, cost;
  for (const MilpColumn& column : problem.columns) {
    lower.push_back(to_coin(column.lower));
    upper.push_back(to_coin(column.upper));
    cost.push_back(column.cost);
  }
  CoinPackedMatrix matrix(/*colordered=*/true, rows.data(), columns.data(), coefficients.data(),
                          static_cast<CoinBigIndex>(coefficients.size()));
  matrix.setDimensions(static_cast<int>(row_lower.size()), static_cast<int>(lower.size()));
  solver.loadProblem(matrix, lower.data(), upper.data(), cost.data(), row_lower.data(),
                     row_upper.data());
}

}  // namespace plimsoll::math
