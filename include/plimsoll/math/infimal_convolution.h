// Buying bytes: min over d of g(d) + W(s + d), for a function W that never increases and a price g
// of d bytes.
//
// Method. A convex price is the infimal convolution of its own linear pieces, so its pieces are
// applied one after another, cheapest first. For one piece of slope m and length l the best point
// of W(u) + m u in the window [s, s + l] is the window's left end, its right end, or a valley of
// W(u) + m u inside; the best valley is followed by a sliding-window minimum over a monotone deque.
// A price that is a finite set of points is the minimum of as many shifted copies of W.
// Cost. O(n) a linear piece for n pieces of W (and of the results so far); O(n k log k) for k
// points. Promises. Exact at every integer except for the tolerance of the minimum. Source:
// docs/mathematics/checkpointing.md#buying-bytes.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "plimsoll/math/piecewise_linear.h"

#pragma GCC visibility push(default)
namespace plimsoll::math {

struct CostPiece {
  Bytes length = 0;  // > 0
  double slope = 0;  // >= 0, per byte
  bool operator==(const CostPiece&) const = default;
};

// Convex and non-decreasing on [0, capacity()].
struct ConvexCost {
  double fixed = 0;               // the price of 0 bytes, >= 0
  std::vector<CostPiece> pieces;  // slopes ascend strictly

  Bytes capacity() const;
  double price(Bytes bytes) const;  // 0 <= bytes <= capacity()
  bool operator==(const ConvexCost&) const = default;
};

// One way to buy.
struct CostPoint {
  Bytes bytes = 0;  // >= 0
  double price = 0;
  Bytes needs = std::numeric_limits<Bytes>::min();  // open only for s >= needs
  bool operator==(const CostPoint&) const = default;
};

// The convex function whose value at each integer of [0, capacity] is the largest of 0 and the
// lines {slope, intercept}, made non-decreasing; ends of its pieces are moved down to whole bytes,
// which raises it by less than one byte's worth of the change of slope.
struct Line {
  double slope = 0;
  double intercept = 0;
};
ConvexCost convex_cost(std::vector<Line> lines, Bytes capacity);

// `made`, here and below: the pieces of all functions on the way are added to it.
PiecewiseLinear convolve(const PiecewiseLinear& w, const ConvexCost& cost,
                         std::int64_t* made = nullptr);
PiecewiseLinear convolve(const PiecewiseLinear& w, const std::vector<CostPoint>& points);

// The same by the minimum over shifted copies of W and mirrored copies of the price, merged in
// pairs: O(n q log n). For comparison.
PiecewiseLinear convolve_by_copies(const PiecewiseLinear& w, const ConvexCost& cost,
                                   std::int64_t* made = nullptr);

}  // namespace plimsoll::math
#pragma GCC visibility pop
