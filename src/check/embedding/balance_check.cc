#include "plimsoll/check/balance_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "balance/verify/verify_bound.h"
#include "check/embedding/bound_attempt.h"
#include "check/embedding/frontier_claims.h"
#include "check/embedding/placement_rules.h"
#include "check/embedding/plan_space.h"
#include "check/tolerances.h"
#include "plimsoll/core/numbers.h"

namespace plimsoll::check {
namespace {

using embedding::PlanTimes;

class BalanceJudge {
 public:
  BalanceJudge(const PlanSpace& space, const embedding::ShardingPlan* plan,
               const ShardingReport* sharding, const StatedBalance& stated, BalanceReport& report)
      : space_(space), plan_(plan), sharding_(sharding), stated_(stated), report_(report) {}

  Result<void> judge() {
    report_.is_anything_claimed = is_anything_claimed();
    if (plan_ != nullptr) {
      report_.findings =
          find_broken_rules(*plan_, bridge_options(), space_.bridge->problem.ranks_per_host);
    }
    judge_status();
    if (plan_ != nullptr && sharding_ != nullptr && sharding_->is_right()) {
      PLIMSOLL_ASSIGN(report_.times,
                      times_of(space_, *plan_, *sharding_, bridge_options().step_model));
      judge_times();
    }
    judge_cap();
    PLIMSOLL_RETURN_IF_ERROR(judge_reference());
    PLIMSOLL_RETURN_IF_ERROR(judge_bound());
    return judge_frontier();
  }

 private:
  const embedding::BridgeOptions& bridge_options() const { return stated_.options.bridge; }
  const balance::PlacementProblem& problem() const { return space_.bridge->problem; }
  bool is_infeasible() const { return stated_.status == SolveStatus::kInfeasible; }

  bool is_anything_claimed() const {
    return stated_.times || stated_.certificate || stated_.bound || stated_.reference ||
           !stated_.frontier.is_empty() || is_infeasible() ||
           stated_.status == SolveStatus::kOptimal;
  }

  std::optional<double> lower_bound() const {
    return stated_.certificate ? stated_.certificate->lower_bound : std::nullopt;
  }

  // The plan's own, as far as it is known.
  std::optional<double> objective() const {
    if (report_.times) return value_of(*report_.times, bridge_options().objective);
    if (stated_.certificate && plan_ != nullptr) return stated_.certificate->objective;
    return std::nullopt;
  }

  void judge_status() {
    const bool says_plan =
        stated_.status == SolveStatus::kOptimal || stated_.status == SolveStatus::kFeasible;
    if (stated_.status && says_plan != (plan_ != nullptr)) {
      add(FindingCode::kStatusMismatch, "", "",
          fmt::format("the answer is said to be {} and {}", to_string(*stated_.status),
                      plan_ != nullptr ? "holds a plan" : "holds none"));
    }
    if (stated_.recorded_objective && stated_.recorded_objective != bridge_options().objective) {
      add(FindingCode::kStatusMismatch, "", "",
          fmt::format("the answer's objective is {}, and it was made for {}",
                      to_string(bridge_options().objective),
                      to_string(*stated_.recorded_objective)));
    }
    if (plan_ == nullptr) return judge_absence();
    const double gap = gap_or_infinity();
    // With hazards that are not proved to be the fewest a plan is feasible, however small its gap.
    const bool may_be_optimal = !bridge_options().keeps_hazards;
    if (stated_.status == SolveStatus::kFeasible && may_be_optimal && gap >= 0 &&
        gap <= stated_.tolerance) {
      add(FindingCode::kStatusMismatch, "optimal", "feasible",
          fmt::format("the plan is said to be feasible, and its gap of {} counts as optimal", gap));
    }
    if (stated_.status != SolveStatus::kOptimal || gap <= stated_.accepted_tolerance + kTolerance) {
      return;
    }
    add(FindingCode::kBoundNotProved,
        fmt::format("a gap of at most {}", stated_.accepted_tolerance), fmt::format("{}", gap),
        gap <= stated_.tolerance
            ? fmt::format("the plan counts a gap of up to {} as optimal, and its own is {}",
                          stated_.tolerance, gap)
            : "the plan is said to be optimal, and its bound does not show it");
  }

  // Without a plan there are no figures of one.
  void judge_absence() {
    const auto is_number = [](const std::optional<double>& figure) {
      return figure && !std::isnan(*figure);
    };
    const bool has_objective = stated_.certificate && !std::isnan(stated_.certificate->objective);
    if (!is_number(stated_.rating) && !has_objective && !is_number(lower_bound()) &&
        !(stated_.times && !std::isnan(stated_.times->rating)) && stated_.frontier.is_empty()) {
      return;
    }
    add(FindingCode::kStatusMismatch, "", "",
        "the answer holds no plan and states a plan's rating, times, objective, bound or curve");
  }

  // Without a bound infinite.
  double gap_or_infinity() const {
    return stated_.certificate ? stated_.certificate->gap().value_or(kInfinity) : kInfinity;
  }

  void judge_times() {
    const PlanTimes& times = *report_.times;
    if (stated_.times) {
      compare("rating", stated_.times->rating, times.rating);
      compare("step", stated_.times->step, times.step);
      compare("time", stated_.times->time, times.time);
    }
    if (stated_.rates_storage) return judge_storage_rating();
    if (!stated_.certificate) return;
    compare("objective", stated_.certificate->objective,
            value_of(times, bridge_options().objective));
  }

  void judge_storage_rating() {
    Bytes largest = 0;
    for (const topology::Storage& used : sharding_->used) largest = std::max(largest, used.hbm);
    const auto compare_bytes = [&](std::string_view what, double stated) {
      if (is_close(stated, static_cast<double>(largest))) return;
      add(FindingCode::kTimesMismatch, fmt::format("{} bytes", largest), fmt::format("{}", stated),
          fmt::format("the plan's {} is not the largest sum of HBM bytes, {}", what, largest));
    };
    if (stated_.rating) compare_bytes("rating", *stated_.rating);
    if (stated_.certificate) compare_bytes("objective", stated_.certificate->objective);
  }

  void judge_cap() {
    const embedding::BoundedOptions& options = stated_.options;
    const bool is_of_time = bridge_options().objective == embedding::BalanceObjective::kTime;
    const std::optional<double>& cap = bridge_options().rating_cap;
    const auto contradict = [this](std::string message) {
      add(FindingCode::kStatusMismatch, "", "", std::move(message));
    };
    if (cap && !options.keeps_reference_rating) {
      contradict("the plan names a cap of its rating, and is said to be made without one");
    }
    if (stated_.reference && !options.uses_reference) {
      contradict("the plan states TorchRec's times, but records that it was made without them");
    }
    if (space_.is_given && space_.input.estimator == nullptr &&
        bridge_options().step_model.ms_per_output_byte > 0) {
      contradict("the step model counts output bytes, which a dump of options does not state");
    }
    if (!report_.times) return;
    const double rating = report_.times->rating;
    if (cap && !(rating <= *cap * (1 + kTolerance))) {
      add(FindingCode::kRatingAboveCap, fmt::format("at most {} ms", *cap),
          fmt::format("{} ms", rating),
          fmt::format("the plan is stated to rate at most {} ms, but rates {} ms", *cap, rating));
    }
    const bool is_explained =
        std::any_of(stated_.warnings.begin(), stated_.warnings.end(), [](const std::string& code) {
          return code.starts_with("rating_cap") || code == "no_reference_rating" ||
                 code.starts_with("hazard_unavoidable");
        });
    if (!cap && options.keeps_reference_rating && is_of_time && stated_.reference &&
        !is_explained && rating > stated_.reference->rating * (1 + kTolerance)) {
      contradict("the plan is stated to rate as well as TorchRec's, but rates worse");
    }
  }

  // The reference's search runs again: the same options, the same effort, the same plan.
  Result<void> judge_reference() {
    const std::optional<double>& cap = bridge_options().rating_cap;
    if (!stated_.reference && !cap) return {};
    if (!stated_.are_inputs_given) {
      report_.leave_open("TorchRec's plan is one of other inputs or options");
      return {};
    }
    if (!space_.aid->repeat_reference) {
      report_.leave_open("TorchRec's search is not there to be repeated");
      return {};
    }
    const Result<RepeatedReference> repeated = space_.aid->repeat_reference();
    if (!repeated) {
      report_.leave_open("TorchRec's search cannot be repeated: " + repeated.error().message);
      return {};
    }
    if (!repeated->times) {
      add(FindingCode::kReferenceMismatch, "no plan", "a plan",
          "TorchRec's search is stated to find a plan, but finds none");
      return {};
    }
    const PlanTimes& found = *repeated->times;
    if (stated_.reference) {
      compare_reference("rating", stated_.reference->rating, found.rating);
      compare_reference("step", stated_.reference->step, found.step);
      compare_reference("time", stated_.reference->time, found.time);
    }
    if (cap) compare_reference("rating, the plan's cap,", *cap, found.rating);
    PLIMSOLL_ASSIGN(const OtherPlan plan,
                    judge_other(space_, bridge_options(), repeated->options, repeated->plan));
    const bool is_of_bound = plan.fault.empty() &&
                             (is_infeasible() || plan.num_hazards <= num_hazards()) &&
                             !(cap && plan.times.rating > *cap);
    if (is_of_bound) known_ = value_of(plan.times, bridge_options().objective);
    return {};
  }

  void compare_reference(std::string_view what, double stated, double found) {
    if (is_close(stated, found)) return;
    add(FindingCode::kReferenceMismatch, fmt::format("{} ms", found), fmt::format("{} ms", stated),
        fmt::format("TorchRec's {} is stated as {} ms, but is {} ms", what, stated, found));
  }

  Result<void> judge_bound() {
    if (stated_.bound) judge_prices();
    if (!is_infeasible() && !lower_bound()) return {};
    const double lower = is_infeasible() ? kInfinity : *lower_bound();
    if (std::isnan(lower)) {
      refute_bound("a number", "the stated bound is not a number");
      return {};
    }
    for (const std::optional<double>& plan : {objective(), known_}) {
      if (!plan || !(lower > *plan * (1 + kTolerance))) continue;
      refute_bound(
          fmt::format("at most {} ms", *plan),
          fmt::format("the stated bound, {}, is above a plan of {} ms", bound_text(), *plan));
      return {};
    }
    if (is_bound_refuted_) return {};
    if (stated_.rates_storage) {
      report_.leave_open("a bound of a rating by storage has no proof");
      return {};
    }
    if (space_.bridge->is_tighter) {
      report_.leave_open("no bound holds for all plans where rules hold these tables together");
      return {};
    }
    const double proved = report_.proved_bound.value_or(problem().floor_ms);
    if (lower <= proved * (1 + kBoundTolerance)) {
      report_.proof = report_.proved_bound
                          ? "the prices prove " + plan_text(lower, bridge_options().rating_cap)
                          : "times are never below the floor";
      return {};
    }
    return judge_unpriced(lower);
  }

  // What the certificate says of its own prices; the value that they prove.
  void judge_prices() {
    if (space_.bridge->is_tighter) return;
    const balance::PlacementBound& bound = *stated_.bound;
    const balance::BoundVerdict verdict = balance::verify_bound(problem(), bound);
    report_.proved_bound = std::isinf(verdict.value) && verdict.value < 0 ? 0 : verdict.value;
    if (std::string fault = find_bound_fault(bound, verdict); !fault.empty()) {
      refute_bound(fmt::format("{} ms", verdict.value), std::move(fault));
      if (!verdict.holds) return;
    }
    if (is_infeasible() && !bound.is_infeasible()) {
      refute_bound("", "the prices are said to prove a bound, and the answer that no plan exists");
    }
    if (!is_infeasible() && lower_bound() && !is_said_to_be_searched() &&
        *lower_bound() > bound.value * (1 + kBoundTolerance)) {
      refute_bound(fmt::format("{} ms", bound.value),
                   fmt::format("the stated bound, {}, is above that of its prices, {} ms",
                               bound_text(), bound.value));
    }
  }

  bool is_said_to_be_searched() const {
    return stated_.certificate && stated_.certificate->proof.kind == ProofKind::kSearchToTheEnd;
  }

  // Prices are named and there are none that prove it.
  bool is_said_to_be_priced() const {
    return stated_.certificate && stated_.certificate->proof.kind == ProofKind::kPrices;
  }

  // A bound above what its prices prove: other prices, a search of our own, a plan below it.
  Result<void> judge_unpriced(double lower) {
    if (stated_.bound ? !is_said_to_be_searched() : is_said_to_be_priced()) {
      refute_bound("a bound that its prices prove",
                   fmt::format("the stated bound, {}, is not proved: {}", bound_text(),
                               stated_.bound ? fmt::format("the prices prove {} ms only",
                                                           *report_.proved_bound)
                                             : "the certificate holds no prices"));
      return {};
    }
    report_.is_bound_searched = is_said_to_be_searched();
    BoundScope scope{bridge_options(), std::nullopt};
    if (!is_infeasible()) scope.max_hazards = num_hazards();
    PLIMSOLL_ASSIGN(BoundAttempt attempt, attempt_bound(space_, scope, lower, {},
                                                        stated_.bound ? &*stated_.bound : nullptr));
    report_.num_repeated_nodes = attempt.num_nodes;
    report_.is_search_repeated = attempt.is_searched;
    if (!attempt.proof.empty()) {
      report_.proof = std::move(attempt.proof);
    } else if (attempt.refuter) {
      refute_bound(
          fmt::format("at most {} ms", *attempt.refuter),
          fmt::format("the stated bound, {}, is above a plan of {} ms that the checker found",
                      bound_text(), *attempt.refuter));
    } else {
      leave_bound();
    }
    return {};
  }

  void leave_bound() {
    report_.leave_open(
        is_infeasible()
            ? std::string(
                  "the plan states that nothing fits, without a proof that can be repeated here")
            : fmt::format("the stated bound, {}, has a proof that is too long to repeat here{}",
                          bound_text(),
                          report_.proved_bound
                              ? fmt::format("; the prices prove {:.6g} ms", *report_.proved_bound)
                              : std::string()));
  }

  std::size_t num_hazards() const {
    return sharding_ != nullptr ? count_avoided_hazards(*sharding_) : 0;
  }

  Result<void> judge_frontier() {
    if (stated_.frontier.is_empty() || !report_.times) return {};
    JudgedFrontierPlan own{0, *objective(), lower_bound(), num_hazards()};
    for (const topology::Storage& used : sharding_->used) own.hbm = std::max(own.hbm, used.hbm);
    PLIMSOLL_ASSIGN(CheckReport found,
                    judge_frontier_claims(space_, bridge_options(), stated_.frontier, own));
    report_.add(std::move(found.findings));
    return {};
  }

  std::string bound_text() const {
    return is_infeasible() ? "infeasible" : fmt::format("{} ms", lower_bound().value_or(0));
  }

  void refute_bound(std::string expected, std::string message) {
    is_bound_refuted_ = true;
    add(FindingCode::kBoundNotProved, std::move(expected), bound_text(), std::move(message));
  }

  void compare(std::string_view what, double stated, double found) {
    if (is_close(stated, found)) return;
    add(FindingCode::kTimesMismatch, fmt::format("{} ms", found), fmt::format("{} ms", stated),
        fmt::format("the plan's {} is stated as {} ms, but is {} ms", what, stated, found));
  }

  void add(FindingCode code, std::string expected, std::string found, std::string message) {
    report_.findings.push_back(
        {code, "", std::nullopt, std::move(expected), std::move(found), std::move(message)});
  }

  const PlanSpace& space_;
  const embedding::ShardingPlan* plan_;
  const ShardingReport* sharding_;
  const StatedBalance& stated_;
  BalanceReport& report_;
  bool is_bound_refuted_ = false;
  std::optional<double> known_;  // objective of the reference's plan, where the bound is of it, too
};

// The reservation leaves nothing, or a table has no option: what the plan states cannot be placed.
Result<BalanceReport> judge_without_space(const Error& error, const StatedBalance& stated) {
  BalanceReport report;
  report.is_anything_claimed = true;
  if (stated.status == SolveStatus::kInfeasible && error.code == ErrorCode::kPlanner) {
    report.proof = error.message;
  } else {
    report.leave_open("no plan can be made from these inputs: " + error.message);
  }
  return report;
}

}  // namespace

Result<BalanceReport> check_balance(const embedding::PlanningProblem& problem,
                                    const embedding::ShardingPlan* plan,
                                    const ShardingReport* sharding, const StatedBalance& stated,
                                    const SearchAid& aid) {
  const auto bounded = prepare_bounded_problem(problem, stated.options);
  if (!bounded) {
    const bool is_judged =
        bounded.error().code == ErrorCode::kPlanner || bounded.error().code == ErrorCode::kRuntime;
    if (is_judged) return judge_without_space(bounded.error(), stated);
    return tl::unexpected<Error>(bounded.error());
  }
  const embedding::Estimator estimator(problem.cost_model, problem.topology, problem.mode);
  const PlanSpace space{
      &problem,
      false,
      {&bounded->enumeration.options, &bounded->reservation.topology, &problem.model, &estimator,
       bounded->enumeration.profiles, problem.machine.get()},
      &bounded->bridge,
      &aid};
  BalanceReport report;
  PLIMSOLL_RETURN_IF_ERROR(BalanceJudge(space, plan, sharding, stated, report).judge());
  return report;
}

Result<BalanceReport> check_balance(const embedding::PlanningProblem& problem,
                                    const embedding::BridgeInput& given,
                                    const embedding::ShardingPlan* plan,
                                    const ShardingReport* sharding, const StatedBalance& stated,
                                    const SearchAid& aid) {
  PLIMSOLL_ASSIGN(const embedding::PlacementBridge bridge,
                  make_bounded_bridge(given, stated.options.bridge));
  const PlanSpace space{&problem, true, given, &bridge, &aid};
  BalanceReport report;
  PLIMSOLL_RETURN_IF_ERROR(BalanceJudge(space, plan, sharding, stated, report).judge());
  return report;
}

void conclude(BalanceReport balance, bool is_strict, ShardingReport& report) {
  const std::vector<Finding> left_open = balance.warnings();
  report.add(std::move(balance.findings));
  CertificateJudgement& judgement = report.certificate;
  const std::vector<Finding> violations = report.violations();
  const auto refuting =
      std::find_if(violations.begin(), violations.end(),
                   [](const Finding& finding) { return finding.code != FindingCode::kHazard; });
  if (!balance.is_anything_claimed) {
    judgement = {CertificateStatus::kAbsent, "neither times nor a bound are stated"};
  } else if (refuting != violations.end()) {
    judgement = {CertificateStatus::kRefuted, refuting->message};
  } else if (!left_open.empty()) {
    judgement = {CertificateStatus::kNotRepeated, left_open.front().message};
  } else {
    judgement = {CertificateStatus::kProved, balance.proof.empty()
                                                 ? "what is stated is right; no bound is stated"
                                                 : balance.proof};
  }
  if (!is_strict || judgement.status != CertificateStatus::kNotRepeated) return;
  for (Finding& finding : report.findings) {
    if (finding.severity == Severity::kWarning) finding.severity = Severity::kViolation;
  }
}

}  // namespace plimsoll::check
