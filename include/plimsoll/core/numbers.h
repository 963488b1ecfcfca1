// What searches call infinite.
#pragma once

#include <limits>

#pragma GCC visibility push(default)
namespace plimsoll {

inline constexpr double kInfinity = std::numeric_limits<double>::infinity();

}  // namespace plimsoll
#pragma GCC visibility pop
