// Units: bytes as signed 64-bit integers, times as milliseconds, bandwidths as bytes per
// millisecond.
//
// At the edges people write "80 GiB" or "400 Gbps"; inside there are only plain numbers. GB and GiB
// are different units, and so are bits and bytes: "b" is a bit, "B" a byte, and the prefix is
// decimal unless it carries an "i".
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "plimsoll/core/result.h"

#pragma GCC visibility push(default)
namespace plimsoll {

using Bytes = std::int64_t;

// Products of two byte counts need 128 bits.
__extension__ using Int128 = __int128;
__extension__ using Uint128 = unsigned __int128;

inline constexpr Bytes kKiB = Bytes{1} << 10;
inline constexpr Bytes kMiB = Bytes{1} << 20;
inline constexpr Bytes kGiB = Bytes{1} << 30;
inline constexpr Bytes kTiB = Bytes{1} << 40;

inline constexpr double kMsPerSecond = 1000;

// Reads "80 GiB", "1.5GB", "40G" (as "40GB"), "4096" (bytes). Error: kValue where it is not a
// number, negative, of an unknown unit or not a whole number of bytes (a fraction below a millionth
// of the size is rounded away: "79.15 GiB"); kOverflow above 2^63 - 1.
Result<Bytes> parse_bytes(std::string_view text);

// The same, but without a unit only 0: who writes "80" means gigabytes and gets bytes.
Result<Bytes> parse_size(std::string_view text);

// Reads a whole number of things: "4096", "4k" (4000), "4Ki" (4096), "1.5M". Errors as above.
Result<std::int64_t> parse_count(std::string_view text);

// Reads "400 Gbps", "25 GB/s", "600 GiB/s", or a plain number of bytes per millisecond; returns
// bytes per millisecond. Error as above.
Result<double> parse_bandwidth(std::string_view text);

// Reads "5s", "200 ms", "2m" (minutes), "2min", "1h", or a plain number of seconds; returns
// seconds.
Result<double> parse_seconds(std::string_view text);

// "1.234 GiB" with three decimals and the largest binary unit that leaves at least 1; exact bytes
// below 1 KiB ("17 B").
std::string format_bytes(Bytes bytes);

// "0.41 %", "12.7 %", "0.00005 %" of a share; "0 %" below 1e-9.
std::string format_percent(double share);

}  // namespace plimsoll
#pragma GCC visibility pop
