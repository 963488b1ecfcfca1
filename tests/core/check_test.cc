#include "core/check.h"

#include <gtest/gtest.h>

#include <csignal>

namespace plimsoll {
namespace {

int checked_half(int value) {
  PLIMSOLL_CHECK(value % 2 == 0, "the value is even");
  return value / 2;
}

int half(int value, int& num_looks) {
  PLIMSOLL_DCHECK((++num_looks, value % 2 == 0), "the value is even");
  return value / 2;
}

TEST(Check, LetsPassWhatHolds) { EXPECT_EQ(checked_half(4), 2); }

TEST(CheckDeathTest, NamesTheConditionAndAborts) {
  EXPECT_EXIT(
      checked_half(3), testing::KilledBySignal(SIGABRT),
      "^core/check_test.cc:[0-9]+: checked_half: check failed: value % 2 == 0 \\(the value is "
      "even\\)\n$");
}

TEST(CheckDeathTest, DebugChecksLookInDebugBuildsAlone) {
  int num_looks = 0;
  EXPECT_EQ(half(4, num_looks), 2);
  EXPECT_EQ(num_looks, internal::kHasDebugChecks ? 1 : 0);
  if (internal::kHasDebugChecks) {
    EXPECT_EXIT(half(3, num_looks), testing::KilledBySignal(SIGABRT), "half: check failed: ");
  } else {
    EXPECT_EQ(half(3, num_looks), 1);
  }
}

TEST(Check, IsAnExpression) {
  const auto twice = [](int value) { return PLIMSOLL_CHECK(value > 0, "positive"), 2 * value; };
  EXPECT_EQ(twice(2), 4);
}

}  // namespace
}  // namespace plimsoll
