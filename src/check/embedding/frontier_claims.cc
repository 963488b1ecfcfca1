#include "check/embedding/frontier_claims.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "balance/verify/verify_bound.h"
#include "check/embedding/bound_attempt.h"
#include "check/tolerances.h"

namespace plimsoll::check {
namespace {

class FrontierClaimsJudge {
 public:
  FrontierClaimsJudge(const PlanSpace& space, const embedding::BridgeOptions& rules,
                      const StatedFrontier& stated, const JudgedFrontierPlan& own)
      : space_(space), rules_(rules), stated_(stated), own_(own) {}

  Result<CheckReport> judge() {
    found_.findings = check_frontier(stated_, own_);
    if (!found_.is_right()) return std::move(found_);
    judge_counts();
    for (std::size_t i = 0; i < stated_.plans.size() && found_.is_right(); ++i) {
      PLIMSOLL_RETURN_IF_ERROR(judge_plan(stated_.upper[i], stated_.plans[i]));
    }
    for (std::size_t i = 0; i < stated_.lower.size() && found_.is_right(); ++i) {
      PLIMSOLL_RETURN_IF_ERROR(judge_bound(i));
    }
    return std::move(found_);
  }

 private:
  void find(std::string message) {
    found_.violate(FindingCode::kFrontierMismatch, std::move(message));
  }

  void leave(std::string message) {
    if (found_.warnings().empty()) found_.leave_open(std::move(message));
  }

  void judge_counts() {
    if (stated_.plans.empty()) {
      leave("the curve of memory against time does not show its plans");
    } else if (stated_.plans.size() != stated_.upper.size()) {
      find(fmt::format("the curve has {} points and {} plans", stated_.upper.size(),
                       stated_.plans.size()));
    }
    if (!stated_.proofs.empty() && stated_.proofs.size() != stated_.lower.size()) {
      find(fmt::format("the curve has {} bounds and {} proofs", stated_.lower.size(),
                       stated_.proofs.size()));
    }
  }

  Result<void> judge_plan(const math::FrontierPoint& point, const PointPlan& stated) {
    PLIMSOLL_ASSIGN(const OtherPlan plan, judge_other(space_, rules_, stated.plan, stated.options));
    const std::string name = fmt::format("the curve's plan of {} bytes a rank", point.bytes);
    if (!plan.fault.empty()) {
      find(name + " is wrong: " + plan.fault);
    } else if (!rules_.keeps_hazards && plan.num_hazards > own_.num_hazards) {
      find(fmt::format("{} has {} hazards, the plan beside the curve {}", name, plan.num_hazards,
                       own_.num_hazards));
    } else if (plan.hbm != point.bytes) {
      find(fmt::format("{} takes {} bytes", name, plan.hbm));
    } else {
      const double ms = value_of(plan.times, rules_.objective);
      if (std::abs(ms - point.ms) <= kTolerance * std::max(ms, point.ms)) return {};
      find(fmt::format("{} is stated to take {} ms, but takes {} ms", name, point.ms, ms));
    }
    return {};
  }

  // Of fewer bytes than the point's no plan is below the point before.
  Result<void> judge_bound(std::size_t i) {
    const math::FrontierPoint& point = stated_.lower[i];
    if (point.bytes == 0) return {};
    const double claimed =
        i == 0 ? std::numeric_limits<double>::infinity() : stated_.lower[i - 1].ms;
    BoundScope scope{rules_, std::nullopt};
    if (!rules_.keeps_hazards) scope.max_hazards = own_.num_hazards;
    scope.rules.max_hbm =
        std::min(point.bytes - 1, rules_.max_hbm.value_or(std::numeric_limits<Bytes>::max()));
    PLIMSOLL_ASSIGN(const embedding::PlacementBridge bridge,
                    make_bounded_bridge(space_.input, scope.rules));
    if (bridge.is_tighter) {
      leave("no bound holds for all plans where rules hold these tables together");
      return {};
    }
    if (!stated_.proofs.empty() && stated_.proofs[i]) {
      judge_prices(point, claimed, bridge.problem, *stated_.proofs[i]);
      return {};
    }
    PlanSpace space = space_;
    space.bridge = &bridge;
    const std::int64_t num_bounds = std::ssize(stated_.lower);
    const ExhaustiveLimits all;
    PLIMSOLL_ASSIGN(const BoundAttempt attempt,
                    attempt_bound(space, scope, claimed,
                                  {std::max<std::int64_t>(all.max_nodes / num_bounds, 1),
                                   std::max<std::int64_t>(all.max_ranks_seen / num_bounds, 1)}));
    if (attempt.refuter) {
      find(fmt::format("{} is said to be proved, and the checker found a plan of {} ms",
                       claim_text(point, claimed), *attempt.refuter));
    } else if (attempt.proof.empty()) {
      leave(claim_text(point, claimed) + " is stated without a proof that can be repeated here");
    }
    return {};
  }

  void judge_prices(const math::FrontierPoint& point, double claimed,
                    const balance::PlacementProblem& problem,
                    const balance::PlacementBound& bound) {
    const std::string fault = find_bound_fault(bound, balance::verify_bound(problem, bound));
    if (!fault.empty()) {
      find(fmt::format("{}: {}", claim_text(point, claimed), fault));
    } else if (bound.value < claimed * (1 - kBoundTolerance)) {
      find(fmt::format("{} is said to be proved, and the prices prove {}",
                       claim_text(point, claimed), plan_text(bound.value, rules_.rating_cap)));
    }
  }

  std::string claim_text(const math::FrontierPoint& point, double claimed) const {
    return fmt::format("below {} bytes a rank, {}", point.bytes,
                       plan_text(claimed, rules_.rating_cap));
  }

  const PlanSpace& space_;
  const embedding::BridgeOptions& rules_;
  const StatedFrontier& stated_;
  const JudgedFrontierPlan& own_;
  CheckReport found_;
};

}  // namespace

Result<CheckReport> judge_frontier_claims(const PlanSpace& space,
                                          const embedding::BridgeOptions& rules,
                                          const StatedFrontier& stated,
                                          const JudgedFrontierPlan& own) {
  return FrontierClaimsJudge(space, rules, stated, own).judge();
}

}  // namespace plimsoll::check
