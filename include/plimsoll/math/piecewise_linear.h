// Piecewise-linear functions of a whole number of bytes: what memory buys in time.
//
// Problem. A frontier says for every budget how little time is enough. It is made by long chains of
// clips, minima and convolutions; each step must neither lose a crossing of two lines nor leave
// slivers behind where two lines agree except for rounding, or the pieces multiply until memory is
// gone.
// Method. Abscissae are 64-bit integers, so that pieces that should end together do. Only whole
// bytes matter: two lines that cross between two of them change places at the upper one. The
// pointwise minimum compares two lines at both ends of each elementary interval and, where they
// agree within a tolerance at both, stays with the line it used last.
// Cost. Every operation is linear in the pieces of its operands, and of its result.
// Promises. At every integer the minimum exceeds the smaller operand by at most
// kTie * (1 + |value|); a result has at most one piece more per crossing than its operands.
// Departures. Values are doubles; the tolerance is relative above 1 and absolute below.
// Source: docs/mathematics/checkpointing.md#piecewise-linear-functions-of-whole-bytes.
#pragma once

#include <cstdint>
#include <vector>

#include "plimsoll/core/numbers.h"
#include "plimsoll/core/units.h"

#pragma GCC visibility push(default)
namespace plimsoll::math {

// Two values closer than kTie * (1 + |value|) are equal. 400 layers of seven candidates of two
// pieces each keep the sum of such errors below 1e-7.
inline constexpr double kTie = 1e-11;

// y + slope * (s - x) for x <= s < the next segment's x.
struct Segment {
  Bytes x = 0;
  double y = 0;
  double slope = 0;
  bool operator==(const Segment&) const = default;
};

// The value at `s` of the line that the segment lies on.
inline double line_at(const Segment& line, Bytes s) {
  return line.y + line.slope * static_cast<double>(s - line.x);
}

// +infinity left of the first segment, and everywhere without one. Abscissae ascend strictly. The
// functions of this room never increase, and jump only downwards.
using PiecewiseLinear = std::vector<Segment>;

// O(log n).
double value_at(const PiecewiseLinear& f, Bytes s);

// The segment that holds s, none left of the first. O(log n).
const Segment* find_segment(const PiecewiseLinear& f, Bytes s);

// +infinity for s < from. In place.
void clip_below(PiecewiseLinear& f, Bytes from);

// f(s + by) + raise.
PiecewiseLinear shifted(const PiecewiseLinear& f, Bytes by, double raise);

// Pointwise minimum. `out` is neither operand; its old pieces are dropped.
void lower_envelope(const PiecewiseLinear& a, const PiecewiseLinear& b, PiecewiseLinear& out);

// The minimum of many, merged in pairs: O(n log k) for k functions of n pieces in all. The pieces
// of all minima on the way are added to `made`.
PiecewiseLinear lower_envelope(std::vector<PiecewiseLinear> functions,
                               std::int64_t* made = nullptr);

// Pointwise sum, +infinity where either is.
PiecewiseLinear sum(const PiecewiseLinear& a, const PiecewiseLinear& b);

}  // namespace plimsoll::math
#pragma GCC visibility pop
