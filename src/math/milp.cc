#include "math/milp.h"

#include <fmt/format.h>

#include <CbcEventHandler.hpp>
#include <CbcModel.hpp>
#include <CbcSolver.hpp>
#include <CbcStrategy.hpp>
#include <ClpEventHandler.hpp>
#include <ClpPresolve.hpp>
#include <ClpSimplex.hpp>
#include <CoinHelperFunctions.hpp>
#include <OsiClpSolverInterface.hpp>
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <memory>
#include <string>
#include <utility>

#include "math/coin_program.h"

namespace plimsoll::math {
namespace {

constexpr int kSeed = 20240229;
constexpr double kLeastSeconds = 1e-3;  // Cbc takes 0 for none

Result<void> check_bounds(double lower, double upper, const std::string& place) {
  if (!std::isnan(lower) && !std::isnan(upper) && lower <= upper && lower < kInfinity &&
      upper > -kInfinity) {
    return {};
  }
  return fail(ErrorCode::kValue, place, fmt::format("the bounds are [{}, {}]", lower, upper),
              "give a lower bound that is not above the upper one");
}

Result<void> check_finite(double value, const std::string& place, const char* what) {
  if (std::isfinite(value)) return {};
  return fail(ErrorCode::kValue, place, fmt::format("the {} is {}", what, value),
              "give a finite number");
}

Result<void> check_problem(const MilpProblem& problem) {
  const int num_columns = static_cast<int>(problem.columns.size());
  for (std::size_t j = 0; j < problem.columns.size(); ++j) {
    const MilpColumn& column = problem.columns[j];
    const std::string place = fmt::format("column {}", j);
    PLIMSOLL_RETURN_IF_ERROR(check_bounds(column.lower, column.upper, place));
    PLIMSOLL_RETURN_IF_ERROR(check_finite(column.cost, place, "cost"));
  }
  std::vector<std::size_t> last_row(problem.columns.size(), 0);  // row + 1 that last named a column
  for (std::size_t i = 0; i < problem.rows.size(); ++i) {
    const MilpRow& row = problem.rows[i];
    const std::string place = fmt::format("row {}", i);
    PLIMSOLL_RETURN_IF_ERROR(check_bounds(row.lower, row.upper, place));
    for (const MilpTerm& term : row.terms) {
      if (term.column < 0 || term.column >= num_columns) {
        return fail(ErrorCode::kSchema, place,
                    fmt::format("column {} is none of {}", term.column, num_columns),
                    "add the column before the row");
      }
      if (last_row[term.column] == i + 1) {
        return fail(ErrorCode::kSchema, place, fmt::format("column {} occurs twice", term.column),
                    "add the two coefficients");
      }
      last_row[term.column] = i + 1;
      PLIMSOLL_RETURN_IF_ERROR(check_finite(term.coefficient, place, "coefficient"));
    }
  }
  return {};
}

Result<void> check_options(const MilpOptions& options) {
  if (!(options.relative_gap >= 0) || std::isinf(options.relative_gap)) {
    return fail(ErrorCode::kValue, "relative_gap",
                fmt::format("relative_gap is {}", options.relative_gap),
                "give a finite number of at least 0");
  }
  if (options.time_limit_s && !(*options.time_limit_s > 0)) {
    return fail(ErrorCode::kValue, "time_limit_s",
                fmt::format("time_limit_s is {}", options.time_limit_s.value()),
                "give a number of seconds above 0");
  }
  if (options.max_nodes && *options.max_nodes < 1) {
    return fail(ErrorCode::kValue, "max_nodes",
                fmt::format("max_nodes is {}", options.max_nodes.value()),
                "give a number of nodes of at least 1");
  }
  return {};
}

void load(const MilpProblem& problem, OsiClpSolverInterface& solver) {
  load_program(problem, solver);
  for (std::size_t j = 0; j < problem.columns.size(); ++j) {
    if (problem.columns[j].is_integer) solver.setInteger(static_cast<int>(j));
  }
}

// Bounds of integral columns are moved inwards to whole numbers; false where none is left.
bool tighten(MilpProblem& problem) {
  for (MilpColumn& column : problem.columns) {
    if (!column.is_integer) continue;
    column.lower = std::ceil(column.lower);
    column.upper = std::floor(column.upper);
    if (column.lower > column.upper) return false;
  }
  return true;
}

void read_solution(const MilpProblem& problem, const double* values, MilpOutcome& outcome) {
  outcome.values.assign(values, values + problem.columns.size());
  outcome.objective = 0;
  for (std::size_t j = 0; j < problem.columns.size(); ++j) {
    const MilpColumn& column = problem.columns[j];
    double& value = outcome.values[j];
    value = std::clamp(value, column.lower, column.upper);
    if (column.is_integer) value = std::nearbyint(value);
    outcome.objective += column.cost * value;
  }
}

// What is left of the limits; absent: there is none.
std::optional<double> seconds_left(const MilpOptions& options) {
  std::optional<double> left = options.time_limit_s;
  if (options.context.deadline) {
    const std::chrono::duration<double> to_deadline =
        *options.context.deadline - std::chrono::steady_clock::now();
    left = std::max(std::min(left.value_or(kInfinity), to_deadline.count()), kLeastSeconds);
  }
  return left;
}

// Why a program may not begin, or go on.
std::optional<StopReason> find_stop(const MilpOptions& options) {
  if (options.context.is_cancelled()) return StopReason::kCancelled;
  if (options.context.is_past_deadline()) return StopReason::kDeadline;
  return options.find_stop ? options.find_stop() : std::nullopt;
}

// How a search that the caller stopped comes to its end.
struct Ending {
  std::atomic<bool> has_cut = false;   // a linear program, before its end
  std::atomic<bool> winds_up = false;  // what is solved now makes the best point one of the problem
};

// Ends a linear program at the next iteration once the caller says so, and notes that it did: Cbc
// may take such a program for infeasible, so that nothing it proves counts any more.
class LinearWatch : public ClpEventHandler {
 public:
  LinearWatch(const MilpOptions& options, Ending& ending) : options_(options), ending_(ending) {}
  ClpEventHandler* clone() const override { return new LinearWatch(*this); }
  int event(Event) override {
    constexpr int kGoOn = -1, kEnd = 0;
    if (ending_.winds_up || !find_stop(options_)) return kGoOn;
    ending_.has_cut = true;
    return kEnd;
  }

 private:
  const MilpOptions& options_;  // the caller's, which outlives the program
  Ending& ending_;
};

// Does the point keep all rows?
bool is_within_rows(const MilpProblem& problem, const std::vector<double>& values) {
  constexpr double kSlack = 1e-6;  // Cbc's own
  return std::all_of(problem.rows.begin(), problem.rows.end(), [&values](const MilpRow& row) {
    double sum = 0, largest = 1;
    for (const MilpTerm& term : row.terms) {
      const double part = term.coefficient * values[static_cast<std::size_t>(term.column)];
      sum += part;
      largest = std::max(largest, std::abs(part));
    }
    return sum >= row.lower - kSlack * largest && sum <= row.upper + kSlack * largest;
  });
}

// Clp's presolve looks for rows that hold the same part of others, in time that grows with the
// square of the rows and hears no clock: a second on a model of 150 layers. Left out.
ClpSolve without_shared_parts() {
  ClpPresolve presolve;
  presolve.setDoGubrow(false);
  ClpSolve options;
  options.setPresolveActions(presolve.presolveActions());
  return options;
}

// The relaxation's own end, where it decides the matter or the time is over. Clp solves it from
// scratch.
std::optional<Result<MilpOutcome>> solve_relaxation(const MilpOptions& options,
                                                    OsiClpSolverInterface& solver) {
  solver.setSolveOptions(without_shared_parts());
  solver.initialSolve();
  if (const auto stop = find_stop(options)) {
    MilpOutcome outcome;
    outcome.stop = *stop;
    return outcome;
  }
  if (solver.isProvenPrimalInfeasible()) {
    MilpOutcome outcome;
    outcome.status = SolveStatus::kInfeasible;
    return outcome;
  }
  if (solver.isProvenDualInfeasible()) {
    return fail(ErrorCode::kConflict, "", "the relaxed problem has no lower bound",
                "bound every column whose cost pulls it to infinity");
  }
  return std::nullopt;
}

// Writes nothing, whatever the level: on stdout is the answer.
class Silence : public CoinMessageHandler {
 public:
  int print() override { return 0; }
  CoinMessageHandler* clone() const override { return new Silence(*this); }
};

// Ends Cbc's search at the next node once the caller says so.
class Watch : public CbcEventHandler {
 public:
  Watch(const MilpOptions& options, Ending& ending) : options_(options), ending_(ending) {}
  CbcEventHandler* clone() const override { return new Watch(*this); }
  CbcAction event(CbcEvent event) override {
    if (!find_stop(options_)) return noAction;
    if (event == endSearch) ending_.winds_up = true;
    return stop;
  }

 private:
  const MilpOptions& options_;
  Ending& ending_;
};

// What `cbc` does when it is given a file and these settings, which is how PuLP runs it.
void run_program(const MilpOptions& options, std::optional<double> seconds, CbcModel& model) {
  CbcSolverUsefulData data;
  data.noPrinting_ = true;
  data.useSignalHandler_ = false;
  CbcMain0(model, data);
  model.setLogLevel(0);
  std::vector<std::string> words{"cbc", "-log", "0", "-ratio",
                                 fmt::format("{}", options.relative_gap)};
  if (seconds) {
    words.insert(words.end(), {"-timeMode", "elapsed", "-sec", fmt::format("{}", *seconds)});
  }
  if (options.max_nodes) {
    words.insert(words.end(), {"-maxNodes", fmt::format("{}", options.max_nodes.value())});
  }
  words.insert(words.end(), {"-solve", "-quit"});
  std::vector<const char*> arguments;
  for (const std::string& word : words) arguments.push_back(word.c_str());
  CbcMain1(
      static_cast<int>(arguments.size()), arguments.data(), model, [](CbcModel*, int) { return 0; },
      data);
}

MilpOutcome read_outcome(const CbcModel& model, const MilpProblem& problem,
                         const MilpOptions& options) {
  MilpOutcome outcome;
  if (const double* best = model.bestSolution(); best != nullptr) {
    read_solution(problem, best, outcome);
    outcome.status = model.isProvenOptimal() ? SolveStatus::kOptimal : SolveStatus::kFeasible;
    outcome.lower_bound = std::min(model.getBestPossibleObjValue(), outcome.objective);
  } else if (model.isProvenInfeasible()) {
    outcome.status = SolveStatus::kInfeasible;
  }
  const bool is_decided =
      outcome.status == SolveStatus::kOptimal || outcome.status == SolveStatus::kInfeasible;
  if (is_decided) return outcome;
  if (model.isSecondsLimitReached()) {
    outcome.stop = StopReason::kDeadline;
  } else if (model.isNodeLimitReached()) {
    outcome.stop = StopReason::kEffort;
  } else if (const auto stop = find_stop(options)) {
    outcome.stop = *stop;
  }
  return outcome;
}

// One program's solvers.
class Search {
 public:
  Result<MilpOutcome> run(const MilpProblem& problem, const MilpOptions& options) {
    CoinSeedRandom(kSeed);
    solver_.passInMessageHandler(&silence_);
    solver_.getModelPtr()->passInMessageHandler(&silence_);
    solver_.getModelPtr()->setLogLevel(0);
    solver_.setHintParam(OsiDoReducePrint, true, OsiHintTry);
    load(problem, solver_);
    if (options.context.deadline || options.context.cancel != nullptr || options.find_stop) {
      LinearWatch watch(options, ending_);
      solver_.getModelPtr()->passInEventHandler(&watch);
    }
    if (auto end = solve_relaxation(options, solver_)) return *std::move(end);
    relaxed_ = solver_.getObjValue();

    CbcModel& model = model_.emplace(solver_);
    model.passInMessageHandler(&silence_);
    model.solver()->passInMessageHandler(&silence_);
    model.setLogLevel(0);
    model.setRandomSeed(kSeed);
    model.setUseElapsedTime(true);
    model.setAllowableGap(0);
    model.setAllowableFractionGap(options.relative_gap);
    const std::optional<double> seconds = seconds_left(options);
    if (seconds) model.setMaximumSeconds(*seconds);
    if (options.max_nodes) {
      model.setMaximumNodes(static_cast<int>(
          std::min<std::int64_t>(*options.max_nodes, std::numeric_limits<int>::max())));
    }
    Watch watch(options, ending_);
    model.passInEventHandler(&watch);
    if (options.as_program) {
      run_program(options, seconds, model);
      return outcome_of(model, problem, options);
    }
    // Without preprocessing: with Cgl's, Cbc 2.10 lost the optimum of 14 of 3,000 small random
    // binary programs, and with the strategy's own it returned points that break rows; without, of
    // none.
    CbcStrategyDefault strategy(/*cutsOnlyAtRoot=*/0, /*numberStrong=*/5, /*numberBeforeTrust=*/5);
    model.setStrategy(strategy);
    model.branchAndBound();
    return outcome_of(model, problem, options);
  }

 private:
  MilpOutcome outcome_of(const CbcModel& model, const MilpProblem& problem,
                         const MilpOptions& options) const {
    MilpOutcome outcome = read_outcome(model, problem, options);
    if (!ending_.has_cut) return outcome;
    const bool has_point = !outcome.values.empty() && is_within_rows(problem, outcome.values);
    if (!has_point) outcome = {};
    outcome.status = has_point ? SolveStatus::kFeasible : SolveStatus::kLimit;
    if (has_point) outcome.lower_bound = std::min(relaxed_, outcome.objective);
    outcome.stop = find_stop(options).value_or(StopReason::kDeadline);
    return outcome;
  }

  Silence silence_;  // outlives the solvers
  Ending ending_;
  double relaxed_ = -kInfinity;  // objective of the relaxation
  OsiClpSolverInterface solver_;
  std::optional<CbcModel> model_;
};

}  // namespace

int MilpProblem::add_column(double lower, double upper, double cost, bool is_integer) {
  columns.push_back({lower, upper, cost, is_integer});
  return static_cast<int>(columns.size()) - 1;
}

void MilpProblem::add_row(double lower, std::vector<MilpTerm> terms, double upper) {
  rows.push_back({std::move(terms), lower, upper});
}

Result<MilpOutcome> solve_milp(const MilpProblem& problem, const MilpOptions& options) {
  PLIMSOLL_RETURN_IF_ERROR(check_problem(problem));
  PLIMSOLL_RETURN_IF_ERROR(check_options(options));
  MilpProblem tightened = problem;
  MilpOutcome outcome;
  if (!tighten(tightened)) {
    outcome.status = SolveStatus::kInfeasible;
    return outcome;
  }
  const bool is_feasible_empty = std::all_of(
      problem.rows.begin(), problem.rows.end(),
      [](const MilpRow& row) { return !row.terms.empty() || (row.lower <= 0 && row.upper >= 0); });
  if (!is_feasible_empty) {
    outcome.status = SolveStatus::kInfeasible;
    return outcome;
  }
  if (problem.columns.empty()) {
    outcome.status = SolveStatus::kOptimal;
    outcome.lower_bound = 0;
    return outcome;
  }

  if (const auto stop = find_stop(options)) {
    outcome.stop = *stop;
    return outcome;
  }
  // Where memory runs out within them they may not be destroyed: COIN's destructors abort then.
  auto search = std::make_unique<Search>();
  try {
    return search->run(tightened, options);
  } catch (...) {
    static_cast<void>(search.release());
    throw;
  }
}

}  // namespace plimsoll::math
