#include "plimsoll/math/frontier.h"

#include <algorithm>
#include <cmath>

namespace plimsoll::math {
namespace {

// The last whole byte of piece k; the last piece is flat, so its first byte stands for all.
Bytes last_of(const PiecewiseLinear& f, std::size_t k) {
  return k + 1 < f.size() ? f[k + 1].x - 1 : f[k].x;
}

}  // namespace

Frontier::Frontier(PiecewiseLinear upper) : upper_(std::move(upper)) {}

Frontier::Frontier(PiecewiseLinear upper, PiecewiseLinear lower)
    : upper_(std::move(upper)), lower_(std::move(lower)) {}

std::vector<FrontierPoint> Frontier::breakpoints() const {
  std::vector<FrontierPoint> points;
  points.reserve(upper_.size());
  for (const Segment& piece : upper_) {
    const bool is_tight =
        is_exact() || piece.y - value_at(lower_, piece.x) <= kTie * (1 + std::fabs(piece.y));
    points.push_back({piece.x, piece.y, piece.slope, is_tight});
  }
  return points;
}

Bytes Frontier::saturation_bytes() const { return bytes_for(min_ms()).value_or(upper_.back().x); }

std::optional<double> Frontier::ms_at(Bytes bytes) const {
  const Segment* piece = find_segment(upper_, bytes);
  if (piece == nullptr) return std::nullopt;
  return line_at(*piece, bytes);
}

double Frontier::price_at(Bytes bytes) const {
  const Segment* piece = find_segment(upper_, bytes);
  return piece == nullptr ? kInfinity : -piece->slope;
}

std::optional<Bytes> Frontier::bytes_for(double ms) const {
  // Values at the ends of pieces never increase.
  std::size_t low = 0, high = upper_.size();
  while (low < high) {
    const std::size_t middle = (low + high) / 2;
    if (line_at(upper_[middle], last_of(upper_, middle)) <= ms) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  if (low == upper_.size()) return std::nullopt;
  const Segment& piece = upper_[low];
  if (piece.y <= ms) return piece.x;
  const Bytes last = last_of(upper_, low);
  const double distance = std::ceil((ms - piece.y) / piece.slope);
  Bytes at = distance < static_cast<double>(last - piece.x) ? piece.x + static_cast<Bytes>(distance)
                                                            : last;
  // The division may be a byte off.
  while (at < last && line_at(piece, at) > ms) ++at;
  while (at > piece.x && line_at(piece, at - 1) <= ms) --at;
  return at;
}

std::optional<PricedPoint> Frontier::cheapest_at(double price) const {
  if (is_empty()) return std::nullopt;
  const auto best_of = [price](const PiecewiseLinear& f) {
    PricedPoint best{f.front().x, kInfinity, 0};
    for (std::size_t k = 0; k < f.size(); ++k) {
      for (const Bytes bytes : {f[k].x, last_of(f, k)}) {
        const double cost = line_at(f[k], bytes) + price * static_cast<double>(bytes);
        if (cost < best.cost) best = {bytes, cost, 0};
      }
    }
    return best;
  };
  PricedPoint best = best_of(upper_);
  best.bound = is_exact() ? best.cost : best_of(lower_).cost;
  return best;
}

std::optional<Bytes> Frontier::knee() const {
  if (is_empty() || saturation_bytes() == min_bytes()) return std::nullopt;
  const double width = static_cast<double>(saturation_bytes() - min_bytes());
  const double height = max_ms() - min_ms();
  Bytes knee = min_bytes();
  double farthest = 0;
  for (std::size_t k = 0; k < upper_.size(); ++k) {
    for (const Bytes bytes : {upper_[k].x, last_of(upper_, k)}) {
      const double distance = 1 - static_cast<double>(bytes - min_bytes()) / width -
                              (line_at(upper_[k], bytes) - min_ms()) / height;
      if (distance > farthest) {
        farthest = distance;
        knee = bytes;
      }
    }
  }
  return knee;
}

}  // namespace plimsoll::math
