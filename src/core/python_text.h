// Numbers as Python prints and rounds them; the reference's texts and reports depend on it to the
// last digit.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "plimsoll/core/units.h"

namespace plimsoll {

// repr(float): the shortest decimal that reads back; "1.0", "1e+16", "nan", "inf".
std::string python_repr(double value);

// round(x, digits): correctly rounded decimal, half-even on exact ties; returns the nearest double.
// Precondition: digits >= 0.
double python_round(double value, int digits);

// round(x): half-even to an integer. Beyond 64 bits the nearest end, as saturated_cast() says.
std::int64_t python_round(double value);

// "[0, 1]", "[]".
std::string python_list(const std::vector<std::int64_t>& values);

// str.center(width), counting UTF-8 code points: odd padding puts the extra blank left iff the
// width is odd.
std::string python_center(std::string_view text, std::size_t width);

// The double nearest to numerator / denominator (round half to even), as Python's int / int.
// Precondition: denominator > 0.
double divide_exactly(Uint128 numerator, Uint128 denominator);

}  // namespace plimsoll
