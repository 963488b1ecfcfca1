// What the algorithms of this room call infinite.
#pragma once

#include <limits>

namespace plimsoll::solve {

inline constexpr double kInfinity = std::numeric_limits<double>::infinity();

}  // namespace plimsoll::solve
