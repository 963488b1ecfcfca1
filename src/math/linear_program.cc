#include "math/linear_program.h"

#include <ClpSimplex.hpp>
#include <algorithm>

#include "math/coin_program.h"

namespace plimsoll::math {

struct LinearProgram::Solver {
  ClpSimplex clp;
};

LinearProgram::LinearProgram(const MilpProblem& problem) : solver_(std::make_unique<Solver>()) {
  solver_->clp.setLogLevel(0);
  load_program(problem, solver_->clp);
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
