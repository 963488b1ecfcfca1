#include "plimsoll/core/checked.h"

#include <gtest/gtest.h>

#include <cmath>

namespace plimsoll {
namespace {

constexpr std::int64_t kLeast = std::numeric_limits<std::int64_t>::min();

TEST(Saturated, SumsAreExactUpToTheEndsOf64Bits) {
  EXPECT_EQ(saturated_add(kSaturated - 1, 1), kSaturated);
  EXPECT_EQ(saturated_add(kSaturated, kLeast), -1);
  EXPECT_EQ(saturated_subtract(kLeast + 1, 1), kLeast);
  EXPECT_EQ(saturated_subtract(-1, kLeast), kSaturated);
  EXPECT_EQ(saturated_multiply(std::int64_t{1} << 31, std::int64_t{1} << 31),
            std::int64_t{1} << 62);
  EXPECT_EQ(saturated_multiply(std::int64_t{1} << 32, -(std::int64_t{1} << 31)), kLeast);
}

TEST(Saturated, SumsStopAtTheEndsOf64Bits) {
  EXPECT_EQ(saturated_add(kSaturated, 1), kSaturated);
  EXPECT_EQ(saturated_add(kLeast, -1), kLeast);
  EXPECT_EQ(saturated_subtract(kLeast, 1), kLeast);
  EXPECT_EQ(saturated_subtract(0, kLeast), kSaturated);
  EXPECT_EQ(saturated_multiply(std::int64_t{1} << 32, std::int64_t{1} << 31), kSaturated);
  EXPECT_EQ(saturated_multiply(kLeast, -1), kSaturated);
  EXPECT_EQ(saturated_multiply(kSaturated, -2), kLeast);
}

TEST(Checked, NarrowsWhatFits) {
  EXPECT_EQ(checked_narrow<std::int32_t>(0x7fffffff), 0x7fffffff);
  EXPECT_EQ(checked_narrow<std::int32_t>(-0x80000000LL), std::numeric_limits<std::int32_t>::min());
  EXPECT_FALSE(checked_narrow<std::int32_t>(0x80000000LL));
  EXPECT_FALSE(checked_narrow<std::int32_t>(-0x80000001LL));
  EXPECT_FALSE(checked_narrow<std::int32_t>(std::int64_t{1} << 32));
}

TEST(Saturated, CastsDropFractionsAndStopAtTheEndsOf64Bits) {
  EXPECT_EQ(saturated_cast(2.9), 2);
  EXPECT_EQ(saturated_cast(-2.9), -2);
  EXPECT_EQ(saturated_cast(0x1p62), std::int64_t{1} << 62);
  EXPECT_EQ(saturated_cast(std::nextafter(0x1p63, 0)), 0x7ffffffffffffc00);
  EXPECT_EQ(saturated_cast(0x1p63), kSaturated);
  EXPECT_EQ(saturated_cast(-0x1p63), kLeast);
  EXPECT_EQ(saturated_cast(-1e300), kLeast);
  EXPECT_EQ(saturated_cast(INFINITY), kSaturated);
  EXPECT_EQ(saturated_cast(NAN), 0);
}

}  // namespace
}  // namespace plimsoll
