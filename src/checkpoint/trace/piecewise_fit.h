// Continuous piecewise-linear least squares with a given number of segments.
//
// Problem. Points (x_i, y_i), x increasing; find k segments that join at breaks of one's choice and
// whose squared distances from the points sum to the least.
// Method. Take any best fit and one of its breaks. Between two points, the two lines beside it may
// turn freely as long as they still meet between these points; the sum of squares is convex in
// them, so either they are the best lines without that condition, or they meet at one of the two
// points. So each break is either at a point or free, every choice of places is tried, and what
// remains is linear least squares. O((2n)^(k-1) n k^2) for n points: exact and fast for k <= 3.
// Promises. The least sum of squares, the same in every run; of equal fits the one whose breaks
// come first.
// Departures. Upstream searches for the breaks by an unseeded random method that stops near the
// optimum, so its fits differ from run to run.
// [1] D. J. Hudson, "Fitting segmented curves whose join points have to be estimated", Journal of
//     the American Statistical Association 61, 1966,
//     https://doi.org/10.1080/01621459.1966.10482198.
// Source: docs/mathematics/torch-checkpointing.md#piecewise-linear-fit.
#pragma once

#include <span>
#include <utility>
#include <vector>

#include "plimsoll/core/result.h"

namespace plimsoll::checkpoint {

using CurvePoint = std::pair<double, double>;

struct PiecewiseFit {
  std::vector<double> slopes;      // [k]
  std::vector<double> intercepts;  // [k] segment s is slopes[s] * x + intercepts[s]
  std::vector<double> breaks;      // [k + 1] from the first x to the last
  double sum_of_squares = 0;
  bool operator==(const PiecewiseFit&) const = default;
};

// Errors: kValue where the fit fails (fewer than two points, fewer points than the segments need, x
// not increasing, a figure that is not finite) or where there are too many choices to try.
Result<PiecewiseFit> fit_piecewise(std::span<const CurvePoint> points, int num_segments);

// Upstream's use of it on a trade-off curve: every y moves to the x before it, so that a discard is
// priced with the step that completes it, and the number of segments is at most the number of
// points less two, and at least one.
Result<PiecewiseFit> fit_tradeoff_curve(std::span<const CurvePoint> curve, int num_segments = 2);

}  // namespace plimsoll::checkpoint
