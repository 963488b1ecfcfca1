#include "checkpoint/milp/milp_search.h"

#include <algorithm>
#include <cmath>

#include "checkpoint/frontier/interval_program.h"
#include "checkpoint/milp/milp_units.h"

namespace plimsoll::checkpoint {
namespace {

Result<SmallestBudget> smallest_of(const FixedUnits& fixed, int in_flight) {
  if (in_flight == 1) return smallest_budget(fixed.problem);
  return smallest_stage_budget(fixed.problem, {.in_flight = in_flight, .search = {}});
}

// The best plan of these units; none where they do not fit.
Result<std::optional<StagePlan>> plan_units(const FixedUnits& fixed, Bytes budget, int in_flight) {
  std::optional<StagePlan> plan;
  if (in_flight == 1) {
    PLIMSOLL_ASSIGN(Outcome<CheckpointPlan> found, plan_for_budget(fixed.problem, budget));
    if (found.plan) plan = StagePlan{*std::move(found.plan), 0, 0};
    if (plan) plan->peak = plan->plan.figures.peak;
    if (plan) plan->recompute_ms = plan->plan.figures.recompute_ms;
  } else {
    PLIMSOLL_ASSIGN(
        Outcome<StagePlan> found,
        plan_pipeline_stage(fixed.problem, budget, {.in_flight = in_flight, .search = {}}));
    plan = std::move(found.plan);
  }
  if (!plan) return plan;
  for (UnitDecision& decision : plan->plan.decisions) {
    decision.unit = fixed.original[decision.unit];
  }
  return plan;
}

// The units with the least peak of any choice.
struct LeastPeak {
  FixedUnits units;
  SmallestBudget smallest;
};

Result<Outcome<LeastPeak>> find_least_peak(const CheckpointProblem& problem, int in_flight,
                                           const math::MilpOptions& options) {
  PLIMSOLL_ASSIGN(const Outcome<UnitMilpPlan> solved,
                  minimise_peak(make_program(problem, 0, in_flight), options));
  Outcome<LeastPeak> outcome;
  outcome.status = solved.status;
  outcome.stop = solved.stop;
  outcome.certificate = solved.certificate;
  if (!solved.plan) return outcome;
  FixedUnits units = fix_units(problem, *solved.plan);
  PLIMSOLL_ASSIGN(SmallestBudget smallest, smallest_of(units, in_flight));
  outcome.plan.emplace(LeastPeak{std::move(units), std::move(smallest)});
  return outcome;
}

// The program's optimum is of bytes that need not be whole, and holds its rows within tolerances:
// what its bound proves of a plan is the bound's to say, not the program's status.
void take_plan(StagePlan plan, Outcome<StagePlan>& outcome) {
  Certificate& certificate = outcome.certificate;
  certificate.objective = plan.recompute_ms;
  if (certificate.lower_bound) {
    certificate.lower_bound = std::min(*certificate.lower_bound, plan.recompute_ms);
    certificate.lower_bound = std::max(*certificate.lower_bound, 0.0);  // a solver's rounding
  }
  outcome.plan = std::move(plan);
  const auto gap = certificate.gap();
  outcome.status = gap && *gap <= kTolerance ? SolveStatus::kOptimal : SolveStatus::kFeasible;
}

// No plan was found, or one that only the solver's tolerances let fit.
Result<void> answer_by_least_peak(const CheckpointProblem& problem, Bytes budget, int in_flight,
                                  const math::MilpOptions& options, Outcome<StagePlan>& outcome) {
  PLIMSOLL_ASSIGN(const Outcome<LeastPeak> least, find_least_peak(problem, in_flight, options));
  outcome.certificate.objective = std::nan("");
  if (least.plan && least.plan->smallest.bytes <= budget) {
    PLIMSOLL_ASSIGN(std::optional<StagePlan> plan,
                    plan_units(least.plan->units, budget, in_flight));
    if (plan) take_plan(*std::move(plan), outcome);
    return {};
  }
  if (least.status == SolveStatus::kOptimal) outcome.status = SolveStatus::kInfeasible;
  if (outcome.status != SolveStatus::kInfeasible) {
    outcome.status = SolveStatus::kLimit;
    outcome.stop = least.stop;
  } else if (least.plan) {
    outcome.certificate.lower_bound.reset();
    if (least.status == SolveStatus::kOptimal) {  // else fewer bytes may do
      outcome.explanation = explain_infeasible(least.plan->smallest, budget);
    }
  }
  return {};
}

// Where choices of operators were left out, the bound is that of a second program.
Result<void> bound_thinned(const CheckpointProblem& problem, Bytes budget, int in_flight,
                           const math::MilpOptions& options, Outcome<StagePlan>& outcome) {
  if (problem.thinned.empty() || !outcome.plan) return {};
  PLIMSOLL_ASSIGN(const Outcome<UnitMilpPlan> low,
                  solve_unit_milp(make_program(lowered(problem), budget, in_flight), options));
  note_thinned(
      problem,
      std::clamp(low.certificate.lower_bound.value_or(0), 0.0, outcome.certificate.objective),
      outcome);
  return {};
}

}  // namespace

Result<Outcome<StagePlan>> plan_stage_by_milp(const CheckpointProblem& problem, Bytes budget,
                                              int in_flight, const math::MilpOptions& options) {
  PLIMSOLL_RETURN_IF_ERROR(check_single_units(problem));
  // Refuses what in_flight makes too large.
  PLIMSOLL_RETURN_IF_ERROR(smallest_stage_budget(fix_units(problem, {}).problem,
                                                 {.in_flight = in_flight, .search = {}}));
  PLIMSOLL_ASSIGN(const Outcome<UnitMilpPlan> solved,
                  solve_unit_milp(make_program(problem, budget, in_flight), options));
  Outcome<StagePlan> outcome;
  outcome.status = solved.status;
  outcome.stop = solved.stop;
  outcome.certificate = solved.certificate;
  if (!problem.tree.is_nested) outcome.warnings.push_back(planned_by_milp(problem));
  if (solved.status == SolveStatus::kLimit) return outcome;
  if (solved.plan) {
    PLIMSOLL_ASSIGN(std::optional<StagePlan> plan,
                    plan_units(fix_units(problem, *solved.plan), budget, in_flight));
    if (plan) take_plan(*std::move(plan), outcome);
  }
  if (!outcome.plan) {
    PLIMSOLL_RETURN_IF_ERROR(answer_by_least_peak(problem, budget, in_flight, options, outcome));
  }
  PLIMSOLL_RETURN_IF_ERROR(bound_thinned(problem, budget, in_flight, options, outcome));
  return outcome;
}

Result<Outcome<CheckpointPlan>> plan_by_milp(const CheckpointProblem& problem, Bytes budget,
                                             const math::MilpOptions& options) {
  PLIMSOLL_ASSIGN(Outcome<StagePlan> stage, plan_stage_by_milp(problem, budget, 1, options));
  Outcome<CheckpointPlan> outcome;
  outcome.status = stage.status;
  if (stage.plan) outcome.plan = std::move(stage.plan->plan);
  outcome.certificate = std::move(stage.certificate);
  outcome.stop = stage.stop;
  outcome.warnings = std::move(stage.warnings);
  outcome.explanation = std::move(stage.explanation);
  return outcome;
}

Result<Outcome<CheckpointPlan>> plan_for_time_by_milp(const CheckpointProblem& problem, double ms,
                                                      const math::MilpOptions& options) {
  PLIMSOLL_RETURN_IF_ERROR(check_single_units(problem));
  if (ms < 0) return plan_for_time(problem, {}, ms);  // answers without a search
  PLIMSOLL_ASSIGN(const Outcome<UnitMilpPlan> solved,
                  minimise_peak(make_program(problem, 0), options, ms));
  if (!solved.plan) {
    Outcome<CheckpointPlan> outcome;
    outcome.stop = solved.stop;
    outcome.certificate.objective = std::nan("");
    return outcome;
  }
  // To the byte; without units there is a plan for any time.
  PLIMSOLL_ASSIGN(const auto curve, plan_frontier(fix_units(problem, *solved.plan).problem));
  const Bytes bytes = *curve.plan->bytes_for(ms);
  PLIMSOLL_ASSIGN(Outcome<CheckpointPlan> outcome, plan_by_milp(problem, bytes, options));
  const double proved = std::max(0.0, solved.certificate.lower_bound.value_or(0));
  if (static_cast<double>(bytes - tolerance_of(problem)) > proved + 1) {
    outcome.warnings.push_back({"more_memory", problem.fqn[0],
                                "less memory may do in this time; at least " +
                                    format_bytes(static_cast<Bytes>(proved)) + " was proved"});
  }
  return outcome;
}

Result<Outcome<SmallestBudget>> smallest_budget_by_milp(const CheckpointProblem& problem,
                                                        const math::MilpOptions& options) {
  PLIMSOLL_RETURN_IF_ERROR(check_single_units(problem));
  PLIMSOLL_ASSIGN(const Outcome<LeastPeak> least, find_least_peak(problem, 1, options));
  Outcome<SmallestBudget> outcome;
  outcome.status = least.status;
  outcome.stop = least.stop;
  outcome.certificate = least.certificate;
  if (least.plan) outcome.plan = least.plan->smallest;
  return outcome;
}

}  // namespace plimsoll::checkpoint
