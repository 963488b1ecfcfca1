#include "core/python_text.h"

#include <array>
#include <bit>
#include <charconv>
#include <cmath>
#include <limits>

#include "core/check.h"
#include "plimsoll/core/checked.h"

namespace plimsoll {
namespace {

constexpr int kDoubleDigits = std::numeric_limits<double>::digits;  // 53
constexpr Uint128 kExactLimit = Uint128{1} << kDoubleDigits;        // below it integers are doubles

int bit_width(Uint128 value) {
  const auto high = static_cast<std::uint64_t>(value >> 64);
  const auto low = static_cast<std::uint64_t>(value);
  return static_cast<int>(high != 0 ? 64 + std::bit_width(high) : std::bit_width(low));
}

}  // namespace

std::string python_repr(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  // Python writes an exponent below 1e-4 and from 1e16 on.
  const double magnitude = std::fabs(value);
  const bool has_exponent = magnitude != 0 && (magnitude < 1e-4 || magnitude >= 1e16);
  std::array<char, 64> buffer{};
  const auto end =
      std::to_chars(buffer.data(), buffer.data() + buffer.size(), value,
                    has_exponent ? std::chars_format::scientific : std::chars_format::fixed)
          .ptr;
  std::string text(buffer.data(), end);
  if (!has_exponent && text.find('.') == std::string::npos) text += ".0";
  return text;
}

double python_round(double value, int digits) {
  PLIMSOLL_CHECK(digits >= 0, "there are no fewer than 0 digits");
  constexpr int kMaxDigits = 323;  // beyond it Python, too, returns the value itself
  if (!std::isfinite(value) || digits > kMaxDigits) return value;
  // to_chars with a precision rounds the exact decimal expansion, half to even.
  std::array<char, 800> buffer{};
  const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value,
                                 std::chars_format::fixed, digits)
                       .ptr;
  double rounded = value;
  std::from_chars(buffer.data(), end, rounded);
  return rounded;
}

std::int64_t python_round(double value) { return saturated_cast(std::nearbyint(value)); }

std::string python_list(const std::vector<std::int64_t>& values) {
  std::string text = "[";
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (i > 0) text += ", ";
    text += std::to_string(values[i]);
  }
  return text + "]";
}

std::string python_center(std::string_view text, std::size_t width) {
  std::size_t length = 0;  // in code points, as Python counts
  for (const char c : text) length += (static_cast<unsigned char>(c) & 0xC0) != 0x80;
  if (length >= width) return std::string(text);
  const std::size_t padding = width - length;
  const std::size_t left = padding / 2 + (padding & width & 1);
  std::string centered(left, ' ');
  centered += text;
  centered.append(padding - left, ' ');
  return centered;
}

// Long division until the quotient has two bits more than a double holds: the first of them is the
// rounding bit, the last gathers everything below it. The conversion to double then rounds once.
double divide_exactly(Uint128 numerator, Uint128 denominator) {
  PLIMSOLL_CHECK(denominator > 0, "the denominator is not 0");
  constexpr int kBits = kDoubleDigits + 2;
  Uint128 quotient = numerator / denominator;
  Uint128 remainder = numerator % denominator;
  if (remainder == 0 && quotient < kExactLimit) {
    return static_cast<double>(static_cast<std::uint64_t>(quotient));
  }
  if (numerator < kExactLimit && denominator < kExactLimit) {
    return static_cast<double>(static_cast<std::uint64_t>(numerator)) /
           static_cast<double>(static_cast<std::uint64_t>(denominator));
  }

  int exponent = 0;
  while (bit_width(quotient) < kBits) {
    // 2 * remainder may need 129 bits, the difference never does.
    const bool bit = remainder >= denominator - remainder;
    remainder = bit ? remainder - (denominator - remainder) : remainder * 2;
    quotient = quotient << 1 | (bit ? 1 : 0);
    --exponent;
  }
  const int excess = bit_width(quotient) - kBits;
  const bool is_inexact = remainder != 0 || (quotient & ((Uint128{1} << excess) - 1)) != 0;
  const auto head = static_cast<std::uint64_t>(quotient >> excess) | (is_inexact ? 1 : 0);
  return std::ldexp(static_cast<double>(head), exponent + excess);
}

}  // namespace plimsoll
