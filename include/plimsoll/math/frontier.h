// What a planner can do at every size of memory: cost against bytes, with a certified lower twin.
//
// One type for every planner, so that frontiers can be added up under one cap. Immutable and, by
// construction, non-increasing: more memory never costs more. `upper` is achieved by plans; `lower`
// is proved, and equal to `upper` where the planner is exact. Costs are milliseconds.
// Queries cost O(log n) for n breakpoints, but price, knee and the constructors, which are O(n).
// Source: docs/mathematics/checkpointing.md#adding-frontiers-up.
#pragma once

#include <optional>
#include <vector>

#include "plimsoll/math/piecewise_linear.h"

#pragma GCC visibility push(default)
namespace plimsoll::math {

struct FrontierPoint {
  Bytes bytes = 0;
  double ms = 0;
  double slope = 0;      // ms per byte until the next point, <= 0
  bool is_exact = true;  // nothing is cheaper at `bytes`
  bool operator==(const FrontierPoint&) const = default;
};

// The least of ms + price * bytes. `bound` is what no plan can go below.
struct PricedPoint {
  Bytes bytes = 0;  // the smallest that attains it
  double cost = 0;
  double bound = 0;
};

class Frontier {
 public:
  // A frontier of no plan at all.
  Frontier() = default;
  // Exact: upper and lower are one.
  explicit Frontier(PiecewiseLinear upper);
  Frontier(PiecewiseLinear upper, PiecewiseLinear lower);

  bool is_empty() const { return upper_.empty(); }
  bool is_exact() const { return lower_.empty(); }
  std::size_t num_breakpoints() const { return upper_.size(); }
  const PiecewiseLinear& upper() const { return upper_; }
  const PiecewiseLinear& lower() const { return is_exact() ? upper_ : lower_; }
  std::vector<FrontierPoint> breakpoints() const;

  // These four want a frontier that is not empty.
  Bytes min_bytes() const { return upper_.front().x; }  // the smallest size with a plan
  Bytes saturation_bytes() const;                       // more than this buys nothing
  double max_ms() const { return upper_.front().y; }    // at min_bytes
  double min_ms() const { return upper_.back().y; }     // at saturation_bytes

  // Cost at a size; absent below min_bytes.
  std::optional<double> ms_at(Bytes bytes) const;
  // What the next byte would buy: ms per byte, >= 0; jumps at the size itself are already bought.
  double price_at(Bytes bytes) const;
  // The smallest size whose cost is at most `ms`; absent below min_ms.
  std::optional<Bytes> bytes_for(double ms) const;
  // `price` in ms per byte, >= 0.
  std::optional<PricedPoint> cheapest_at(double price) const;
  // Where the curve is farthest below the chord from its first to its saturation point, both axes
  // scaled to 1; the smallest such size. Absent where the curve is a point.
  std::optional<Bytes> knee() const;

 private:
  PiecewiseLinear upper_;
  PiecewiseLinear lower_;  // empty: equal to upper_
};

}  // namespace plimsoll::math
#pragma GCC visibility pop
