// Arithmetic on sizes that cannot wrap: a sum that exceeds 64 bits stops at their end.
//
// No rank has 2^63 - 1 bytes, so a size that stopped there is handled as what it is: too large.
// Where a number must be exact or refused, use the __builtin_..._overflow functions and an Error.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <utility>

#pragma GCC visibility push(default)
namespace plimsoll {

inline constexpr std::int64_t kSaturated = std::numeric_limits<std::int64_t>::max();

inline std::int64_t saturated_add(std::int64_t a, std::int64_t b) {
  std::int64_t sum = 0;
  if (!__builtin_add_overflow(a, b, &sum)) return sum;
  return a < 0 ? std::numeric_limits<std::int64_t>::min() : kSaturated;
}

inline std::int64_t saturated_subtract(std::int64_t a, std::int64_t b) {
  std::int64_t difference = 0;
  if (!__builtin_sub_overflow(a, b, &difference)) return difference;
  return a < 0 ? std::numeric_limits<std::int64_t>::min() : kSaturated;
}

inline std::int64_t saturated_multiply(std::int64_t a, std::int64_t b) {
  std::int64_t product = 0;
  if (!__builtin_mul_overflow(a, b, &product)) return product;
  return (a < 0) != (b < 0) ? std::numeric_limits<std::int64_t>::min() : kSaturated;
}

// The number as a narrower one; nothing where it does not fit.
template <class To>
std::optional<To> checked_narrow(std::int64_t value) {
  if (!std::in_range<To>(value)) return std::nullopt;
  return static_cast<To>(value);
}

// Without its fraction, as static_cast; what lies beyond either end is that end, NaN is 0.
inline std::int64_t saturated_cast(double value) {
  constexpr double kEnd = 9223372036854775808.0;  // 2^63
  if (value >= kEnd) return kSaturated;
  if (value < -kEnd) return std::numeric_limits<std::int64_t>::min();
  return value == value ? static_cast<std::int64_t>(value) : 0;
}

}  // namespace plimsoll
#pragma GCC visibility pop
