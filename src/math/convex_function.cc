#include "math/convex_function.h"

#include <algorithm>

namespace plimsoll::math {
namespace {

double slope_between(const Segment& from, const Segment& to) {
  return (to.y - from.y) / static_cast<double>(to.x - from.x);
}

// Adds a vertex to the right of a lower hull.
void add_vertex(PiecewiseLinear& hull, Bytes x, double y) {
  if (!hull.empty() && hull.back().x == x) {
    if (hull.back().y <= y) return;
    hull.pop_back();
  }
  if (!hull.empty() && hull.back().y <= y) return;  // never increases
  const Segment vertex{x, y, 0};
  while (hull.size() >= 2 &&
         slope_between(hull[hull.size() - 2], hull.back()) >= slope_between(hull.back(), vertex)) {
    hull.pop_back();
  }
  hull.push_back(vertex);
}

void set_slopes(PiecewiseLinear& hull) {
  for (std::size_t k = 0; k + 1 < hull.size(); ++k) {
    hull[k].slope = slope_between(hull[k], hull[k + 1]);
  }
  if (!hull.empty()) hull.back().slope = 0;
}

}  // namespace

PiecewiseLinear lower_convex_hull(const PiecewiseLinear& f) {
  PiecewiseLinear hull;
  for (const Segment& segment : f) add_vertex(hull, segment.x, segment.y);
  set_slopes(hull);
  return hull;
}

PiecewiseLinear convex_minimum(const PiecewiseLinear& a, const PiecewiseLinear& b) {
  PiecewiseLinear hull;
  hull.reserve(a.size() + b.size());
  for (std::size_t i = 0, j = 0; i < a.size() || j < b.size();) {
    const bool take_a = j == b.size() || (i < a.size() && a[i].x < b[j].x);
    const Segment& vertex = take_a ? a[i++] : b[j++];
    add_vertex(hull, vertex.x, vertex.y);
  }
  set_slopes(hull);
  return hull;
}

ConvexHullOfPoints lower_convex_hull(const std::vector<CostPoint>& points) {
  // Seen from the most bytes down the price never increases.
  PiecewiseLinear mirrored;
  for (const CostPoint& point : points) mirrored.push_back({-point.bytes, point.price, 0});
  std::sort(mirrored.begin(), mirrored.end(),
            [](const Segment& a, const Segment& b) { return a.x != b.x ? a.x < b.x : a.y < b.y; });
  const PiecewiseLinear hull = lower_convex_hull(mirrored);
  ConvexHullOfPoints out;
  out.least_bytes = -hull.back().x;
  out.cost.fixed = hull.back().y;
  for (std::size_t k = hull.size() - 1; k > 0; --k) {
    out.cost.pieces.push_back({hull[k].x - hull[k - 1].x, -hull[k - 1].slope});
  }
  return out;
}

PiecewiseLinear convex_convolution(const PiecewiseLinear& w, const ConvexCost& cost) {
  PiecewiseLinear out;
  if (w.empty()) return out;
  const Bytes capacity = cost.capacity();
  Segment now{w[0].x - capacity, w[0].y + cost.price(capacity), 0};
  const auto add = [&](Bytes length, double slope) {
    out.push_back({now.x, now.y, slope});
    now.x += length;
    now.y += slope * static_cast<double>(length);
  };
  out.reserve(w.size() + cost.pieces.size());
  std::size_t i = 0;
  for (auto piece = cost.pieces.rbegin(); piece != cost.pieces.rend(); ++piece) {
    for (; i + 1 < w.size() && w[i].slope <= -piece->slope; ++i) {
      add(w[i + 1].x - w[i].x, w[i].slope);
    }
    if (piece->slope == 0 && i + 1 == w.size()) break;  // the tail is flat anyway
    add(piece->length, -piece->slope);
  }
  for (; i + 1 < w.size(); ++i) add(w[i + 1].x - w[i].x, w[i].slope);
  out.push_back({now.x, now.y, 0});
  return out;
}

void flatten_beyond(PiecewiseLinear& w, Bytes to) {
  if (w.empty() || w.back().x <= to) return;
  if (w.front().x > to) {
    w.clear();
    return;
  }
  const double y = value_at(w, to);
  while (w.back().x >= to) {
    w.pop_back();
    if (w.empty()) break;
  }
  w.push_back({to, y, 0});
}

}  // namespace plimsoll::math
