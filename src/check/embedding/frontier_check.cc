#include "plimsoll/check/frontier_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace plimsoll::check {
namespace {

using math::FrontierPoint;
using Points = std::vector<FrontierPoint>;

constexpr double kPassedOnTolerance =
    1e-8;  // relative: bounds give up some 1e-9 each time they are passed on

bool is_above(double a, double b) { return a - b > kPassedOnTolerance * std::abs(b); }

// The last point at or below the size; nothing left of the first.
const FrontierPoint* find_at(const Points& points, Bytes bytes) {
  const auto next =
      std::upper_bound(points.begin(), points.end(), bytes,
                       [](Bytes size, const FrontierPoint& point) { return size < point.bytes; });
  return next == points.begin() ? nullptr : &*(next - 1);
}

class FrontierJudge {
 public:
  FrontierJudge(const StatedFrontier& stated, const JudgedFrontierPlan& plan)
      : stated_(stated), plan_(plan) {}

  std::vector<Finding> judge() {
    if (stated_.upper.empty() || stated_.lower.empty()) {
      find("the curve lacks its plans or its bounds");
      return std::move(violations_);
    }
    judge_steps("plans", stated_.upper);
    judge_steps("bounds", stated_.lower);
    if (!violations_.empty()) return std::move(violations_);
    judge_twins();
    judge_plan();
    return std::move(violations_);
  }

 private:
  void find(std::string message) {
    violations_.push_back(
        {FindingCode::kFrontierMismatch, "", std::nullopt, "", "", std::move(message)});
  }

  void judge_steps(std::string_view whose, const Points& points) {
    for (std::size_t i = 0; i < points.size(); ++i) {
      const FrontierPoint& point = points[i];
      if (point.slope != 0) find(fmt::format("the curve of {} is one of steps", whose));
      if (i == 0) continue;
      if (point.bytes <= points[i - 1].bytes || !(point.ms < points[i - 1].ms)) {
        return find(
            fmt::format("point {} of the curve of {} has not more bytes and less time than "
                        "the one before",
                        i, whose));
      }
    }
  }

  void judge_twins() {
    for (const FrontierPoint& point : stated_.upper) {
      const FrontierPoint* bound = find_at(stated_.lower, point.bytes);
      if (bound == nullptr || is_above(bound->ms, point.ms)) {
        return find(fmt::format(
            "a plan of {} bytes a rank is below what is said to be proved there", point.bytes));
      }
      const bool is_tight = point.ms - bound->ms <= math::kTie * (1 + std::abs(point.ms));
      if (point.is_exact != is_tight) {
        return find(fmt::format("the plan of {} bytes a rank is said {} the best there is",
                                point.bytes, point.is_exact ? "to be" : "not to be"));
      }
    }
    for (const FrontierPoint& bound : stated_.lower) {
      if (!bound.is_exact) return find("a bound is exact of itself");
    }
  }

  void judge_plan() {
    const FrontierPoint* at = find_at(stated_.upper, plan_.hbm);
    if (at == nullptr || is_above(at->ms, plan_.objective)) {
      find(
          fmt::format("the plan takes {} bytes of HBM on a rank and {} ms, and no point of the "
                      "curve is as good",
                      plan_.hbm, plan_.objective));
    }
    const FrontierPoint* least = find_at(stated_.lower, plan_.hbm);
    if (least == nullptr || is_above(least->ms, plan_.objective)) {
      find("the plan itself is below what is said to be proved at its size");
    }
    const double bound = plan_.lower_bound.value_or(0);
    if (is_above(bound, stated_.upper.back().ms)) {
      find("a point of the curve is below the certificate's bound");
    }
    // Bounds of smaller sizes may be the larger ones; never the other way round.
    if (is_above(stated_.lower.back().ms, bound) || is_above(bound, stated_.lower.back().ms)) {
      find(fmt::format("the curve's last bound is {} ms, the certificate's {} ms",
                       stated_.lower.back().ms, bound));
    }
  }

  const StatedFrontier& stated_;
  const JudgedFrontierPlan& plan_;
  std::vector<Finding> violations_;
};

}  // namespace

std::vector<Finding> check_frontier(const StatedFrontier& stated, const JudgedFrontierPlan& plan) {
  return FrontierJudge(stated, plan).judge();
}

}  // namespace plimsoll::check
