#include "plimsoll/core/units.h"

#include <gtest/gtest.h>

#include <limits>
#include <string>

namespace plimsoll {
namespace {

constexpr Bytes kMaxBytes = std::numeric_limits<Bytes>::max();

TEST(ParseBytes, ReadsPlainNumbersAsBytes) {
  EXPECT_EQ(parse_bytes("4096"), 4096);
  EXPECT_EQ(parse_bytes("0"), 0);
  EXPECT_EQ(parse_bytes("17 B"), 17);
  EXPECT_EQ(parse_bytes("1e9"), 1'000'000'000);
  EXPECT_EQ(parse_bytes("12.50e1"), 125);
  EXPECT_EQ(parse_bytes("1200e-2"), 12);
  EXPECT_EQ(parse_bytes("5."), 5);
}

TEST(ParseBytes, TellsDecimalFromBinaryPrefixes) {
  EXPECT_EQ(parse_bytes("80 GiB"), 80 * kGiB);
  EXPECT_EQ(parse_bytes("80GB"), 80'000'000'000);
  EXPECT_EQ(parse_bytes("3 kB"), 3000);
  EXPECT_EQ(parse_bytes("3KB"), 3000);
  EXPECT_EQ(parse_bytes("3 KiB"), 3 * kKiB);
  EXPECT_EQ(parse_bytes("3 MB"), 3'000'000);
  EXPECT_EQ(parse_bytes("3 MiB"), 3 * kMiB);
  EXPECT_EQ(parse_bytes("2TB"), 2'000'000'000'000);
  EXPECT_EQ(parse_bytes("2TiB"), 2 * kTiB);
  EXPECT_EQ(parse_bytes("2PB"), 2'000'000'000'000'000);
  EXPECT_EQ(parse_bytes("2PiB"), 2 * kTiB * 1024);
  EXPECT_EQ(parse_bytes("2 EB"), 2'000'000'000'000'000'000);
  EXPECT_EQ(parse_bytes("1 EiB"), Bytes{1} << 60);
}

TEST(ParseBytes, NeedsNoB) {
  EXPECT_EQ(parse_bytes("40G"), 40'000'000'000);
  EXPECT_EQ(parse_bytes("40 Gi"), 40 * kGiB);
  EXPECT_EQ(parse_bytes("3k"), 3000);
}

TEST(ParseSize, RefusesNumbersWithoutAUnit) {
  EXPECT_EQ(parse_size("80GiB"), 80 * kGiB);
  EXPECT_EQ(parse_size("40G"), 40'000'000'000);
  EXPECT_EQ(parse_size("80B"), 80);
  EXPECT_EQ(parse_size("0"), 0);
  for (const char* text : {"80", " 80 ", "1e9", "1.0"}) {
    SCOPED_TRACE(text);
    ASSERT_FALSE(parse_size(text));
    EXPECT_EQ(parse_size(text).error().code, ErrorCode::kValue);
  }
  EXPECT_EQ(format_error(parse_size("80").error()),
            "'80' is a size without a unit; write 80GiB, 80GB or 80B (bytes)");
  EXPECT_EQ(parse_size("x").error().code, ErrorCode::kValue);
}

TEST(ParseCount, ReadsDecimalAndBinaryThousands) {
  EXPECT_EQ(parse_count("4096"), 4096);
  EXPECT_EQ(parse_count("4k"), 4000);
  EXPECT_EQ(parse_count("4Ki"), 4096);
  EXPECT_EQ(parse_count("1.5M"), 1'500'000);
  for (const char* text : {"4kB", "4b", "1.5", "-4", "four", "", "4 k k"}) {
    SCOPED_TRACE(text);
    EXPECT_FALSE(parse_count(text));
  }
  EXPECT_EQ(parse_count("1e19").error().code, ErrorCode::kOverflow);
}

TEST(ParseBytes, ReadsFractionsExactly) {
  EXPECT_EQ(parse_bytes("1.5GB"), 1'500'000'000);
  EXPECT_EQ(parse_bytes(".5 KiB"), 512);
  EXPECT_EQ(parse_bytes("0.123456789012345678 EB"), 123'456'789'012'345'678);
  EXPECT_EQ(parse_bytes("1.000"), 1);
  EXPECT_EQ(parse_bytes("1.0000000000000000000000 GB"), 1'000'000'000);
}

TEST(ParseBytes, IgnoresBlanksAround) { EXPECT_EQ(parse_bytes("  80   GiB\t"), 80 * kGiB); }

TEST(ParseBytes, KeepsEveryBitOfTheLargestSize) {
  EXPECT_EQ(parse_bytes("9223372036854775807"), kMaxBytes);
  EXPECT_EQ(parse_bytes("9007199254740993"), 9007199254740993);  // no double holds it
  EXPECT_EQ(parse_bytes("000000000000000000000000000000000009"), 9);
  EXPECT_EQ(parse_bytes("9223372036854775.807 KB"), kMaxBytes);
}

TEST(ParseBytes, RefusesSizesBeyond63Bits) {
  for (const char* text :
       {"9223372036854775808", "8 EiB", "9223372036854775.808 KB", "1e19", "1e400", "1e99999999999",
        "340282366920938463463374607431768211456", "9223372036854775807.9999999999"}) {
    SCOPED_TRACE(text);
    const auto size = parse_bytes(text);
    ASSERT_FALSE(size.has_value());
    EXPECT_EQ(size.error().code, ErrorCode::kOverflow);
    EXPECT_FALSE(size.error().remedy.empty());
  }
}

TEST(ParseBytes, RoundsAFractionBelowAMillionthOfTheSize) {
  EXPECT_EQ(parse_bytes("79.15 GiB"), 84986665370);  // 84986665369.6
  EXPECT_EQ(parse_bytes("0.7 GiB"), 751619277);      // 751619276.8
  EXPECT_EQ(parse_bytes("1000000.5"), 1'000'001);    // half a millionth: halves go up
  EXPECT_EQ(parse_bytes("500000.5"), 500'001);       // just a millionth
}

TEST(ParseBytes, RefusesAFractionOfAByteThatMatters) {
  for (const char* text : {"0.5", "1.5", "1.5 B", "0.1 KiB", "0.0001 KB", "400000.5", "1e-400",
                           "0.1234567890123456789 GB"}) {
    SCOPED_TRACE(text);
    const auto size = parse_bytes(text);
    ASSERT_FALSE(size.has_value());
    EXPECT_EQ(size.error().code, ErrorCode::kValue);
  }
}

TEST(ParseBytes, RefusesWhatIsNoSize) {
  for (const char* text :
       {"",        " ",        "GiB",   "-1",    "-5 GiB",   "+5",          "nan",    "inf",
        "NaN GiB", "infinity", "0x10",  "1,000", "1_000",    "1 2",         "80 gib", "80 gB",
        "80 GiBs", "80 XB",    "80 iB", "80 BB", "80 KKB",   "80 mB",       "1e",     "1e+",
        ".",       ". GB",     "1..5",  "--1",   "80 GiB 2", "80\xC2\xA0GB"}) {
    SCOPED_TRACE(text);
    const auto size = parse_bytes(text);
    ASSERT_FALSE(size.has_value());
    EXPECT_EQ(size.error().code, ErrorCode::kValue);
    EXPECT_NE(size.error().message.find(text), std::string::npos);
    EXPECT_FALSE(size.error().remedy.empty());
  }
}

TEST(ParseBytes, SaysThatBitsAreNotBytes) {
  EXPECT_EQ(format_error(parse_bytes("80 Gb").error()),
            "'80 Gb' is not a size: 'b' means bits, 'B' means bytes; write it like 80GiB, 80GB or "
            "85899345920B (bytes)");
}

TEST(ParseBandwidth, ReadsPlainNumbersAsBytesPerMillisecond) {
  EXPECT_EQ(parse_bandwidth("13421772.8"), 13421772.8);
  EXPECT_EQ(parse_bandwidth("1e9"), 1e9);
}

TEST(ParseBandwidth, TellsBitsFromBytesAndDecimalFromBinary) {
  EXPECT_EQ(parse_bandwidth("400 Gbps"), 5e7);
  EXPECT_EQ(parse_bandwidth("400Gb/s"), 5e7);
  EXPECT_EQ(parse_bandwidth("400 Gbit/s"), 5e7);
  EXPECT_EQ(parse_bandwidth("25 GB/s"), 25e6);
  EXPECT_EQ(parse_bandwidth("25 GBps"), 25e6);
  EXPECT_EQ(parse_bandwidth("8000 bps"), 1.0);
  EXPECT_EQ(parse_bandwidth("1000 B/s"), 1.0);
  EXPECT_EQ(parse_bandwidth("1 KiB/ms"), 1024.0);
  EXPECT_EQ(parse_bandwidth("3.35 TB/s"), 3.35e9);
  EXPECT_EQ(parse_bandwidth("8 Gib/s"), 1073741.824);
}

TEST(ParseBandwidth, ReadsTheConstantsOfTheReferenceToTheLastBit) {
  EXPECT_EQ(parse_bandwidth("600 GiB/s"), 600.0 * kGiB / 1000);
  EXPECT_EQ(parse_bandwidth("12.5 GiB/s"), 12.5 * kGiB / 1000);
  EXPECT_EQ(parse_bandwidth("897GiB/s"), 897.0 * kGiB / 1000);
  EXPECT_EQ(parse_bandwidth("100 MiB/s"), 100.0 * kMiB / 1000);
}

TEST(ParseBandwidth, RefusesWhatIsNoBandwidth) {
  for (const char* text : {"", "-1", "nan", "inf", "400 G", "400 GB", "400 Gb", "400 bananas",
                           "400 Gps", "400 /s", "400 xB/s", "400 gbps", "GB/s", "400 GB/h"}) {
    SCOPED_TRACE(text);
    const auto bandwidth = parse_bandwidth(text);
    ASSERT_FALSE(bandwidth.has_value());
    EXPECT_EQ(bandwidth.error().code, ErrorCode::kValue);
    EXPECT_FALSE(bandwidth.error().remedy.empty());
  }
}

TEST(ParseBandwidth, RefusesMagnitudesThatNoDoubleHolds) {
  for (const char* text : {"1e400", "1e-390", "1e309", "1e300 EB/s"}) {
    SCOPED_TRACE(text);
    const auto bandwidth = parse_bandwidth(text);
    ASSERT_FALSE(bandwidth.has_value());
    EXPECT_EQ(bandwidth.error().code, ErrorCode::kOverflow);
  }
}

TEST(ParseSeconds, ReadsEveryUnit) {
  EXPECT_EQ(parse_seconds("5s"), 5.0);
  EXPECT_EQ(parse_seconds("1.5"), 1.5);
  EXPECT_EQ(parse_seconds("200 ms"), 0.2);
  EXPECT_EQ(parse_seconds("50us"), 50e-6);
  EXPECT_EQ(parse_seconds("2min"), 120.0);
  EXPECT_EQ(parse_seconds("5m"), 300.0);
  EXPECT_EQ(parse_seconds("0.5 h"), 1800.0);
  EXPECT_EQ(parse_seconds("1e3ms"), 1.0);
}

TEST(ParseSeconds, RefusesWhatIsNoDuration) {
  for (const char* text : {"", "-1s", "nan", "inf", "5 sec", "5 S", "s", "five", "5s 3ms"}) {
    SCOPED_TRACE(text);
    const auto seconds = parse_seconds(text);
    ASSERT_FALSE(seconds.has_value());
    EXPECT_EQ(seconds.error().code, ErrorCode::kValue);
  }
  EXPECT_EQ(parse_seconds("1e400").error().code, ErrorCode::kOverflow);
  EXPECT_EQ(parse_seconds("1e308 h").error().code, ErrorCode::kOverflow);
}

TEST(FormatPercent, WritesNoExponents) {
  EXPECT_EQ(format_percent(0), "0 %");
  EXPECT_EQ(format_percent(4.9e-10), "0 %");
  EXPECT_EQ(format_percent(1.2e-9), "0.0000001 %");
  EXPECT_EQ(format_percent(5e-7), "0.00005 %");
  EXPECT_EQ(format_percent(-9.94e-7), "-0.0000994 %");
  EXPECT_EQ(format_percent(1e-6), "0.0001 %");
  EXPECT_EQ(format_percent(0.00414), "0.41 %");
  EXPECT_EQ(format_percent(0.1274), "12.7 %");
  EXPECT_EQ(format_percent(3.456), "346 %");
}

TEST(FormatBytes, WritesBytesBelowOneKibibyteExactly) {
  EXPECT_EQ(format_bytes(0), "0 B");
  EXPECT_EQ(format_bytes(17), "17 B");
  EXPECT_EQ(format_bytes(1023), "1023 B");
  EXPECT_EQ(format_bytes(-17), "-17 B");
}

TEST(FormatBytes, TakesTheLargestUnitThatLeavesAtLeastOne) {
  EXPECT_EQ(format_bytes(1024), "1.000 KiB");
  EXPECT_EQ(format_bytes(kMiB - 1), "1023.999 KiB");
  EXPECT_EQ(format_bytes(kMiB), "1.000 MiB");
  EXPECT_EQ(format_bytes(1324997411), "1.234 GiB");
  EXPECT_EQ(format_bytes(kGiB), "1.000 GiB");
  EXPECT_EQ(format_bytes(kTiB * 1536), "1.500 PiB");
  EXPECT_EQ(format_bytes(kMaxBytes), "8.000 EiB");
  EXPECT_EQ(format_bytes(-kGiB), "-1.000 GiB");
  EXPECT_EQ(format_bytes(std::numeric_limits<Bytes>::min()), "-8.000 EiB");
}

}  // namespace
}  // namespace plimsoll
