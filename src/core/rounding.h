// How far sums of the same numbers, taken in another order, may differ.
#pragma once

namespace plimsoll {

inline constexpr double kRounding = 1e-9;       // relative; what searches and bounds give up
inline constexpr double kFineRounding = 1e-12;  // relative, of sums of a few terms

}  // namespace plimsoll
