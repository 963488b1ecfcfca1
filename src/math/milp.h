// Mixed-integer linear programs, solved in this process by COIN-OR's Cbc.
//
// Problem. minimise sum of cost_j x_j so that lower_i <= a_i x <= upper_i for every row and lower_j
// <= x_j <= upper_j for every column, some columns integral.
// Method. Cbc's branch and cut over Clp's simplex, with its default cuts and
// heuristics; every setting is given here, none is read from a file, a flag or the environment.
// Promises. Silent; no signal handler, no file, no global state of ours; the random numbers of the
// heuristics start from one fixed seed, so that equal problems give equal outcomes unless the clock
// cuts one short. Values hold the rows to about 1e-7: scale a problem so that this is small. Where
// Cbc gives a search up for another reason than a limit, the outcome is kLimit, which proves
// nothing.
// [1] J. Forrest, R. Lougee-Heimer, "CBC user guide", INFORMS TutORials in Operations Research,
//     2005, https://doi.org/10.1287/educ.1053.0020.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "plimsoll/core/numbers.h"
#include "plimsoll/core/outcome.h"
#include "plimsoll/core/result.h"
#include "plimsoll/core/run_context.h"

namespace plimsoll::math {

struct MilpColumn {
  double lower = 0;          // may be -kInfinity
  double upper = kInfinity;  // >= lower
  double cost = 0;
  bool is_integer = false;
  bool operator==(const MilpColumn&) const = default;
};

struct MilpTerm {
  int column = 0;
  double coefficient = 0;
  bool operator==(const MilpTerm&) const = default;
};

struct MilpRow {
  std::vector<MilpTerm> terms;  // a column at most once
  double lower = -kInfinity;
  double upper = kInfinity;  // >= lower
  bool operator==(const MilpRow&) const = default;
};

struct MilpProblem {
  std::vector<MilpColumn> columns;
  std::vector<MilpRow> rows;

  // Append; the column's index.
  int add_column(double lower, double upper, double cost = 0, bool is_integer = false);
  int add_binary(double cost = 0) { return add_column(0, 1, cost, true); }
  void add_row(double lower, std::vector<MilpTerm> terms, double upper);
  bool operator==(const MilpProblem&) const = default;
};

struct MilpOptions {
  double relative_gap = 0;  // >= 0; the search may stop that near to the optimum
  std::optional<double> time_limit_s =
      std::nullopt;  // > 0, of the clock on the wall; absent: no clock
  std::optional<std::int64_t> max_nodes = std::nullopt;  // >= 1; absent: no limit
  // As Cbc's own program would: with its preprocessing and all its heuristics. Often many times
  // faster; but of 3,000 small random binary programs it called 14 optimal that were not.
  bool as_program = false;
  // The caller's deadline and cancel, of all its programs together; each program looks at them
  // between nodes. Its progress is not told.
  RunContext context = {};
  // Asked besides, at every iteration of a linear program and every node: why to stop, if to stop.
  // Once it gave a reason it must go on giving one. May be empty.
  std::function<std::optional<StopReason>()> find_stop = {};
};

struct MilpOutcome {
  SolveStatus status = SolveStatus::kLimit;
  StopReason stop = StopReason::kFinished;
  std::vector<double> values;  // [columns]; integral ones are whole; empty without a solution
  double objective = 0;        // of `values`, summed in column order
  std::optional<double> lower_bound = std::nullopt;  // on the optimum; absent: nothing was proved
  bool operator==(const MilpOutcome&) const = default;
};

// kOptimal where Cbc finished within `relative_gap`, kFeasible where a limit left an incumbent.
// Errors: kValue for NaN, an infinite cost or coefficient, crossed bounds, an option out of range;
// kSchema for an unknown column or one that stands twice in a row; kConflict for a problem without
// a lower bound.
Result<MilpOutcome> solve_milp(const MilpProblem& problem, const MilpOptions& options = {});

}  // namespace plimsoll::math
