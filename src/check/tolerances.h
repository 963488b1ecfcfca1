// How far figures of a plan and the checker's own may differ.
#pragma once

#include <algorithm>
#include <cmath>

namespace plimsoll::check {

inline constexpr double kTolerance = 1e-9;       // relative, of sums
inline constexpr double kBoundTolerance = 1e-7;  // relative, of what prices prove (verify_bound.h)

inline bool is_close(double a, double b) {
  return std::abs(a - b) <= kTolerance * std::max(std::abs(a), std::abs(b));
}

}  // namespace plimsoll::check
