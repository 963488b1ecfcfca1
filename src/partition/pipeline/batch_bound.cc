#include "partition/pipeline/batch_bound.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "core/check.h"
#include "core/rounding.h"
#include "plimsoll/core/numbers.h"

namespace plimsoll::partition {
namespace {

constexpr double kResolution = 1e-7;
constexpr int kMaxTangents = 40;
constexpr int kMaxDoublings = 100;

// The top of a concave function, between a place where it rises and one where it falls: where the
// tangents meet nothing is higher than they are. `look(x)` gives a Point with x, value and slope.
template <class Point, class Look>
std::pair<Point, Point> climb(Point low, Point high, Look look) {
  for (int i = 0; i < kMaxTangents; ++i) {
    const double met = (high.value - low.value + low.slope * low.x - high.slope * high.x) /
                       (low.slope - high.slope);
    if (!(met > low.x && met < high.x)) break;
    const double roof = low.value + low.slope * (met - low.x);
    const Point middle = look(met);
    (middle.slope > 0 ? low : high) = middle;
    if (roof - middle.value <= kResolution * std::abs(roof)) break;
  }
  return {low, high};
}

}  // namespace

// The bound's terms that do not depend on items.
struct BatchBound::Terms {
  double constant = 0;
  double device_ms = 0;     // what the price of time is paid for
  double most = kInfinity;  // that price
};

struct BatchBound::Point {
  double x = 0, value = 0, slope = 0;  // along the price that is looked for
  double bytes = 0;                    // slope along the price of bytes
  BatchPrices prices;
};

BatchBound::BatchBound(BatchItems items) : items_(std::move(items)) {
  for (std::size_t i = 0; i < items_.num_items(); ++i) {
    double device_ms = kInfinity;
    double bytes = kInfinity;
    for (std::size_t o = items_.first[i]; o < items_.first[i + 1]; ++o) {
      const BatchOption& option = items_.options[o];
      device_ms = std::min(device_ms, option.devices * option.time_ms);
      bytes = std::min(bytes, option.bytes);
    }
    least_device_ms_ += device_ms;
    least_bytes_ += bytes;
  }
}

BatchBound::Point BatchBound::look(const BatchPrices& prices, const Terms& terms) const {
  double value = 0;
  double device_ms = 0;
  double bytes = 0;
  for (std::size_t i = 0; i < items_.num_items(); ++i) {
    double least = kInfinity;
    const BatchOption* best = nullptr;
    for (std::size_t o = items_.first[i]; o < items_.first[i + 1]; ++o) {
      const BatchOption& option = items_.options[o];
      const double cost =
          option.time_ms * (1 + prices.device_ms * option.devices) + prices.byte * option.bytes;
      if (cost < least) {
        least = cost;
        best = &option;
      }
    }
    value += least;
    device_ms += best->devices * best->time_ms;
    bytes += best->bytes;
  }
  value += terms.constant - prices.device_ms * terms.device_ms;
  if (prices.byte > 0) value -= prices.byte * items_.bytes;
  return {prices.device_ms, value, device_ms - terms.device_ms, bytes - items_.bytes, prices};
}

BatchBound::Point BatchBound::raise_time(double byte_price, const Terms& terms) const {
  const auto at = [&](double price) { return look({price, byte_price}, terms); };
  Point low = at(0);
  if (!(low.slope > 0) || terms.most == 0) return low;
  double price = std::min(terms.most, 1 / items_.devices);
  Point high = at(price);
  for (int i = 0; high.slope > 0 && price < terms.most && i < kMaxDoublings; ++i) {
    low = high;
    price = std::min(terms.most, 2 * price);
    high = at(price);
  }
  if (high.slope >= 0) return high;
  const auto [left, right] = climb(low, high, at);
  // At the top the slopes of both sides balance, and so do those along the price of bytes.
  Point top = left.value > right.value ? left : right;
  const double share = left.slope / (left.slope - right.slope);
  top.bytes = left.bytes + share * (right.bytes - left.bytes);
  return top;
}

BatchBound::Point BatchBound::raise(const Terms& terms) const {
  if (!std::isfinite(items_.bytes)) return raise_time(0, terms);
  const auto at = [&](double price) {
    Point point = raise_time(price, terms);
    point.x = price;
    point.slope = point.bytes;
    return point;
  };
  Point low = at(0);
  if (!(low.slope > 0)) return low;
  // Such that the bytes of all items cost about what their time does.
  double price = std::max(low.value, 1e-6) / std::max(1.0, items_.bytes);
  Point high = at(price);
  for (int i = 0; high.slope > 0 && i < kMaxDoublings; ++i) {
    low = high;
    price *= 2;
    high = at(price);
  }
  if (high.slope >= 0) return high;
  const auto [left, right] = climb(low, high, at);
  return left.value > right.value ? left : right;
}

double BatchBound::batch(double weight, double slowest) const {
  PLIMSOLL_CHECK(weight >= 0 && slowest >= 0, "weight and slowest stage are not negative");
  if (least_bytes_ > items_.bytes * (1 + kRounding)) return kInfinity;
  const Terms terms{weight * slowest, items_.devices * slowest, weight / items_.devices};
  return std::max(0.0, raise(terms).value) * (1 - kRounding);
}

double BatchBound::sum_within(double limit) const {
  if (least_bytes_ > items_.bytes * (1 + kRounding)) return kInfinity;
  if (least_device_ms_ > items_.devices * limit * (1 + kRounding)) return kInfinity;
  return std::max(0.0, raise({0, items_.devices * limit, kInfinity}).value) * (1 - kRounding);
}

BatchPrices BatchBound::prices_within(double limit) const {
  return raise({0, items_.devices * limit, kInfinity}).prices;
}

std::vector<double> BatchBound::at(const BatchPrices& prices) const {
  std::vector<double> values;
  values.reserve(items_.num_items());
  for (std::size_t i = 0; i < items_.num_items(); ++i) {
    double least = kInfinity;
    for (std::size_t o = items_.first[i]; o < items_.first[i + 1]; ++o) {
      const BatchOption& option = items_.options[o];
      least = std::min(least, option.time_ms * (1 + prices.device_ms * option.devices) +
                                  prices.byte * option.bytes);
    }
    values.push_back(least);
  }
  return values;
}

}  // namespace plimsoll::partition
