#include "checkpoint/frontier/near_choices.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "checkpoint/model/unit_points.h"
#include "core/rounding.h"
#include "math/convex_function.h"
#include "plimsoll/core/numbers.h"

namespace plimsoll::checkpoint {
namespace {

constexpr std::size_t kMaxNear = 1 << 12;  // choices of one module
// Choices this far above the ceiling stay, relative: times are sums of rounded numbers.

// What surrounds a unit: P and V at every slack where one of them bends.
class Surroundings {
 public:
  Surroundings(const math::PiecewiseLinear& entry, const math::PiecewiseLinear& rest,
               Bytes threshold) {
    std::vector<Bytes> slacks{threshold};
    for (const math::Segment& piece : entry) slacks.push_back(-piece.x);
    for (const math::Segment& piece : rest) slacks.push_back(piece.x);
    std::sort(slacks.begin(), slacks.end(), std::greater<>());
    slacks.erase(std::unique(slacks.begin(), slacks.end()), slacks.end());
    std::size_t p = 0, v = rest.size();
    for (const Bytes slack : slacks) {
      while (p + 1 < entry.size() && entry[p + 1].x <= -slack) ++p;
      while (v > 0 && rest[v - 1].x > slack) --v;
      Bend& bend = bends_.emplace_back();
      bend.slack = static_cast<double>(slack);
      if (slack >= threshold && !entry.empty() && -slack >= entry[p].x) {
        bend.entry = entry[p].y + entry[p].slope * static_cast<double>(-slack - entry[p].x);
      }
      if (v > 0) {
        bend.rest = rest[v - 1].y + rest[v - 1].slope * static_cast<double>(slack - rest[v - 1].x);
      }
    }
  }

  // The least of P(s) + V(s + d) + price * d.
  double least(double price) const {
    double best = kInfinity, later = kInfinity;
    for (const Bend& bend : bends_) {
      later = std::min(later, bend.rest + price * bend.slack);
      best = std::min(best, bend.entry - price * bend.slack + later);
    }
    return best;
  }

 private:
  struct Bend {
    double slack = 0, entry = kInfinity, rest = kInfinity;
  };
  std::vector<Bend> bends_;  // by falling slack
};

double least_of(const math::ConvexHullOfPoints& hull, double price) {
  double least = hull.cost.fixed - price * static_cast<double>(hull.least_bytes);
  for (const math::CostPiece& piece : hull.cost.pieces) {
    if (piece.slope >= price) break;
    least += (piece.slope - price) * static_cast<double>(piece.length);
  }
  return least;
}

// The bound is concave in the price, so it has one top on a scale of powers, too.
UnitPrice best_price(const Surroundings& around, const math::ConvexHullOfPoints& hull) {
  constexpr int kSteps = 24;
  const Bytes most = hull.least_bytes + hull.cost.capacity();
  UnitPrice best{0, around.least(0)};
  double top = best.rest + least_of(hull, 0);
  const auto bound = [&](double exponent) {
    const double price = std::exp2(exponent);
    const double rest = around.least(price);
    const double value = rest + least_of(hull, price);
    if (value > top) {
      top = value;
      best = {price, rest};
    }
    return value;
  };
  const double steepest = hull.cost.pieces.empty()
                              ? hull.cost.fixed / static_cast<double>(std::max<Bytes>(1, most))
                              : hull.cost.pieces.back().slope;
  double high = std::log2(std::max(steepest, 1e-15)) + 4, low = high - 24;
  for (int k = 0; k < kSteps; ++k) {
    const double a = low + (high - low) / 3, b = high - (high - low) / 3;
    if (bound(a) < bound(b)) {
      low = a;
    } else {
      high = b;
    }
  }
  return best;
}

// Keeps what is within `left` at the price.
void keep_points(double price, double left, CandidateUnit& unit) {
  std::vector<math::CostPoint> points;
  std::vector<std::vector<char>> saves;
  for (std::size_t k = 0; k < unit.points.size(); ++k) {
    const math::CostPoint& point = unit.points[k];
    if (point.price - price * static_cast<double>(point.bytes) > left) continue;
    points.push_back(point);
    if (!unit.saves.empty()) saves.push_back(std::move(unit.saves[k]));
  }
  unit.points = std::move(points);
  unit.saves = std::move(saves);
}

// What a choice may take at the price; nothing, -infinity, of a unit that no plan has.
double left_for(const UnitPrice& price, double ceiling) {
  return ceiling + kRounding * (1 + std::fabs(ceiling)) - price.rest;
}

}  // namespace

std::vector<UnitPrice> find_unit_prices(const CheckpointProblem& problem, const Boundaries& entry,
                                        const Boundaries& rest) {
  std::vector<UnitPrice> prices;
  for (const CandidateUnit& unit : problem.units) {
    const auto& before = entry[unit.first];
    const auto& after = rest[unit.last + 1];
    if (before == nullptr || after == nullptr) {  // no plan has it
      prices.push_back({0, kInfinity});
      continue;
    }
    const bool may_nest = problem.model.nested_units;
    const Bytes threshold = may_nest ? std::numeric_limits<Bytes>::min() / 4 : unit.threshold;
    const math::ConvexHullOfPoints hull = unit.points.empty()
                                              ? math::ConvexHullOfPoints{0, unit.price}
                                              : math::lower_convex_hull(unit.points);
    prices.push_back(best_price(Surroundings(*before, *after, threshold), hull));
  }
  return prices;
}

std::optional<CheckpointProblem> near_problem(const CheckpointProblem& problem,
                                              const std::vector<UnitPrice>& prices,
                                              double ceiling) {
  CheckpointProblem listed = problem;
  OperatorRules rules = operator_rules(problem.model);
  rules.max_options = kMaxNear;
  for (std::size_t u = 0; u < listed.units.size(); ++u) {
    CandidateUnit& unit = listed.units[u];
    const double left = left_for(prices[u], ceiling);
    if (unit.loss_ms == 0 || left == -kInfinity) continue;
    const int table = problem.table_of.empty() ? -1 : problem.table_of[unit.nodes.front()];
    if (table < 0) return std::nullopt;
    const double price = prices[u].price;
    const double allowed =
        left - problem.model.unit_overhead_ms + price * static_cast<double>(unit.kept_inside);
    const auto choices = operator_options_within(problem.sac_stats[table], price, allowed, rules);
    if (!choices) return std::nullopt;
    set_points(problem.model, choices->options, unit);
    unit.loss_ms = unit.points.empty() ? kInfinity : 0;
  }
  listed.thinned.clear();
  return near_listed(listed, prices, ceiling);
}

CheckpointProblem near_listed(const CheckpointProblem& problem,
                              const std::vector<UnitPrice>& prices, double ceiling) {
  CheckpointProblem near = problem;
  near.units.clear();
  for (std::size_t u = 0; u < problem.units.size(); ++u) {
    const double left = left_for(prices[u], ceiling);
    if (left == -kInfinity) continue;
    CandidateUnit unit = problem.units[u];
    const bool is_convex = unit.points.empty();
    if (is_convex && unit.loss_ms == kInfinity) continue;  // no choice is near
    keep_points(prices[u].price, left, unit);
    if (is_convex || !unit.points.empty()) near.units.push_back(std::move(unit));
  }
  return near;
}

}  // namespace plimsoll::checkpoint
