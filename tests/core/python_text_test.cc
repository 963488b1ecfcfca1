#include "core/python_text.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <fstream>
#include <limits>
#include <map>
#include <random>
#include <sstream>

namespace plimsoll {
namespace {

// Vectors in tests/data/core/python_text.txt, its first lines say how to read them.
std::vector<std::istringstream> read_vectors(const std::string& kind) {
  std::ifstream file(PLIMSOLL_TEST_DATA "/core/python_text.txt");
  std::vector<std::istringstream> vectors;
  std::string line;
  while (std::getline(file, line)) {
    if (line.starts_with(kind + " ")) vectors.emplace_back(line.substr(kind.size() + 1));
  }
  EXPECT_FALSE(vectors.empty());
  return vectors;
}

double read_double(std::istream& in) {
  std::uint64_t bits = 0;
  in >> std::hex >> bits >> std::dec;
  return std::bit_cast<double>(bits);
}

Uint128 read_integer(std::istream& in) {
  std::string digits;
  in >> digits;
  Uint128 value = 0;
  for (const char digit : digits) value = value * 10 + static_cast<Uint128>(digit - '0');
  return value;
}

bool is_identical(double a, double b) {
  return std::bit_cast<std::uint64_t>(a) == std::bit_cast<std::uint64_t>(b);
}

TEST(PythonRepr, AgreesWithPython) {
  for (auto& vector : read_vectors("repr")) {
    SCOPED_TRACE(vector.str());
    const double value = read_double(vector);
    std::string expected;
    vector >> expected;
    EXPECT_EQ(python_repr(value), expected);
  }
}

TEST(PythonRepr, WritesWholeNumbersWithAPoint) {
  EXPECT_EQ(python_repr(1), "1.0");
  EXPECT_EQ(python_repr(-0.0), "-0.0");
  EXPECT_EQ(python_repr(1e16), "1e+16");
  EXPECT_EQ(python_repr(644245094.4), "644245094.4");
}

TEST(PythonRepr, WritesNanWithoutASign) {
  EXPECT_EQ(python_repr(std::numeric_limits<double>::quiet_NaN()), "nan");
  EXPECT_EQ(python_repr(-std::numeric_limits<double>::quiet_NaN()), "nan");
}

TEST(PythonRound, AgreesWithPython) {
  for (auto& vector : read_vectors("round")) {
    SCOPED_TRACE(vector.str());
    const double value = read_double(vector);
    int digits = 0;
    vector >> digits;
    const double expected = read_double(vector);
    EXPECT_TRUE(is_identical(python_round(value, digits), expected)) << python_round(value, digits);
  }
}

TEST(PythonRound, BreaksExactTiesToTheEvenDigit) {
  EXPECT_EQ(python_round(0.125, 2), 0.12);
  EXPECT_EQ(python_round(0.375, 2), 0.38);
  EXPECT_EQ(python_round(2.675, 2), 2.67);  // lies below the tie
}

TEST(PythonRound, LeavesNanAlone) {
  EXPECT_TRUE(std::isnan(python_round(std::numeric_limits<double>::quiet_NaN(), 2)));
}

TEST(PythonRound, AgreesWithPythonOnIntegers) {
  for (auto& vector : read_vectors("whole")) {
    SCOPED_TRACE(vector.str());
    const double value = read_double(vector);
    std::int64_t expected = 0;
    vector >> expected;
    EXPECT_EQ(python_round(value), expected);
  }
}

TEST(PythonList, WritesIntegersBetweenBrackets) {
  EXPECT_EQ(python_list({}), "[]");
  EXPECT_EQ(python_list({7}), "[7]");
  EXPECT_EQ(python_list({0, -1, std::numeric_limits<std::int64_t>::max()}),
            "[0, -1, 9223372036854775807]");
}

TEST(PythonCenter, AgreesWithPython) {
  for (auto& vector : read_vectors("center")) {
    SCOPED_TRACE(vector.str());
    std::size_t length = 0, width = 0, left = 0, total = 0;
    vector >> length >> width >> left >> total;
    const std::string text(length, 'x');
    const std::string expected =
        std::string(left, ' ') + text + std::string(total - length - left, ' ');
    EXPECT_EQ(python_center(text, width), expected);
  }
}

TEST(PythonCenter, CountsCodePoints) {
  EXPECT_EQ(python_center("\xC3\xA9\xE2\x82\xAC", 4), " \xC3\xA9\xE2\x82\xAC ");
  EXPECT_EQ(python_center("", 3), "   ");
}

TEST(DivideExactly, AgreesWithPython) {
  for (auto& vector : read_vectors("divide")) {
    SCOPED_TRACE(vector.str());
    const Uint128 numerator = read_integer(vector);
    const Uint128 denominator = read_integer(vector);
    const double expected = read_double(vector);
    EXPECT_EQ(divide_exactly(numerator, denominator), expected);
  }
}

TEST(DivideExactly, GivesBackAFactorOfAProduct) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 1000; ++i) {
    SCOPED_TRACE(i);
    const std::uint64_t factor = random() >> 11;
    const std::uint64_t denominator = (random() >> (random() % 60)) | 1;
    EXPECT_EQ(divide_exactly(Uint128{factor} * denominator, denominator),
              static_cast<double>(factor));
  }
}

TEST(DivideExactly, IsTheNearestDoubleOfSmallOperands) {
  std::mt19937_64 random(2);
  for (int i = 0; i < 1000; ++i) {
    SCOPED_TRACE(i);
    const std::uint64_t a = random() >> (11 + random() % 50);
    const std::uint64_t b = (random() >> (11 + random() % 50)) | 1;
    EXPECT_EQ(divide_exactly(a, b), static_cast<double>(a) / static_cast<double>(b));
    // A common factor takes both out of the range where one division suffices.
    const Uint128 factor = (Uint128{1} << 60) + 1;
    EXPECT_EQ(divide_exactly(a * factor, b * factor),
              static_cast<double>(a) / static_cast<double>(b));
  }
}

}  // namespace
}  // namespace plimsoll
