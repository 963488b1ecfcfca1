#include "plimsoll/checkpoint/frontier_search.h"

#include <algorithm>
#include <cmath>

#include "checkpoint/frontier/interval_program.h"

namespace plimsoll::checkpoint {
namespace {

using math::Frontier;
using math::PiecewiseLinear;

tl::unexpected<Error> too_large(const FrontierOptions& options) {
  return fail(ErrorCode::kOverflow, "max_segments",
              "the frontier has more than " + std::to_string(options.max_segments) + " pieces",
              "allow more, or allow fewer units by ac_units");
}

bool has_steps(const CheckpointProblem& problem) {
  return std::any_of(problem.units.begin(), problem.units.end(),
                     [](const CandidateUnit& unit) { return !unit.points.empty(); });
}

StopReason stop_reason(const RunContext& context) {
  return context.is_cancelled() ? StopReason::kCancelled : StopReason::kDeadline;
}

template <class Plan>
Outcome<Plan> stopped(const RunContext& context) {
  Outcome<Plan> outcome;
  outcome.certificate.objective = std::nan("");
  outcome.stop = stop_reason(context);
  return outcome;
}

CheckpointPlan make_plan(const CheckpointProblem& problem, std::vector<UnitDecision> decisions) {
  CheckpointPlan plan;
  plan.decisions = std::move(decisions);
  plan.figures = replay(problem, plan.decisions);
  plan.policy = make_policy(problem, plan.decisions);
  return plan;
}

std::string binding_name(const CheckpointProblem& problem, const PlanFigures& figures) {
  return figures.binding_node < 0 ? std::string() : problem.fqn[figures.binding_node];
}

Result<Outcome<CheckpointPlan>> infeasible(const CheckpointProblem& problem, Bytes budget) {
  PLIMSOLL_ASSIGN(const SmallestBudget smallest, smallest_budget(problem));
  Outcome<CheckpointPlan> outcome;
  outcome.status = SolveStatus::kInfeasible;
  outcome.certificate.objective = std::nan("");
  outcome.certificate.proof = ProofKind::kLeastSlack;
  outcome.explanation = explain_infeasible(smallest, budget);
  return outcome;
}

}  // namespace

CheckpointProblem lowered(const CheckpointProblem& problem) {
  CheckpointProblem low = problem;
  for (CandidateUnit& unit : low.units) {
    for (math::CostPoint& point : unit.points) {
      point.price = std::max(0.0, point.price - unit.loss_ms);
    }
  }
  return low;
}

Warning choices_left_out(const CheckpointProblem& problem) {
  const std::size_t num_others = problem.thinned.size() - 1;
  std::string others;
  if (num_others > 0) {
    others = ", and so have " + std::to_string(num_others) +
             (num_others == 1 ? " other module" : " other modules");
  }
  return {"choices_left_out", problem.fqn[problem.thinned.front()],
          "has too many choices of operators to try all of them" + others +
              "; the bound takes them into account"};
}

Result<void> check_nested(const CheckpointProblem& problem) {
  if (problem.tree.is_nested) return {};
  return fail(ErrorCode::kConflict, "fw_post_order",
              "a module returns among the modules of another, so its units are not consecutive",
              "plan one budget by plan_by_milp, which needs only positions and ancestors");
}

Explanation explain_infeasible(const SmallestBudget& smallest, Bytes budget) {
  Explanation explanation;
  explanation.binding = smallest.binding.empty() ? "end of forward" : smallest.binding;
  explanation.missing = smallest.bytes - budget;
  explanation.lines.push_back("the smallest feasible budget is " + format_bytes(smallest.bytes) +
                              " (" + std::to_string(smallest.bytes) + " bytes), " +
                              format_bytes(explanation.missing) + " more");
  explanation.lines.push_back(explanation.binding + " needs it, whatever else is recomputed");
  return explanation;
}

Result<Outcome<Frontier>> plan_frontier(const CheckpointProblem& problem,
                                        const FrontierOptions& options, const RunContext& context,
                                        SearchWork* work) {
  PLIMSOLL_RETURN_IF_ERROR(check_nested(problem));
  SearchWork own;
  IntervalProgram program(problem, options, context, work == nullptr ? own : *work);
  PiecewiseLinear first;
  const Bytes floor =
      options.truncate_below ? std::max<Bytes>(0, program.smallest_slack()) : Bytes{0};
  const SweepEnd end = program.sweep(floor, first);
  if (end == SweepEnd::kTooLarge) return too_large(options);
  if (end == SweepEnd::kStopped) return stopped<Frontier>(context);
  Outcome<Frontier> outcome;
  outcome.status = SolveStatus::kOptimal;
  outcome.plan = Frontier(std::move(first));
  outcome.certificate.objective = outcome.plan->min_ms();
  outcome.certificate.lower_bound = outcome.plan->min_ms();
  outcome.certificate.proof = ProofKind::kSlackProgramOfBudgets;
  if (problem.thinned.empty()) return outcome;
  const CheckpointProblem low = lowered(problem);
  IntervalProgram low_program(low, options, context, work == nullptr ? own : *work);
  PiecewiseLinear lower;
  const SweepEnd low_end = low_program.sweep(floor, lower);
  if (low_end == SweepEnd::kTooLarge) return too_large(options);
  if (low_end == SweepEnd::kStopped) return stopped<Frontier>(context);
  outcome.plan = Frontier(PiecewiseLinear(outcome.plan->upper()), std::move(lower));
  note_thinned(problem, outcome.plan->lower().back().y, outcome);
  outcome.status = SolveStatus::kFeasible;
  return outcome;
}

Result<PiecewiseLinear> bound_frontier(const CheckpointProblem& problem) {
  PLIMSOLL_RETURN_IF_ERROR(check_nested(problem));
  const FrontierOptions options;
  const RunContext context;
  SearchWork work;
  const IntervalProgram program(problem, options, context, work);
  if (program.insides() != SweepEnd::kDone) return too_large(options);
  return program.convex_sweep(std::max<Bytes>(0, program.smallest_slack()));
}

Result<Outcome<CheckpointPlan>> plan_for_budget(const CheckpointProblem& problem, Bytes budget,
                                                const FrontierOptions& options,
                                                const RunContext& context, SearchWork* work) {
  PLIMSOLL_RETURN_IF_ERROR(check_nested(problem));
  SearchWork own;
  IntervalProgram program(problem, options, context, work == nullptr ? own : *work);
  if (budget < program.smallest_slack()) return infeasible(problem, budget);
  Boundaries kept;
  PiecewiseLinear first;
  const SweepEnd end = program.solve(budget, kept, first);
  if (end == SweepEnd::kTooLarge) return too_large(options);
  if (end == SweepEnd::kStopped) return stopped<CheckpointPlan>(context);
  // Choices of operators make steps; what memory is worth there is the slope of the convex bound.
  const double slope = has_steps(problem)
                           ? find_segment(program.convex_sweep(budget), budget)->slope
                           : find_segment(first, budget)->slope;

  Outcome<CheckpointPlan> outcome;
  outcome.status = SolveStatus::kOptimal;
  outcome.plan = make_plan(problem, program.recover(kept, budget));
  outcome.plan->price_ms_per_gib = std::abs(slope) * static_cast<double>(kGiB);
  outcome.certificate.objective = outcome.plan->figures.recompute_ms;
  outcome.certificate.lower_bound =
      std::min(value_at(first, budget), outcome.plan->figures.recompute_ms);
  outcome.certificate.proof = ProofKind::kSlackProgram;
  if (problem.thinned.empty()) return outcome;
  const CheckpointProblem low = lowered(problem);
  IntervalProgram low_program(low, options, context, work == nullptr ? own : *work);
  const SweepEnd low_end = low_program.solve(budget, kept, first);
  if (low_end == SweepEnd::kTooLarge) return too_large(options);
  if (low_end == SweepEnd::kStopped) return stopped<CheckpointPlan>(context);
  note_thinned(problem, std::min(value_at(first, budget), outcome.certificate.objective), outcome);
  return outcome;
}

Result<Outcome<CheckpointPlan>> plan_for_time(const CheckpointProblem& problem,
                                              const Frontier& frontier, double ms,
                                              const FrontierOptions& options,
                                              const RunContext& context) {
  if (const auto bytes = frontier.bytes_for(ms)) {
    return plan_for_budget(problem, *bytes, options, context);
  }
  Outcome<CheckpointPlan> outcome;
  outcome.status = SolveStatus::kInfeasible;
  outcome.certificate.objective = std::nan("");
  outcome.certificate.proof = ProofKind::kNothingDiscarded;
  outcome.explanation.binding = "recompute_ms";
  return outcome;
}

Result<Outcome<CheckpointPlan>> plan_at_knee(const CheckpointProblem& problem,
                                             const Frontier& frontier,
                                             const FrontierOptions& options,
                                             const RunContext& context) {
  return plan_for_budget(problem, frontier.knee().value_or(frontier.min_bytes()), options, context);
}

Result<SmallestBudget> smallest_budget(const CheckpointProblem& problem) {
  PLIMSOLL_RETURN_IF_ERROR(check_nested(problem));
  const FrontierOptions options;
  const RunContext context;
  SearchWork work;
  IntervalProgram program(problem, options, context, work);
  const Bytes bytes = std::max<Bytes>(0, program.smallest_slack());
  PLIMSOLL_ASSIGN(const Outcome<CheckpointPlan> outcome, plan_for_budget(problem, bytes));
  return SmallestBudget{bytes, binding_name(problem, outcome.plan->figures)};
}

}  // namespace plimsoll::checkpoint
