#include "check/embedding/bound_attempt.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "balance/bounds/bound_placement.h"
#include "core/check.h"

namespace plimsoll::check {
namespace {

constexpr double kTolerance = 1e-9;       // relative, of sums
constexpr double kBoundTolerance = 1e-7;  // relative, of what prices prove (verify_bound.h)

// Above any placement's objective.
double worst_objective(const balance::PlacementProblem& problem) {
  double sum = problem.floor_ms + 1;
  for (const double charge : problem.charges) sum += charge;
  for (const balance::Unit& unit : problem.units) {
    double worst = 0;
    for (const balance::UnitChoice& choice : unit.choices) {
      double work = 0;
      for (const balance::PieceRun& run : choice.runs) {
        for (const double load : run.load) {
          work += load * static_cast<double>(run.count * choice.num_blocks);
        }
      }
      worst = std::max(worst, work);
    }
    sum += worst;
  }
  return sum;
}

// By the cheapest of our own bounds, itself judged.
double prove_by_prices(const balance::PlacementProblem& problem) {
  if (problem.units.empty()) return problem.floor_ms;
  const balance::PlacementBound bound =
      balance::bound_placement(problem, balance::cheap_bounds(), RunContext{});
  return balance::verify_bound(problem, bound).value;
}

// The objective of a plan that the bound is of: one that fits, keeps rules and cap, and holds no
// more hazards than it may.
Result<std::optional<double>> value_of_real(const PlanSpace& space, const BoundScope& scope,
                                            const balance::UnitPlacements& placements) {
  PLIMSOLL_ASSIGN(const OtherPlan plan,
                  judge_other(space, scope.rules, *space.input.options,
                              to_proposal(*space.bridge, *space.input.options, placements)));
  const embedding::BridgeOptions& rules = scope.rules;
  if (!plan.fault.empty() || plan.num_hazards > scope.max_hazards.value_or(plan.num_hazards) ||
      plan.hbm > rules.max_hbm.value_or(plan.hbm)) {
    return std::nullopt;
  }
  if (rules.rating_cap && !(plan.times.rating <= *rules.rating_cap)) return std::nullopt;
  return value_of(plan.times, rules.objective);
}

}  // namespace

Result<BoundAttempt> attempt_bound(const PlanSpace& space, const BoundScope& scope, double claimed,
                                   const ExhaustiveLimits& limits) {
  PLIMSOLL_CHECK(!space.bridge->is_tighter, "the bridge has all plans");
  const balance::PlacementProblem& problem = space.bridge->problem;
  BoundAttempt attempt;
  if (claimed <= prove_by_prices(problem) * (1 + kBoundTolerance)) {
    attempt.proof = "prices that the judge found prove " + plan_text(claimed);
    return attempt;
  }
  const double target = std::isinf(claimed) ? worst_objective(problem) : claimed * (1 - kTolerance);
  const ExhaustiveResult again = search_to_the_end(problem, target, limits);
  attempt.num_nodes = again.num_nodes;
  if (again.end == ExhaustiveEnd::kRefuted) {
    attempt.is_searched = true;
    attempt.proof =
        fmt::format("a search of {} states finds {}", again.num_nodes, plan_text(claimed));
  } else if (again.end == ExhaustiveEnd::kFound) {
    PLIMSOLL_ASSIGN(const auto value, value_of_real(space, scope, again.placements));
    if (value && *value < claimed) attempt.refuter = value;
  }
  return attempt;
}

std::string find_bound_fault(const balance::PlacementBound& bound,
                             const balance::BoundVerdict& verdict) {
  if (!verdict.holds) return "the prices do not hold: " + verdict.fault;
  bool is_method = false;
  for (std::size_t i = 0; i < bound.cases.size(); ++i) {
    const double value = bound.cases[i].value;
    is_method |= bound.cases[i].method == bound.method && value <= bound.value * (1 + 1e-6);
    if (value <= verdict.case_values[i] * (1 + kBoundTolerance) &&
        value >= bound.value * (1 - kBoundTolerance)) {
      continue;
    }
    return fmt::format("case {} is said to prove {} ms, and proves {} ms of a bound of {} ms", i,
                       value, verdict.case_values[i], bound.value);
  }
  if (is_method) return "";
  return fmt::format("no case of the bound's value is proved by {}", to_string(bound.method));
}

std::string plan_text(double value) {
  return std::isinf(value) ? std::string("that no plan exists")
                           : fmt::format("that no plan is below {:.6g} ms", value);
}

}  // namespace plimsoll::check
