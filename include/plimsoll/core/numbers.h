// What searches call infinite.
#pragma once

#include <limits>

namespace plimsoll {

inline constexpr double kInfinity = std::numeric_limits<double>::infinity();

}  // namespace plimsoll
