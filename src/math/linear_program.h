// A linear program that is solved again and again while bounds of its columns change: the nodes of
// a branching. Clp's dual simplex [1] behind it, from the last basis.
//
// Problem. minimise sum of cost_j x_j so that lower_i <= a_i x <= upper_i and lower_j <= x_j <=
// upper_j. Promises. Silent; equal calls in equal order give equal numbers. Not promised: exact
// arithmetic; what a bound takes from the prices must be valid at any prices.
// [1] J. Forrest, R. Lougee-Heimer, "CBC user guide", INFORMS TutORials in Operations Research,
//     2005, https://doi.org/10.1287/educ.1053.0020.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "math/milp.h"

namespace plimsoll::math {

class LinearProgram {
 public:
  // Whether columns are integral does not matter. Precondition: a column at most once a row.
  explicit LinearProgram(const MilpProblem& problem);
  ~LinearProgram();
  LinearProgram(LinearProgram&&) noexcept;
  LinearProgram& operator=(LinearProgram&&) noexcept;

  void set_bounds(int column, double lower, double upper);

  // To the optimum, or `max_iterations`; returns the iterations made.
  std::int64_t solve(std::int64_t max_iterations);

  // Of the last solve().
  bool is_optimal() const;
  double x(int column) const;
  double price(int row) const;  // what a unit of the row's active side costs

 private:
  struct Solver;
  std::unique_ptr<Solver> solver_;
};

}  // namespace plimsoll::math
