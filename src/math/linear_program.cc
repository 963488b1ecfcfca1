#include "math/linear_program.h"

#include <ClpSimplex.hpp>
#include <CoinPackedMatrix.hpp>
#include <algorithm>
#include <utility>

namespace plimsoll::math {
namespace {

// COIN's infinity is the largest double.
double to_coin(double bound) { return std::clamp(bound, -COIN_DBL_MAX, COIN_DBL_MAX); }

}  // namespace

struct LinearProgram::Solver {
  ClpSimplex clp;
};

LinearProgram::LinearProgram(const MilpProblem& problem) : solver_(std::make_unique<Solver>()) {
  std::vector<int> rows, columns;
  std::vector<double> coefficients, row_lower, row_upper;
  for (const MilpRow& row : problem.rows) {
    for (const MilpTerm& term : row.terms) {
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
  ClpSimplex& clp = solver_->clp;
  clp.setLogLevel(0);
  clp.loadProblem(matrix, lower.data(), upper.data(), cost.data(), row_lower.data(),
                  row_upper.data());
}

LinearProgram::~LinearProgram() = default;
LinearProgram::LinearProgram(LinearProgram&&) noexcept = default;
LinearProgram& LinearProgram::operator=(LinearProgram&&) noexcept = default;

void LinearProgram::set_bounds(int column, double lower, double upper) {
  solver_->clp.setColumnBounds(column, to_coin(lower), to_coin(upper));
}

std::int64_t LinearProgram::solve(std::int64_t max_iterations) {
  ClpSimplex& clp = solver_->clp;
  clp.setMaximumIterations(static_cast<int>(std::min<std::int64_t>(max_iterations, 1 << 30)));
  clp.dual();
  return clp.numberIterations();
}

bool LinearProgram::is_optimal() const { return solver_->clp.isProvenOptimal(); }
double LinearProgram::x(int column) const { return solver_->clp.getColSolution()[column]; }
double LinearProgram::price(int row) const { return solver_->clp.getRowPrice()[row]; }

}  // namespace plimsoll::math
