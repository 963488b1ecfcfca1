#include "check/embedding/bound_attempt.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "check/tolerances.h"
#include "core/check.h"

namespace plimsoll::check {
namespace {

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

// Cases that cover all placements, and what each was judged to prove.
struct JudgedCases {
  balance::PlacementBound bound;
  balance::BoundVerdict verdict;

  double value_of(std::size_t i) const {
    return verdict.holds && i < verdict.case_values.size() ? verdict.case_values[i] : 0;
  }
};

JudgedCases judge_cases(const balance::PlacementProblem& problem, balance::PlacementBound bound) {
  balance::BoundVerdict verdict = balance::verify_bound(problem, bound);
  return {std::move(bound), std::move(verdict)};
}

// By prices that a search suggests; without any one case that is all placements.
JudgedCases suggested_cases(const balance::PlacementProblem& problem, const SearchAid& aid) {
  if (aid.find_prices) return judge_cases(problem, aid.find_prices(problem));
  JudgedCases cases;
  cases.bound.cases.emplace_back();
  return cases;
}

ExhaustiveScope scope_of(const balance::PlacementProblem& problem, const balance::BoundCase& part) {
  ExhaustiveScope scope{part.forbidden, part.paid, {}};
  const std::vector<double>& price = part.prices.price;
  for (std::size_t i = 0; i < price.size(); ++i) {
    double& of_tier = scope.byte_price[i % problem.resources.size()];
    if (price[i] > of_tier && std::isfinite(price[i])) of_tier = price[i];
  }
  return scope;
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
                                   const ExhaustiveLimits& limits,
                                   const balance::PlacementBound* stated) {
  PLIMSOLL_CHECK(!space.bridge->is_tighter, "the bridge has all plans");
  const balance::PlacementProblem& problem = space.bridge->problem;
  BoundAttempt attempt;
  JudgedCases cases;
  if (!problem.units.empty()) cases = suggested_cases(problem, *space.aid);
  const double priced = problem.units.empty() ? problem.floor_ms : cases.verdict.value;
  if (claimed <= priced * (1 + kBoundTolerance)) {
    attempt.proof =
        "prices that the checker found prove " + plan_text(claimed, scope.rules.rating_cap);
    return attempt;
  }
  if (problem.units.empty()) return attempt;  // there is the plan of no tables
  if (stated != nullptr && !stated->cases.empty()) {
    JudgedCases theirs = judge_cases(problem, *stated);
    if (theirs.verdict.holds) cases = std::move(theirs);
  }
  const double target = std::isinf(claimed) ? worst_objective(problem) : claimed * (1 - kTolerance);
  for (std::size_t i = 0; i < cases.bound.cases.size(); ++i) {
    if (claimed <= cases.value_of(i) * (1 + kBoundTolerance)) continue;
    const ExhaustiveResult again =
        search_to_the_end(problem, target, limits, scope_of(problem, cases.bound.cases[i]));
    attempt.num_nodes += again.num_nodes;
    if (again.end == ExhaustiveEnd::kRefuted) continue;
    if (again.end == ExhaustiveEnd::kFound) {
      PLIMSOLL_ASSIGN(const auto value, value_of_real(space, scope, again.placements));
      if (value && *value < claimed) attempt.refuter = value;
    }
    return attempt;
  }
  attempt.is_searched = true;
  attempt.proof = fmt::format("a search of {} states finds {}", attempt.num_nodes,
                              plan_text(claimed, scope.rules.rating_cap));
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

std::string plan_text(double value, std::optional<double> rating_cap) {
  if (std::isinf(value)) return "that no plan exists";
  const std::string which =
      rating_cap ? fmt::format("whose slowest rank takes at most {:.6g} ms ", *rating_cap) : "";
  return fmt::format("that no plan {}is below {:.6g} ms", which, value);
}

}  // namespace plimsoll::check
