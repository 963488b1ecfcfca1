#include "check/checkpoint/checkpoint_claims.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "check/checkpoint/checkpoint_optimum.h"
#include "check/checkpoint/checkpoint_price_bound.h"

namespace plimsoll::check {
namespace {

using Code = CheckpointViolationCode;

std::string bytes_text(Bytes bytes) { return fmt::format("{} bytes", bytes); }

// Upstream's formula: all of the parameters, on one rank, and nothing beside.
Bytes upstream_baseline(const JudgedCheckpoint& given) {
  CheckpointCheckOptions options;
  options.peak = PeakRule::kTorch;
  JudgedCheckpoint upstream = given;
  upstream.options = &options;
  return peak_without_units(upstream);
}

void check_profile(const JudgedCheckpoint& given, const CheckpointReport& report,
                   CheckpointFindings& findings) {
  const auto& profile = given.options->stated.profile;
  if (profile.empty()) return;
  const std::vector<Bytes>& right = report.profile_at_ends;
  if (profile.size() != right.size()) {
    findings.add(Code::kProfile, "", fmt::format("{} modules", right.size()),
                 fmt::format("{}", profile.size()), "the profile has another number of modules");
    return;
  }
  for (std::size_t p = 0; p < profile.size(); ++p) {
    const std::string& fqn = given.info(given.tree->post_order[p]).fqn;
    if (profile[p].first == fqn && profile[p].second == right[p]) continue;
    findings.add(Code::kProfile, fqn, fqn + ", " + bytes_text(right[p]),
                 profile[p].first + ", " + bytes_text(profile[p].second),
                 "the stated bytes of the module's backward are not those computed here");
    return;
  }
}

// Does the module that is said to bind need the peak? "": the end of the step.
bool is_binding(const JudgedCheckpoint& given, const CheckpointReport& report,
                const std::string& fqn) {
  if (fqn.empty()) {
    const auto end = end_need_of(given);
    return end && *end - report.discarded + held_by_others(given, report.discarded) == report.peak;
  }
  const auto node = given.node_of.find(fqn);
  if (node == given.node_of.end()) return false;
  const int position = given.tree->position[node->second];
  return report.profile[position] == report.peak || report.profile_at_ends[position] == report.peak;
}

bool is_same_time(double stated, double found) {
  return std::abs(stated - found) <= kTimeTolerance * std::max(1.0, std::abs(found));
}

// What is known of the best plan without a search of all.
void add_simple_knowledge(const JudgedCheckpoint& given, Bytes budget, KnownOptimum& known) {
  known.bound = 0;
  known.proof = "no plan takes less than 0 ms";
  const Bytes kept = peak_without_units(given) + held_by_others(given, 0);
  if (kept <= budget) known.plans.push_back({0, "the plan without units"});
}

void add_searched_knowledge(const JudgedCheckpoint& given, Bytes budget, double claimed,
                            KnownOptimum& known) {
  if (claimed <= 0) return;
  if (const double bound = price_bound(given, budget); bound > *known.bound) {
    known.bound = bound;
    known.proof = "prices on the bytes of one module's backward prove the bound";
    if (bound >= claimed) return;
  }
  const CheckpointOptimum all = find_plans_below(given, budget, claimed);
  known.obstacle = all.obstacle;
  if (!all.obstacle.empty()) return;
  // What takes as much as is claimed or more may be missing there.
  const double least = all.plans.empty() ? kInfinity : all.plans.back().ms;
  known.bound = std::max(*known.bound, std::min(least, claimed));
  known.proof = fmt::format("the checker's own search of {} states finds no faster plan{}",
                            all.num_labels, least > claimed ? " than the bound" : "");
  // Bytes of a fitted price that are bought by the piece are not whole.
  if (given.options->price != PriceRule::kFit && !all.plans.empty()) {
    known.plans.push_back({least, "a plan that the checker found"});
  }
}

// A frontier is a line from each point on.
double value_at(const std::vector<math::FrontierPoint>& points, Bytes bytes) {
  auto after = std::upper_bound(points.begin(), points.end(), bytes,
                                [](Bytes b, const auto& point) { return b < point.bytes; });
  if (after == points.begin()) return kInfinity;
  const auto& point = *std::prev(after);
  return point.ms + point.slope * static_cast<double>(bytes - point.bytes);
}

double least_at(const std::vector<PeakAndTime>& plans, Bytes bytes) {
  double least = kInfinity;
  for (const PeakAndTime& plan : plans) {
    if (plan.peak <= bytes) least = plan.ms;
  }
  return least;
}

bool is_below(double a, double b) {
  if (std::isinf(b)) return !std::isinf(a);
  return a < b - kCertificateTolerance * std::max(1.0, std::abs(b));
}

// Is each point said to be exact where the curves meet?
bool says_where_exact(const StatedCheckpointing& stated) {
  for (const auto& point : stated.frontier_bound) {
    if (!point.is_exact) return false;
  }
  for (const auto& point : stated.frontier) {
    double open = 0;
    if (!stated.frontier_bound.empty()) {
      open = point.ms - value_at(stated.frontier_bound, point.bytes);
    }
    const bool is_open = open > kCertificateTolerance * (1 + point.ms);
    if (point.is_exact ? is_open : open <= 0) return false;
  }
  return true;
}

// Time and bound of the budget where the curves are farthest apart; without a bound, of the last
// point.
std::pair<double, double> widest_point(const StatedCheckpointing& stated) {
  std::pair<double, double> widest{stated.frontier.back().ms, stated.frontier.back().ms};
  std::vector<Bytes> ends;
  for (const auto* curve : {&stated.frontier, &stated.frontier_bound}) {
    for (const auto& point : *curve) ends.insert(ends.end(), {point.bytes - 1, point.bytes});
  }
  for (const Bytes bytes : ends) {
    if (stated.frontier_bound.empty() || bytes < stated.frontier.front().bytes) continue;
    const double upper = value_at(stated.frontier, bytes);
    const double lower = std::min(upper, value_at(stated.frontier_bound, bytes));
    if (upper - lower > widest.first - widest.second) widest = {upper, lower};
  }
  return widest;
}

// What is wrong with the curves; empty: nothing.
std::string fault_of_curves(const StatedCheckpointing& stated,
                            const std::vector<PeakAndTime>& plans) {
  const auto& upper = stated.frontier;
  const auto& lower = stated.frontier_bound.empty() ? upper : stated.frontier_bound;
  std::vector<Bytes> ends;
  for (const auto* curve : {&upper, &lower}) {
    for (const auto& point : *curve) ends.insert(ends.end(), {point.bytes - 1, point.bytes});
  }
  for (const PeakAndTime& plan : plans) ends.insert(ends.end(), {plan.peak - 1, plan.peak});
  for (const Bytes bytes : ends) {
    if (bytes < 0) continue;
    const double least = least_at(plans, bytes);
    if (is_below(value_at(upper, bytes), least)) {
      return fmt::format("no plan of {} bytes takes as little as the frontier says", bytes);
    }
    if (is_below(least, value_at(lower, bytes))) {
      return fmt::format("a plan of {} bytes takes less than the frontier says", bytes);
    }
  }
  return "";
}

// What is wrong with curves that are too large to be enumerated, held against prices on bytes and
// the least peak; empty: nothing that these show.
std::string fault_by_prices(const JudgedCheckpoint& given) {
  const StatedCheckpointing& stated = given.options->stated;
  if (const auto least = find_least_peak(given)) {
    const auto& lower = stated.frontier_bound.empty() ? stated.frontier : stated.frontier_bound;
    if (stated.frontier.front().bytes < *least) {
      return fmt::format("no plan needs less than {} bytes, and the frontier begins at {}", *least,
                         stated.frontier.front().bytes);
    }
    if (lower.front().bytes > *least) {
      return fmt::format("a plan needs {} bytes only, and the bounds begin at {}", *least,
                         lower.front().bytes);
    }
  }
  const std::vector<PriceLine> lines = price_lines(given);
  for (const auto& point : stated.frontier) {
    double bound = 0;
    for (const PriceLine& line : lines) bound = std::max(bound, line.at(point.bytes));
    if (!is_below(point.ms, bound)) continue;
    return fmt::format("a plan of {} bytes is said to take {} ms, and prices prove {} ms",
                       point.bytes, point.ms, bound);
  }
  return "";
}

}  // namespace

void check_making(const StatedCheckpointing& stated, CheckpointFindings& findings) {
  for (const std::string& contradiction : stated.contradictions) {
    findings.add(Code::kWrongInput, "", "", "", contradiction);
  }
}

void check_stated(const JudgedCheckpoint& given, const CheckpointReport& report,
                  CheckpointFindings& findings) {
  const CheckpointCheckOptions& options = *given.options;
  const StatedCheckpointing& stated = options.stated;
  check_making(stated, findings);
  const auto& certificate = stated.claims.certificate;
  if (certificate && !std::isnan(certificate->objective) &&
      !is_same_time(certificate->objective, report.recompute_ms)) {
    findings.add(Code::kObjective, "", fmt::format("{} ms", report.recompute_ms),
                 fmt::format("{} ms", certificate->objective),
                 "the certificate is of another recompute time than the plan's");
  }
  if (stated.is_for_other_rules) return;
  if (options.predicted_peak && *options.predicted_peak > report.peak + stated.peak_slack) {
    findings.add(Code::kPeakTooHigh, report.binding, bytes_text(report.peak),
                 bytes_text(*options.predicted_peak), "the step needs less than the plan says");
  }
  const Bytes baseline =
      stated.is_upstream_baseline ? upstream_baseline(given) : peak_without_units(given);
  if (stated.baseline_peak && *stated.baseline_peak != baseline) {
    findings.add(Code::kBaseline, "", bytes_text(baseline), bytes_text(*stated.baseline_peak),
                 "a step without checkpointing does not need what the plan says");
  }
  if (stated.binding && !is_binding(given, report, *stated.binding)) {
    findings.add(Code::kBinding, *stated.binding, report.binding, *stated.binding,
                 "the module's backward does not need the peak");
  }
  check_profile(given, report, findings);
}

CertificateJudgement judge_plan_claims(const JudgedCheckpoint& given,
                                       const CheckpointReport& report, bool is_right) {
  const CheckpointCheckOptions& options = *given.options;
  const StatedCheckpointing& stated = options.stated;
  const auto& certificate = stated.claims.certificate;
  CertificateClaims claims = stated.claims;
  claims.is_right = is_right;
  KnownOptimum known;
  if (is_right) known.value = report.recompute_ms;
  if (stated.is_for_other_rules) {
    known.obstacle = "the plan is checked by other rules than it was made by";
    return judge_certificate(claims, known);
  }
  if (stated.is_of_upstream) {
    known.obstacle = "torch's program has rules of its own, which the checker does not repeat";
    return judge_certificate(claims, known);
  }
  const Bytes budget = stated.budget.value_or(options.predicted_peak.value_or(report.peak));
  add_simple_knowledge(given, budget, known);
  if (certificate && certificate->lower_bound) {
    add_searched_knowledge(given, budget, *certificate->lower_bound, known);
  }
  return judge_certificate(claims, known);
}

CertificateJudgement judge_no_plan(const JudgedCheckpoint& given) {
  const StatedCheckpointing& stated = given.options->stated;
  KnownOptimum known;
  if (stated.claims.status == SolveStatus::kInfeasible && !stated.budget) {
    known.obstacle = "the answer does not say within what budget";
  } else if (stated.is_for_other_rules || stated.is_of_upstream) {
    known.obstacle = "it was found by other rules than the checker's";
  } else if (stated.claims.status == SolveStatus::kInfeasible) {
    if (given.options->has_runs_or_nested) {
      known.obstacle = "runs of modules and units within units are not enumerated by the checker";
    }
    if (const auto least = find_least_peak(given)) {
      known.is_infeasible = *least > *stated.budget;
      known.proof = fmt::format("no plan needs less than {} bytes", *least);
      if (!known.is_infeasible) {
        known.plans.push_back({0, fmt::format("a plan of {} bytes", *least)});
      } else if (stated.missing && *stated.missing != *least - *stated.budget) {
        return {CertificateStatus::kRefuted, fmt::format("{} bytes are missing, not {}",
                                                         *least - *stated.budget, *stated.missing)};
      }
    }
  }
  return judge_certificate(stated.claims, known);
}

CertificateJudgement judge_frontier(const JudgedCheckpoint& given) {
  const StatedCheckpointing& stated = given.options->stated;
  if (stated.frontier.empty()) {
    return {CertificateStatus::kRefuted, "the answer holds neither a plan nor a frontier"};
  }
  if (stated.claims.status == SolveStatus::kOptimal && !stated.frontier_bound.empty()) {
    return {CertificateStatus::kRefuted, "said to be optimal beside a bound of its own"};
  }
  if (!says_where_exact(stated)) {
    return {CertificateStatus::kRefuted, "is_exact: it is not said where the curves meet"};
  }
  CertificateClaims claims = stated.claims;
  claims.has_plan = true;
  KnownOptimum known;
  const auto [widest_ms, widest_bound] = widest_point(stated);
  known.value = widest_ms;
  if (stated.is_for_other_rules) {
    known.obstacle = "the frontier is checked by other rules than it was made by";
    return judge_certificate(claims, known);
  }
  if (const auto& certificate = claims.certificate;
      certificate && !is_same_time(certificate->objective, *known.value)) {
    return {CertificateStatus::kRefuted,
            "the certificate is not of the budget where frontier and bound are farthest apart"};
  }
  const CheckpointOptimum all = find_checkpoint_plans(given, std::nullopt);
  known.obstacle = all.obstacle;
  if (all.obstacle.empty()) {
    if (std::string fault = fault_of_curves(stated, all.plans); !fault.empty()) {
      return {CertificateStatus::kRefuted, std::move(fault)};
    }
    known.bound = widest_bound;
    known.proof =
        fmt::format("the checker's own search of {} states finds the same curve", all.num_labels);
  } else if (std::string fault = fault_by_prices(given); !fault.empty()) {
    return {CertificateStatus::kRefuted, std::move(fault)};
  } else if (prices_prove(given, stated.frontier_bound)) {
    known.obstacle.clear();
    known.bound = widest_bound;
    known.proof = "prices on the bytes of a module's backward prove every line of the bound";
  }
  return judge_certificate(claims, known);
}

}  // namespace plimsoll::check
