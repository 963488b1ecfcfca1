#include "plimsoll/core/units.h"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <optional>

namespace plimsoll {
namespace {

bool is_space(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }

std::string_view trim(std::string_view text) {
  while (!text.empty() && is_space(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_space(text.back())) text.remove_suffix(1);
  return text;
}

// "12.5e3 GiB" as digits "12" and "5", exponent 3 and unit "GiB".
struct Quantity {
  std::string_view number;   // as written
  std::string_view whole;    // digits before the point, may be empty
  std::string_view decimal;  // digits after it, may be empty
  int exponent = 0;
  std::string_view unit;
};

// What a text should have been, for the messages.
struct Expected {
  std::string_view kind;     // "a size"
  std::string_view example;  // "80 GiB"
};

tl::unexpected<Error> refuse(ErrorCode code, std::string_view text, const Expected& expected,
                             std::string_view why) {
  return fail(code, {}, fmt::format("'{}' is not {}: {}", text, expected.kind, why),
              fmt::format("write it like {}", expected.example));
}

std::string_view take_digits(std::string_view& rest) {
  std::size_t length = 0;
  while (length < rest.size() && is_digit(rest[length])) ++length;
  const std::string_view digits = rest.substr(0, length);
  rest.remove_prefix(length);
  return digits;
}

// Splits number and unit. Neither "nan" nor "inf" nor a sign begins a number.
Result<Quantity> split_quantity(std::string_view text, const Expected& expected) {
  std::string_view rest = trim(text);
  if (rest.empty()) return refuse(ErrorCode::kValue, text, expected, "it is empty");
  if (rest.front() == '-') return refuse(ErrorCode::kValue, text, expected, "it is negative");

  Quantity quantity;
  const std::string_view start = rest;
  quantity.whole = take_digits(rest);
  if (!rest.empty() && rest.front() == '.') {
    rest.remove_prefix(1);
    quantity.decimal = take_digits(rest);
  }
  if (quantity.whole.empty() && quantity.decimal.empty()) {
    return refuse(ErrorCode::kValue, text, expected, "it does not begin with a number");
  }
  // An "e" that no digit follows belongs to the unit ("2 EB").
  if (!rest.empty() && (rest.front() == 'e' || rest.front() == 'E')) {
    std::string_view after = rest.substr(1);
    const bool is_negative = after.starts_with('-');
    if (is_negative || after.starts_with('+')) after.remove_prefix(1);
    const std::string_view digits = take_digits(after);
    if (!digits.empty()) {
      const auto [end, error] =
          std::from_chars(digits.data(), digits.data() + digits.size(), quantity.exponent);
      if (error != std::errc{} || quantity.exponent > 400) {
        return refuse(ErrorCode::kOverflow, text, expected, "its exponent is out of range");
      }
      if (is_negative) quantity.exponent = -quantity.exponent;
      rest = after;
    }
  }
  quantity.number = start.substr(0, start.size() - rest.size());
  quantity.unit = trim(rest);
  return quantity;
}

Result<double> parse_number(std::string_view text, const Quantity& quantity,
                            const Expected& expected) {
  double value = 0;
  const char* end = quantity.number.data() + quantity.number.size();
  if (std::from_chars(quantity.number.data(), end, value).ec != std::errc{}) {
    return refuse(ErrorCode::kOverflow, text, expected, "its magnitude is out of range");
  }
  return value;
}

// "", "k" or "K", "M", ... decimal; "Ki", "Mi", ... binary.
std::optional<std::uint64_t> find_prefix(std::string_view prefix) {
  if (prefix.empty()) return 1;
  constexpr std::string_view kLetters = "KMGTPE";
  const std::size_t power = kLetters.find(prefix.front() == 'k' ? 'K' : prefix.front());
  const bool is_binary = prefix.size() == 2 && prefix[1] == 'i';
  if (power == std::string_view::npos || (prefix.size() != 1 && !is_binary)) return std::nullopt;
  std::uint64_t factor = 1;
  for (std::size_t i = 0; i <= power; ++i) factor *= is_binary ? 1024 : 1000;
  return factor;
}

constexpr Expected kSize{"a size", "80GiB, 80GB or 85899345920B (bytes)"};
constexpr Expected kCount{"a number", "4096, 4k (4,000) or 4Ki (4,096)"};
constexpr Expected kBandwidth{"a bandwidth", "400Gbps, 25GB/s, 600GiB/s or 13421772.8 (bytes/ms)"};
constexpr Expected kDuration{"a duration", "5s, 200ms, 2m (minutes) or 1.5 (seconds)"};

// The digits before and after the decimal point, as the exponent moves it; without zeros at the
// end.
struct Digits {
  std::string whole, decimal;
};

Digits place_point(const Quantity& quantity) {
  std::string digits = std::string(quantity.whole) + std::string(quantity.decimal);
  auto point = static_cast<std::ptrdiff_t>(quantity.whole.size()) + quantity.exponent;
  if (point < 0) {
    digits.insert(0, static_cast<std::size_t>(-point), '0');
    point = 0;
  }
  if (point > static_cast<std::ptrdiff_t>(digits.size())) {
    digits.resize(static_cast<std::size_t>(point), '0');
  }
  Digits placed{digits.substr(0, static_cast<std::size_t>(point)),
                digits.substr(static_cast<std::size_t>(point))};
  while (placed.decimal.ends_with('0')) placed.decimal.pop_back();
  return placed;
}

constexpr auto kMaxBytes = static_cast<Uint128>(std::numeric_limits<Bytes>::max());
constexpr std::size_t kMaxDecimals = 18;  // 10^18 times the largest unit fits in 128 bits

// The whole number times the unit; nothing where that is beyond kMaxBytes.
std::optional<Uint128> whole_bytes(const std::string& whole, std::uint64_t unit) {
  Uint128 bytes = 0;
  for (const char digit : whole) {
    bytes = bytes * 10 + static_cast<Uint128>(digit - '0');
    if (bytes > kMaxBytes) return std::nullopt;
  }
  bytes *= unit;
  if (bytes > kMaxBytes) return std::nullopt;
  return bytes;
}

// `bytes` and the decimals times the unit. A fraction is dropped to the nearest byte where that is
// less than a millionth of the size: nobody who writes 79.15 GiB means the fraction of the last
// byte. Nothing where it is more.
std::optional<Uint128> add_decimals(Uint128 bytes, const std::string& decimal, std::uint64_t unit) {
  Uint128 numerator = 0;
  Uint128 denominator = 1;
  for (const char digit : decimal) {
    numerator = numerator * 10 + static_cast<Uint128>(digit - '0');
    denominator *= 10;
  }
  numerator *= unit;
  bytes += numerator / denominator;
  const Uint128 rest = numerator % denominator;
  if (rest == 0) return bytes;
  const bool rounds_up = rest >= denominator - rest;
  const Uint128 error = rounds_up ? denominator - rest : rest;
  if (error * 1'000'000 > bytes * denominator) return std::nullopt;
  return rounds_up ? bytes + 1 : bytes;
}

}  // namespace

// In integers throughout: a size that a double cannot hold must survive.
Result<Bytes> parse_bytes(std::string_view text) {
  PLIMSOLL_ASSIGN(const Quantity quantity, split_quantity(text, kSize));
  std::string_view prefix = quantity.unit;
  if (prefix.ends_with('b')) {
    return refuse(ErrorCode::kValue, text, kSize, "'b' means bits, 'B' means bytes");
  }
  if (prefix.ends_with('B')) prefix.remove_suffix(1);
  const auto unit = find_prefix(prefix);
  if (!unit) {
    return refuse(ErrorCode::kValue, text, kSize, fmt::format("unknown unit '{}'", quantity.unit));
  }
  const auto refuse_overflow = [&] {
    return refuse(ErrorCode::kOverflow, text, kSize, "it is larger than 2^63 - 1 bytes");
  };
  const Digits digits = place_point(quantity);
  const auto whole = whole_bytes(digits.whole, *unit);
  if (!whole) return refuse_overflow();
  if (digits.decimal.size() > kMaxDecimals) {
    return refuse(ErrorCode::kValue, text, kSize, "it has more than 18 digits after the point");
  }
  const auto bytes = add_decimals(*whole, digits.decimal, *unit);
  if (!bytes) {
    return refuse(ErrorCode::kValue, text, kSize, "it is not a whole number of bytes");
  }
  if (*bytes > kMaxBytes) return refuse_overflow();
  return static_cast<Bytes>(*bytes);
}

Result<Bytes> parse_size(std::string_view text) {
  PLIMSOLL_ASSIGN(const Quantity quantity, split_quantity(text, kSize));
  PLIMSOLL_ASSIGN(const Bytes bytes, parse_bytes(text));
  if (!quantity.unit.empty() || bytes == 0) return bytes;
  return fail(ErrorCode::kValue, {}, fmt::format("'{}' is a size without a unit", text),
              fmt::format("write {0}GiB, {0}GB or {0}B (bytes)", trim(text)));
}

Result<std::int64_t> parse_count(std::string_view text) {
  PLIMSOLL_ASSIGN(const Quantity quantity, split_quantity(text, kCount));
  // Counts are read as sizes are: in integers, with the same prefixes.
  auto count = quantity.unit.find_first_of("bB") == std::string_view::npos
                   ? parse_bytes(text)
                   : refuse(ErrorCode::kValue, text, kCount, "it has a unit");
  if (!count) {
    return refuse(count.error().code, text, kCount, "it is not a whole number below 2^63");
  }
  return *count;
}

Result<double> parse_bandwidth(std::string_view text) {
  PLIMSOLL_ASSIGN(const Quantity quantity, split_quantity(text, kBandwidth));
  PLIMSOLL_ASSIGN(const double value, parse_number(text, quantity, kBandwidth));
  std::string_view unit = quantity.unit;
  if (unit.empty()) return value;

  const auto refuse_unit = [&] {
    return refuse(ErrorCode::kValue, text, kBandwidth,
                  fmt::format("unknown unit '{}'", quantity.unit));
  };
  double per_ms = 1000;
  if (unit.ends_with("/ms")) {
    per_ms = 1;
    unit.remove_suffix(3);
  } else if (unit.ends_with("/s") || unit.ends_with("ps")) {
    unit.remove_suffix(2);
  } else {
    return refuse_unit();
  }
  double bits = 1;
  if (unit.ends_with("bit")) {
    bits = 8;
    unit.remove_suffix(3);
  } else if (unit.ends_with('b')) {
    bits = 8;
    unit.remove_suffix(1);
  } else if (unit.ends_with('B')) {
    unit.remove_suffix(1);
  } else {
    return refuse_unit();
  }
  const auto factor = find_prefix(unit);
  if (!factor) return refuse_unit();
  // In this order "600 GiB/s" is the reference's own constant, 600 * 2^30 / 1000, to the last bit.
  const double bandwidth = value * static_cast<double>(*factor) / bits / per_ms;
  if (bandwidth > std::numeric_limits<double>::max()) {
    return refuse(ErrorCode::kOverflow, text, kBandwidth, "its magnitude is out of range");
  }
  return bandwidth;
}

Result<double> parse_seconds(std::string_view text) {
  PLIMSOLL_ASSIGN(const Quantity quantity, split_quantity(text, kDuration));
  PLIMSOLL_ASSIGN(const double value, parse_number(text, quantity, kDuration));
  struct Unit {
    std::string_view name;
    double multiplier, divisor;
  };
  constexpr std::array kUnits = {Unit{"", 1, 1},     Unit{"s", 1, 1},  Unit{"ms", 1, 1e3},
                                 Unit{"us", 1, 1e6}, Unit{"m", 60, 1}, Unit{"min", 60, 1},
                                 Unit{"h", 3600, 1}};
  for (const Unit& unit : kUnits) {
    if (unit.name != quantity.unit) continue;
    const double seconds = value * unit.multiplier / unit.divisor;
    if (seconds > std::numeric_limits<double>::max()) {
      return refuse(ErrorCode::kOverflow, text, kDuration, "its magnitude is out of range");
    }
    return seconds;
  }
  return refuse(ErrorCode::kValue, text, kDuration,
                fmt::format("unknown unit '{}'", quantity.unit));
}

std::string format_bytes(Bytes bytes) {
  // The magnitude as unsigned: that of the least Bytes has no signed counterpart.
  const bool is_negative = bytes < 0;
  const std::uint64_t magnitude =
      is_negative ? ~static_cast<std::uint64_t>(bytes) + 1 : static_cast<std::uint64_t>(bytes);
  const std::string_view sign = is_negative ? "-" : "";
  if (magnitude < 1024) return fmt::format("{}{} B", sign, magnitude);
  constexpr std::string_view kPrefixes = "KMGTPE";
  std::size_t power = 0;
  while (power + 1 < kPrefixes.size() && magnitude >> (10 * (power + 2)) != 0) ++power;
  const double value =
      static_cast<double>(magnitude) / static_cast<double>(std::uint64_t{1} << (10 * (power + 1)));
  return fmt::format("{}{:.3f} {}iB", sign, value, kPrefixes[power]);
}

std::string format_percent(double share) {
  const double percent = 100 * share;
  const double size = std::abs(percent);
  if (size < 1e-7) return "0 %";
  if (size >= 10) return fmt::format("{:.{}f} %", percent, size < 100 ? 1 : 0);
  constexpr double kLeastWithoutExponent = 1e-4;
  if (size >= kLeastWithoutExponent) return fmt::format("{:.2g} %", percent);
  std::string digits = fmt::format("{:.7f}", percent);
  digits.erase(digits.find_last_not_of('0') + 1);
  return digits + " %";
}

}  // namespace plimsoll
