#include "plimsoll/core/result.h"

#include <gtest/gtest.h>

#include <memory>

namespace plimsoll {
namespace {

Result<std::unique_ptr<int>> make_positive(int value) {
  if (value <= 0) return fail(ErrorCode::kValue, "x", "not positive", "give more");
  return std::make_unique<int>(value);
}

Result<void> check_positive(int value) {
  PLIMSOLL_ASSIGN([[maybe_unused]] const auto pointer, make_positive(value));
  return {};
}

Result<int> add_positives(int a, int b) {
  PLIMSOLL_RETURN_IF_ERROR(check_positive(a));
  PLIMSOLL_ASSIGN(const std::unique_ptr<int> first, make_positive(a));
  PLIMSOLL_ASSIGN(const std::unique_ptr<int> second, make_positive(b));
  return *first + *second;
}

TEST(Error, ReadsAsPlaceMessageAndRemedy) {
  EXPECT_EQ(format_error({ErrorCode::kValue, "a.json#/rows", "-1 is negative", "count rows", ""}),
            "a.json#/rows: -1 is negative; count rows");
}

TEST(Error, LeavesEmptyPartsOut) {
  EXPECT_EQ(format_error({ErrorCode::kValue, "", "it is bad", "mend it", ""}),
            "it is bad; mend it");
  EXPECT_EQ(format_error({ErrorCode::kValue, "here", "it is bad", "", ""}), "here: it is bad");
  EXPECT_EQ(format_error({ErrorCode::kValue, "", "it is bad", "", ""}), "it is bad");
  EXPECT_EQ(format_error({}), "");
}

TEST(ErrorCode, TravelsByName) {
  EXPECT_EQ(to_string(ErrorCode::kUsage), "usage");
  EXPECT_EQ(to_string(ErrorCode::kNotFound), "not_found");
  EXPECT_EQ(to_string(ErrorCode::kIo), "io");
  EXPECT_EQ(to_string(ErrorCode::kSyntax), "syntax");
  EXPECT_EQ(to_string(ErrorCode::kSchema), "schema");
  EXPECT_EQ(to_string(ErrorCode::kValue), "value");
  EXPECT_EQ(to_string(ErrorCode::kConflict), "conflict");
  EXPECT_EQ(to_string(ErrorCode::kOverflow), "overflow");
  EXPECT_EQ(to_string(ErrorCode::kRuntime), "runtime");
  EXPECT_EQ(to_string(ErrorCode::kZeroDivision), "zero_division");
  EXPECT_EQ(to_string(ErrorCode::kPlanner), "planner");
  EXPECT_EQ(to_string(ErrorCode::kInternal), "internal");
  EXPECT_EQ(to_string(ErrorCode::kOutOfMemory), "out_of_memory");
}

TEST(Result, MovesValuesThroughTheMacros) { EXPECT_EQ(add_positives(1, 2).value(), 3); }

TEST(Result, ReturnsTheFirstErrorFromTheEnclosingFunction) {
  const Error expected{ErrorCode::kValue, "x", "not positive", "give more", ""};
  EXPECT_EQ(add_positives(0, 2).error(), expected);
  EXPECT_EQ(add_positives(1, 0).error(), expected);
}

}  // namespace
}  // namespace plimsoll
