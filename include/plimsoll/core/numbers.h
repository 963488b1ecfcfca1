// What searches call infinite, and what is not a number.
#pragma once

#include <limits>

#pragma GCC visibility push(default)
namespace plimsoll {

inline constexpr double kInfinity = std::numeric_limits<double>::infinity();
inline constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

}  // namespace plimsoll
#pragma GCC visibility pop
