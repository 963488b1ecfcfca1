#include "plimsoll/check/certificate_judgement.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/rounding.h"
#include "plimsoll/core/numbers.h"

namespace plimsoll::check {
namespace {

bool is_above(double a, double b, double tolerance) {
  return a > b + tolerance * std::max(std::abs(a), std::abs(b));
}

CertificateJudgement refute(std::string reason) {
  return {CertificateStatus::kRefuted, std::move(reason)};
}

CertificateJudgement leave(std::string reason) {
  return {CertificateStatus::kNotRepeated, std::move(reason)};
}

CertificateJudgement judge_infeasible(const CertificateClaims& claims, const KnownOptimum& known) {
  if (!known.plans.empty()) {
    return refute("said to be infeasible, but there is " + known.plans.front().name);
  }
  if (claims.certificate && claims.certificate->lower_bound) {
    return leave("said to be infeasible beside a lower bound");
  }
  if (claims.certificate && !std::isnan(claims.certificate->objective)) {
    return refute("said to be infeasible beside an objective");
  }
  if (!known.is_infeasible) {
    return leave("the checker neither proved nor refuted that there is no plan" +
                 (known.obstacle.empty() ? "" : ": " + known.obstacle));
  }
  if (!claims.missing.empty()) {
    return leave("no plan exists, but the answer leaves out its " + claims.missing);
  }
  return {CertificateStatus::kProved, known.proof};
}

// What contradicts itself; empty: nothing.
std::string contradiction(const CertificateClaims& claims) {
  if (!claims.status) return "";
  const bool has_plan =
      *claims.status == SolveStatus::kOptimal || *claims.status == SolveStatus::kFeasible;
  if (has_plan != claims.has_plan) {
    return fmt::format("the status is {} {} a plan", std::string(to_string(*claims.status)),
                       claims.has_plan ? "beside" : "without");
  }
  if (*claims.status != SolveStatus::kOptimal) return "";
  if (!claims.certificate || !claims.certificate->lower_bound) {
    return "said to be optimal without a lower bound";
  }
  const auto gap = claims.certificate->gap();
  if (!gap) return "said to be optimal without an objective";
  if (*gap <= kCertificateTolerance) return "";
  return fmt::format("said to be optimal with a gap of {:.3g} %", *gap * 100);
}

// Empty: nothing stands against the bound.
std::string above_known(double bound, const KnownOptimum& known) {
  if (known.value && is_above(bound, *known.value, kRounding)) {
    return fmt::format("the lower bound {:.9g} is above the plan's own {:.9g}", bound,
                       *known.value);
  }
  for (const KnownPlan& plan : known.plans) {
    if (!is_above(bound, plan.value, kCertificateTolerance)) continue;
    return fmt::format("the lower bound {:.9g} is above {}, which takes {:.9g}", bound, plan.name,
                       plan.value);
  }
  return "";
}

}  // namespace

CertificateJudgement judge_certificate(const CertificateClaims& claims, const KnownOptimum& known) {
  if (std::string reason = contradiction(claims); !reason.empty()) {
    return refute(std::move(reason));
  }
  if (claims.has_plan && !claims.is_right && (claims.status || claims.certificate)) {
    return refute("it is of a plan with violations");
  }
  if (claims.status == SolveStatus::kInfeasible) return judge_infeasible(claims, known);
  const auto& certificate = claims.certificate;
  if (!certificate || !certificate->lower_bound) {
    return {CertificateStatus::kAbsent, "no lower bound is claimed"};
  }
  const double bound = *certificate->lower_bound;
  if (std::isnan(bound) || std::isinf(bound)) return refute("the lower bound is not a number");
  if (std::string reason = above_known(bound, known); !reason.empty()) {
    return refute(std::move(reason));
  }
  if (!known.bound || is_above(bound, *known.bound, kCertificateTolerance)) {
    return leave(
        known.obstacle.empty()
            ? "the lower bound was not refuted, but the checker's own bounds do not reach it"
            : known.obstacle);
  }
  if (const auto gap = certificate->gap();
      claims.status == SolveStatus::kFeasible && gap && *gap <= kCertificateTolerance) {
    return leave(
        "the lower bound holds and meets the objective, but the plan is not said to be "
        "optimal");
  }
  if (!claims.missing.empty()) {
    return leave("the lower bound holds, but the plan leaves out its " + claims.missing);
  }
  return {CertificateStatus::kProved, known.proof};
}

void note_search(const SearchedBelow& searched, double claimed, KnownOptimum& known) {
  if (searched.found) known.plans.push_back({*searched.found, "a plan that the checker found"});
  if (!searched.is_complete) {
    known.obstacle =
        fmt::format("the checker's own search was given up after {} states", searched.num_states);
    return;
  }
  if (searched.found || (known.bound && *known.bound >= claimed)) return;
  known.bound = claimed;
  known.proof =
      fmt::format("the checker's own search of {} states finds no plan below", searched.num_states);
}

std::optional<double> searched_limit(const CertificateClaims& claims, const KnownOptimum& known) {
  if (claims.status == SolveStatus::kInfeasible) return kInfinity;
  const auto& certificate = claims.certificate;
  if (!certificate || !certificate->lower_bound || !std::isfinite(*certificate->lower_bound)) {
    return std::nullopt;
  }
  const double claimed = *certificate->lower_bound;
  if (known.value && claimed > *known.value * (1 + kCertificateTolerance)) return std::nullopt;
  if (known.bound && *known.bound >= claimed) return std::nullopt;
  return claimed * (1 - kCertificateTolerance);
}

void note_search(const SearchedBelow& searched, const CertificateClaims& claims,
                 KnownOptimum& known) {
  if (claims.status != SolveStatus::kInfeasible) {
    note_search(searched, *claims.certificate->lower_bound, known);
  } else if (searched.found) {
    known.plans.push_back({*searched.found, "a plan that the checker found"});
  } else if (searched.is_complete) {
    known.is_infeasible = true;
    known.proof =
        fmt::format("the checker's own search of {} states finds no plan", searched.num_states);
  } else {
    known.obstacle = "the checker's own search was given up";
  }
}

}  // namespace plimsoll::check
