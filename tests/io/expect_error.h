// A reader's error, by place and code.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "plimsoll/core/result.h"

namespace plimsoll::io {

template <class T>
void expect_error(const Result<T>& result, ErrorCode code, const std::string& place,
                  const std::string& part_of_text = "") {
  ASSERT_FALSE(result.has_value());
  EXPECT_EQ(to_string(result.error().code), to_string(code)) << format_error(result.error());
  EXPECT_EQ(result.error().place, place) << format_error(result.error());
  EXPECT_THAT(format_error(result.error()), ::testing::HasSubstr(part_of_text));
}

}  // namespace plimsoll::io
