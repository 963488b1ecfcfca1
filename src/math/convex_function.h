// The convex members of the piecewise-linear functions: cheap lower twins of the exact ones.
//
// A function here is non-increasing, continuous from its first abscissa on and of ascending slopes,
// the last of them 0. The convolution with a convex price merges two lists of slopes; the minimum
// is the lower hull of both operands. Both keep whole-byte abscissae, and both are monotone
// operators: what is below before is below after, so a chain of them stays below the exact chain.
// Cost. Linear in the pieces of the operands.
// Source: docs/mathematics/checkpointing.md#one-budget.
#pragma once

#include "plimsoll/math/infimal_convolution.h"
#include "plimsoll/math/piecewise_linear.h"

namespace plimsoll::math {

// The largest convex function below f at every integer, and below both of a and b.
PiecewiseLinear lower_convex_hull(const PiecewiseLinear& f);
PiecewiseLinear convex_minimum(const PiecewiseLinear& a, const PiecewiseLinear& b);

// The largest convex price below that of the points: {bytes that cannot be declined, price}.
// `needs` is left out, which only lowers it. There is at least one point.
struct ConvexHullOfPoints {
  Bytes least_bytes = 0;
  ConvexCost cost;  // of what is bought above least_bytes
};
ConvexHullOfPoints lower_convex_hull(const std::vector<CostPoint>& points);

// min over d of cost(d) + w(s + d), w convex.
PiecewiseLinear convex_convolution(const PiecewiseLinear& w, const ConvexCost& cost);

// w up to `to`, its value there beyond; nothing where w begins after `to`. In place. In mirrored
// slack u = -s this is passing a point that needs a slack of at least -to: who has more pays the
// same.
void flatten_beyond(PiecewiseLinear& w, Bytes to);

}  // namespace plimsoll::math
