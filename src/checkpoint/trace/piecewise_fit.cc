#include "checkpoint/trace/piecewise_fit.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

namespace plimsoll::checkpoint {
namespace {

constexpr double kMaxChoices = 1e6;

struct Line {
  double slope = 0;
  double intercept = 0;
};

// A place for a break. Even: at point place / 2. Odd: free, between the points place / 2 and the
// next.
using Place = int;
bool is_free(Place place) { return place % 2 == 1; }

Error failure(const std::string& message) {
  return {ErrorCode::kValue, "", "the fit failed: " + message,
          "leave the module out of the fitted mode", ""};
}

// Least squares by modified Gram-Schmidt: the coefficients of `columns` that come nearest to
// `target`; nothing where the columns depend on each other.
std::optional<std::vector<double>> solve_least_squares(std::vector<std::vector<double>> columns,
                                                       std::vector<double> target) {
  const std::size_t k = columns.size();
  const auto dot = [](const std::vector<double>& a, const std::vector<double>& b) {
    double sum = 0;
    for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
    return sum;
  };
  const auto subtract = [](std::vector<double>& a, double factor, const std::vector<double>& b) {
    for (std::size_t i = 0; i < a.size(); ++i) a[i] -= factor * b[i];
  };
  constexpr double kDependent = 1e-12;  // of the column's own length
  std::vector<std::vector<double>> r(k, std::vector<double>(k));
  std::vector<double> coefficients(k);
  for (std::size_t j = 0; j < k; ++j) {
    const double length = std::sqrt(dot(columns[j], columns[j]));
    for (std::size_t i = 0; i < j; ++i) {
      r[i][j] = dot(columns[i], columns[j]);
      subtract(columns[j], r[i][j], columns[i]);
    }
    r[j][j] = std::sqrt(dot(columns[j], columns[j]));
    if (!(r[j][j] > kDependent * length)) return std::nullopt;
    for (double& value : columns[j]) value /= r[j][j];
    coefficients[j] = dot(columns[j], target);
    subtract(target, coefficients[j], columns[j]);
  }
  for (std::size_t j = k; j-- > 0;) {
    for (std::size_t i = j + 1; i < k; ++i) coefficients[j] -= r[j][i] * coefficients[i];
    coefficients[j] /= r[j][j];
  }
  return coefficients;
}

// The best lines through the points from `first` to `last` that join at the points `joints`.
bool fit_block(std::span<const CurvePoint> points, std::size_t first, std::size_t last,
               std::span<const std::size_t> joints, std::vector<Line>& lines) {
  const std::size_t n = last - first + 1;
  if (n < joints.size() + 2) return false;
  const double origin = points[first].first;
  std::vector<std::vector<double>> columns(joints.size() + 2, std::vector<double>(n));
  std::vector<double> target(n);
  for (std::size_t i = 0; i < n; ++i) {
    const auto& [x, y] = points[first + i];
    columns[0][i] = 1;
    columns[1][i] = x - origin;
    for (std::size_t j = 0; j < joints.size(); ++j) {
      columns[j + 2][i] = std::max(x - points[joints[j]].first, 0.0);
    }
    target[i] = y;
  }
  const auto coefficients = solve_least_squares(std::move(columns), std::move(target));
  if (!coefficients) return false;
  Line line{(*coefficients)[1], (*coefficients)[0] - (*coefficients)[1] * origin};
  lines.push_back(line);
  for (std::size_t j = 0; j < joints.size(); ++j) {
    const double turn = (*coefficients)[j + 2];
    line = {line.slope + turn, line.intercept - turn * points[joints[j]].first};
    lines.push_back(line);
  }
  return true;
}

// The best fit with breaks at `places`; nothing where the lines are not determined or do not meet
// where they should.
std::optional<PiecewiseFit> fit_at(std::span<const CurvePoint> points,
                                   const std::vector<Place>& places) {
  std::vector<Line> lines;
  std::vector<std::size_t> joints;
  std::size_t first = 0;
  for (const Place place : places) {
    const auto point = static_cast<std::size_t>(place / 2);
    if (!is_free(place)) {
      joints.push_back(point);
      continue;
    }
    if (!fit_block(points, first, point, joints, lines)) return std::nullopt;
    joints.clear();
    first = point + 1;
  }
  if (!fit_block(points, first, points.size() - 1, joints, lines)) return std::nullopt;

  PiecewiseFit fit;
  fit.breaks.push_back(points.front().first);
  for (std::size_t j = 0; j < places.size(); ++j) {
    const auto point = static_cast<std::size_t>(places[j] / 2);
    double x = points[point].first;
    if (is_free(places[j])) {
      x = (lines[j].intercept - lines[j + 1].intercept) / (lines[j + 1].slope - lines[j].slope);
      if (!(points[point].first <= x && x <= points[point + 1].first)) return std::nullopt;
    }
    fit.breaks.push_back(x);
  }
  fit.breaks.push_back(points.back().first);
  for (const Line& line : lines) {
    fit.slopes.push_back(line.slope);
    fit.intercepts.push_back(line.intercept);
  }
  std::size_t segment = 0;
  for (const auto& [x, y] : points) {
    while (segment + 1 < lines.size() && x > fit.breaks[segment + 1]) ++segment;
    const double error = y - (fit.slopes[segment] * x + fit.intercepts[segment]);
    fit.sum_of_squares += error * error;
  }
  return fit;
}

// Tries every increasing choice of `missing` more places.
void search(std::span<const CurvePoint> points, int missing, std::vector<Place>& places,
            std::optional<PiecewiseFit>& best) {
  if (missing == 0) {
    auto fit = fit_at(points, places);
    if (fit && (!best || fit->sum_of_squares < best->sum_of_squares)) best = std::move(fit);
    return;
  }
  const auto last = static_cast<Place>(2 * (points.size() - 1));
  for (Place place = places.empty() ? 1 : places.back() + 1; place < last; ++place) {
    places.push_back(place);
    search(points, missing - 1, places, best);
    places.pop_back();
  }
}

}  // namespace

Result<PiecewiseFit> fit_piecewise(std::span<const CurvePoint> points, int num_segments) {
  if (num_segments < 1) {
    return fail(ErrorCode::kValue, "n_segments", fmt::format("n_segments is {}", num_segments),
                "give a number of at least 1");
  }
  if (points.size() < 2) {
    return tl::unexpected(failure(fmt::format("{} points make no line", points.size())));
  }
  for (std::size_t i = 0; i < points.size(); ++i) {
    if (!std::isfinite(points[i].first) || !std::isfinite(points[i].second)) {
      return tl::unexpected(failure(fmt::format("point {} is not finite", i)));
    }
    if (i > 0 && points[i].first <= points[i - 1].first) {
      return tl::unexpected(failure(fmt::format("x does not increase at point {}", i)));
    }
  }
  double choices = 1;
  for (int k = 1; k < num_segments; ++k) choices *= 2 * static_cast<double>(points.size()) / k;
  if (choices > kMaxChoices) {
    return fail(ErrorCode::kValue, "n_segments",
                fmt::format("{} segments through {} points are too many to try", num_segments,
                            points.size()),
                "ask for fewer segments");
  }
  std::vector<Place> places;
  std::optional<PiecewiseFit> best;
  search(points, num_segments - 1, places, best);
  if (best) return *std::move(best);
  return tl::unexpected(
      failure(fmt::format("{} points do not determine {} segments", points.size(), num_segments)));
}

Result<PiecewiseFit> fit_tradeoff_curve(std::span<const CurvePoint> curve, int num_segments) {
  std::vector<CurvePoint> shifted;
  for (std::size_t i = 0; i + 1 < curve.size(); ++i) {
    shifted.emplace_back(curve[i].first, curve[i + 1].second);
  }
  const int num_points = static_cast<int>(shifted.size());
  return fit_piecewise(shifted, std::max(std::min(num_points - 2, num_segments), 1));
}

}  // namespace plimsoll::checkpoint
