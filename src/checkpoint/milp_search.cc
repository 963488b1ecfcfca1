#include "plimsoll/checkpoint/milp_search.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "plimsoll/checkpoint/unit_milp.h"

namespace plimsoll::checkpoint {
namespace {

constexpr Bytes kNoNeed = std::numeric_limits<Bytes>::min();
constexpr double kTolerance = 1e-6;  // a gap up to this counts as optimal

Result<void> check(const CheckpointProblem& problem) {
  const auto refuse = [](const char* option, const char* what) {
    return fail(ErrorCode::kConflict, option, std::string("the MILP does not know ") + what,
                "leave the option out, or plan with the exact search");
  };
  if (problem.model.max_segment_length > 1) return refuse("max_segment_length", "runs of modules");
  if (problem.model.nested_units) return refuse("nested_units", "units within units");
  for (const CandidateUnit& unit : problem.units) {
    const auto needs_more = [](const solve::CostPoint& point) { return point.needs != kNoNeed; };
    if (unit.own_need != kNoNeed ||
        std::any_of(unit.points.begin(), unit.points.end(), needs_more)) {
      return refuse("repairs", "units that need room of their own");
    }
  }
  return {};
}

// A convex price is the largest of the lines through its pieces.
DiscardCost cost_of(const CandidateUnit& unit) {
  DiscardCost cost;
  for (const solve::CostPoint& point : unit.points) {
    cost.points.emplace_back(static_cast<double>(point.bytes), point.price);
    cost.capacity = std::max(cost.capacity, static_cast<double>(point.bytes));
  }
  if (!unit.points.empty()) return cost;
  cost.capacity = static_cast<double>(unit.price.capacity());
  double x = 0, y = unit.price.fixed;
  cost.pieces.push_back({0, y});
  for (const solve::CostPiece& piece : unit.price.pieces) {
    cost.pieces.push_back({piece.slope, y - piece.slope * x});
    x += static_cast<double>(piece.length);
    y += piece.slope * static_cast<double>(piece.length);
  }
  return cost;
}

// The end of the step is one more position, after all others.
UnitMilpProblem make_program(const CheckpointProblem& problem, Bytes budget) {
  UnitMilpProblem program;
  program.budget = static_cast<double>(budget);
  program.base.assign(problem.base.begin(), problem.base.end());
  program.parent = problem.tree.parent;
  program.position = problem.tree.position;
  program.cost.resize(problem.base.size());
  for (const CandidateUnit& unit : problem.units) program.cost[unit.nodes[0]] = cost_of(unit);
  if (problem.end_base) {
    program.base.push_back(static_cast<double>(*problem.end_base));
    program.parent.push_back(-1);
    program.position.push_back(problem.num_modules());
    program.cost.emplace_back();
  }
  return program;
}

class Decisions {
 public:
  Decisions(const CheckpointProblem& problem, const UnitMilpPlan& plan) : problem_(problem) {
    for (const ChosenUnit& chosen : plan.units) {
      const auto unit =
          std::find_if(problem.units.begin(), problem.units.end(),
                       [&chosen](const CandidateUnit& u) { return u.nodes[0] == chosen.node; });
      const Bytes capacity =
          unit->points.empty() ? unit->price.capacity() : unit->points[chosen.point].bytes;
      decisions_.push_back({static_cast<int>(unit - problem.units.begin()),
                            std::min(static_cast<Bytes>(std::ceil(chosen.discarded)), capacity),
                            chosen.point,
                            {}});
    }
  }

  // Raises discards until the budget holds; false where that cannot be.
  bool fit_into(Bytes budget) {
    for (PlanFigures now = figures(); now.peak > budget; now = figures()) {
      const int position =
          now.binding_node < 0 ? problem_.num_modules() : problem_.tree.position[now.binding_node];
      UnitDecision* cheapest = nullptr;
      double least = solve::kInfinity;
      Bytes room = 0;
      for (UnitDecision& decision : decisions_) {
        const CandidateUnit& unit = problem_.units[decision.unit];
        if (decision.point >= 0 || place(decision) >= position) continue;
        const Bytes left = unit.price.capacity() - decision.discarded;
        if (left == 0) continue;
        const double slope =
            unit.price.price(decision.discarded + 1) - unit.price.price(decision.discarded);
        if (slope < least) {
          least = slope;
          cheapest = &decision;
          room = left;
        }
      }
      if (cheapest == nullptr) return false;
      cheapest->discarded += std::min(room, now.peak - budget);
    }
    return true;
  }

  // Every position against all that earlier positions discard.
  PlanFigures figures() const {
    PlanFigures figures;
    figures.profile.assign(problem_.num_modules(), 0);
    const auto need = [&figures](Bytes bytes, int node, bool is_first) {
      if (!is_first && bytes <= figures.peak) return;
      figures.peak = bytes;
      figures.binding_node = node;
    };
    Bytes gone = 0;
    for (int position = 0; position < problem_.num_modules(); ++position) {
      figures.profile[position] = problem_.base_at(position) - gone;
      need(figures.profile[position], problem_.tree.post_order[position], position == 0);
      for (const UnitDecision& decision : decisions_) {
        if (place(decision) == position) gone += decision.discarded;
      }
    }
    if (problem_.end_base) need(*problem_.end_base - gone, -1, false);
    for (const UnitDecision& decision : decisions_) {
      figures.recompute_ms += price_of(problem_, decision);
    }
    return figures;
  }

  const std::vector<UnitDecision>& list() const { return decisions_; }

 private:
  int place(const UnitDecision& decision) const {
    return problem_.tree.position[problem_.units[decision.unit].nodes[0]];
  }

  const CheckpointProblem& problem_;
  std::vector<UnitDecision> decisions_;  // by position
};

// What the least peak of any choice is, and where.
struct LeastPeak {
  Decisions decisions;
  PlanFigures figures;
};

Result<Outcome<LeastPeak>> find_least_peak(const CheckpointProblem& problem,
                                           const solve::MilpOptions& options) {
  PLIMSOLL_ASSIGN(const Outcome<UnitMilpPlan> solved,
                  minimise_peak(make_program(problem, 0), options));
  Outcome<LeastPeak> outcome;
  outcome.status = solved.status;
  outcome.stop = solved.stop;
  outcome.certificate = solved.certificate;
  if (!solved.plan) return outcome;
  Decisions decisions(problem, *solved.plan);
  PlanFigures figures = decisions.figures();
  outcome.plan.emplace(LeastPeak{std::move(decisions), std::move(figures)});
  return outcome;
}

SmallestBudget budget_of(const CheckpointProblem& problem, const PlanFigures& figures) {
  return {std::max<Bytes>(0, figures.peak),
          figures.binding_node < 0 ? "" : problem.fqn[figures.binding_node]};
}

void take_plan(const CheckpointProblem& problem, const Decisions& decisions,
               Outcome<CheckpointPlan>& outcome) {
  CheckpointPlan& plan = outcome.plan.emplace();
  plan.decisions = decisions.list();
  plan.figures = decisions.figures();
  plan.policy = make_policy(problem, plan.decisions);
  outcome.certificate.objective = plan.figures.recompute_ms;
}

// No plan was found, or one that only the solver's tolerances let fit.
Result<void> answer_by_least_peak(const CheckpointProblem& problem, Bytes budget,
                                  const solve::MilpOptions& options,
                                  Outcome<CheckpointPlan>& outcome) {
  PLIMSOLL_ASSIGN(const Outcome<LeastPeak> least, find_least_peak(problem, options));
  outcome.certificate.objective = std::nan("");
  if (least.plan && budget_of(problem, least.plan->figures).bytes <= budget) {
    take_plan(problem, least.plan->decisions, outcome);
    const auto gap = outcome.certificate.gap();
    outcome.status = gap && *gap <= kTolerance ? SolveStatus::kOptimal : SolveStatus::kFeasible;
    return {};
  }
  if (least.status == SolveStatus::kOptimal) outcome.status = SolveStatus::kInfeasible;
  if (outcome.status != SolveStatus::kInfeasible) {
    outcome.status = SolveStatus::kLimit;
    outcome.stop = least.stop;
  } else if (least.plan) {
    outcome.certificate.lower_bound.reset();
    outcome.explanation = explain_infeasible(budget_of(problem, least.plan->figures), budget);
  }
  return {};
}

}  // namespace

Result<Outcome<CheckpointPlan>> plan_by_milp(const CheckpointProblem& problem, Bytes budget,
                                             const solve::MilpOptions& options) {
  PLIMSOLL_RETURN_IF_ERROR(check(problem));
  PLIMSOLL_ASSIGN(const Outcome<UnitMilpPlan> solved,
                  solve_unit_milp(make_program(problem, budget), options));
  Outcome<CheckpointPlan> outcome;
  outcome.status = solved.status;
  outcome.stop = solved.stop;
  outcome.certificate = solved.certificate;
  if (!problem.tree.is_nested) {
    outcome.warnings.push_back({"order_of_return", problem.fqn[0],
                                "a module returns amid the modules of another; planned by "
                                "mixed-integer programming"});
  }
  if (solved.status == SolveStatus::kLimit) return outcome;
  if (solved.plan) {
    Decisions decisions(problem, *solved.plan);
    if (decisions.fit_into(budget)) {
      take_plan(problem, decisions, outcome);
      return outcome;
    }
  }
  PLIMSOLL_RETURN_IF_ERROR(answer_by_least_peak(problem, budget, options, outcome));
  return outcome;
}

Result<Outcome<SmallestBudget>> smallest_budget_by_milp(const CheckpointProblem& problem,
                                                        const solve::MilpOptions& options) {
  PLIMSOLL_RETURN_IF_ERROR(check(problem));
  PLIMSOLL_ASSIGN(const Outcome<LeastPeak> least, find_least_peak(problem, options));
  Outcome<SmallestBudget> outcome;
  outcome.status = least.status;
  outcome.stop = least.stop;
  outcome.certificate = least.certificate;
  if (least.plan) outcome.plan = budget_of(problem, least.plan->figures);
  return outcome;
}

}  // namespace plimsoll::checkpoint
