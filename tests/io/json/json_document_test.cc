#include "io/json/json_document.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace plimsoll::io {
namespace {

using ::testing::HasSubstr;

Error error_of(std::string_view text) {
  const Result<JsonValue> value = parse_json(text, "f.json");
  EXPECT_FALSE(value.has_value()) << text;
  return value ? Error{} : value.error();
}

std::string nested(int depth) {
  const auto count = static_cast<std::size_t>(depth);
  return std::string(count, '[') + std::string(count, ']');
}

TEST(JsonDocument, KeepsOrderAndKinds) {
  const auto value = parse_json(R"({"b": [1, 2.0, -3, true, null, "x"], "a": {}})", "f.json");
  ASSERT_TRUE(value.has_value());
  EXPECT_EQ(print_compact(*value), R"({"b": [1, 2.0, -3, true, null, "x"], "a": {}})");
}

TEST(JsonDocument, KeepsIntegersBeyond64BitsAsDigits) {
  for (const char* digits : {"9223372036854775808", "18446744073709551616", "-9223372036854775809",
                             "100000000000000000000000000000000"}) {
    const auto value = parse_json(digits, "f.json");
    ASSERT_TRUE(value.has_value());
    ASSERT_NE(value->as<JsonValue::BigInteger>(), nullptr) << digits;
    EXPECT_EQ(value->as<JsonValue::BigInteger>()->digits, digits);
  }
  const auto largest = parse_json("9223372036854775807", "f.json");
  ASSERT_TRUE(largest.has_value());
  EXPECT_EQ(*largest->as<std::int64_t>(), INT64_MAX);
  const auto smallest = parse_json("-9223372036854775808", "f.json");
  ASSERT_TRUE(smallest.has_value());
  EXPECT_EQ(*smallest->as<std::int64_t>(), INT64_MIN);
}

TEST(JsonDocument, RefusesAKeyThatStandsTwice) {
  const Error error = error_of(R"({"a": {"b/c": 1, "x": 2, "b/c": 3}})");
  EXPECT_EQ(error.code, ErrorCode::kSyntax);
  EXPECT_EQ(error.place, "f.json#/a/b~1c");
  EXPECT_THAT(error.message, HasSubstr("twice"));
  EXPECT_FALSE(error.remedy.empty());
  EXPECT_TRUE(parse_json(R"([{"a": 1}, {"a": 2}])", "f.json").has_value());
}

TEST(JsonDocument, RefusesNestingBeyond128Levels) {
  EXPECT_TRUE(parse_json(nested(128), "f.json").has_value());
  const Error error = error_of(nested(129));
  EXPECT_EQ(error.code, ErrorCode::kSyntax);
  EXPECT_THAT(error.place, HasSubstr("f.json#/0/0/"));
  EXPECT_THAT(error.message, HasSubstr("128"));
  EXPECT_EQ(error_of(std::string(1 << 20, '[')).code, ErrorCode::kSyntax);
}

TEST(JsonDocument, RefusesTextsThatAreNotJsonAndSaysWhere) {
  struct Case {
    const char* text;
    const char* place;
    const char* remedy;
  };
  const Case cases[] = {
      {"", "f.json#", "the file is empty"},
      {R"({"a": [1, 2)", "f.json#/a/2", "complete"},
      {R"({"a": "x)", "f.json#/a", "complete"},
      {R"({"a": 1} x)", "f.json#", ""},
      {R"({"a": 1}{})", "f.json#", ""},
      {R"({"a": NaN})", "f.json#/a", "NaN"},
      {R"({"a": [1, -Infinity]})", "f.json#/a/1", "Infinity"},
      {"{\"a\": \"\xff\"}", "f.json#/a", "UTF-8"},
      {"{\"a\": \"\xc0\xaf\"}", "f.json#/a", "UTF-8"},
      {R"({"a": "\ud800"})", "f.json#/a", ""},
      {R"({"a": 01})", "f.json#/a", ""},
      {R"({"a": 1,})", "f.json#/a", ""},
      {"// comment\n{}", "f.json#", ""},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.text);
    const Error error = error_of(c.text);
    EXPECT_EQ(error.code, ErrorCode::kSyntax);
    EXPECT_EQ(error.place, c.place);
    EXPECT_THAT(error.message, HasSubstr("line"));
    EXPECT_THAT(error.remedy, HasSubstr(c.remedy));
  }
}

TEST(JsonDocument, TellsBrokenEncodingFromOtherFaults) {
  const char* const kUtf8[] = {"[\"\xc3(\"]", "[\"\xed\xa0\x80\"]", "[\"\xf4\x90\x80\x80\"]",
                               "\xff"};
  for (const char* text : kUtf8) EXPECT_THAT(error_of(text).remedy, HasSubstr("UTF-8")) << text;
  const char* const kShort[] = {"[\"\xc3\xa9", "[\"\xe2\x82", "[1, 2]]"};
  EXPECT_THAT(error_of(kShort[0]).remedy, HasSubstr("complete"));
  EXPECT_THAT(error_of(kShort[1]).remedy, HasSubstr("complete"));
  EXPECT_EQ(error_of(kShort[2]).remedy, "");
  EXPECT_EQ(error_of("{\"\xc3\xa9\": tru}").remedy, "");
}

TEST(JsonDocument, RefusesNumbersBeyondDouble) {
  EXPECT_EQ(error_of("[1e400]").code, ErrorCode::kOverflow);
  EXPECT_EQ(error_of("[1e400]").place, "f.json#/0");
  EXPECT_EQ(error_of(std::string(1000, '9')).code, ErrorCode::kOverflow);
}

TEST(JsonDocument, RefusesHugeTexts) {
  const std::string text(kMaxFileBytes + 1, ' ');
  const Error error = error_of(text);
  EXPECT_EQ(error.code, ErrorCode::kIo);
}

TEST(JsonDocument, PrintsDoublesThatReadBack) {
  for (const double value : {0.1, 1.0, -0.0, 1e300, 5e-324, 963146416.128, 1.0 / 3}) {
    const auto read = parse_json(print_compact({value}), "f.json");
    ASSERT_TRUE(read.has_value());
    ASSERT_NE(read->as<double>(), nullptr) << value;
    EXPECT_EQ(*read->as<double>(), value);
  }
  EXPECT_EQ(print_compact({std::numeric_limits<double>::infinity()}), "null");
  EXPECT_EQ(print_compact({std::nan("")}), "null");
}

TEST(JsonDocument, PrintsBytesThatAreNotUtf8AsReplacement) {
  EXPECT_EQ(print_compact({std::string("a\xff")}), "\"a\xef\xbf\xbd\"");
}

TEST(JsonDocument, PrintsLinesOfAtMost100Columns) {
  JsonValue::Array numbers;
  for (std::int64_t i = 0; i < 1000; ++i) numbers.push_back({i});
  JsonValue::Array objects;
  for (std::int64_t i = 0; i < 30; ++i) {
    objects.push_back({JsonValue::Object{{"key", {i}}, {"other", {std::string("text")}}}});
  }
  const JsonValue value{
      JsonValue::Object{{"numbers", {std::move(numbers)}}, {"objects", {std::move(objects)}}}};
  const std::string text = print_json(value);
  std::size_t longest = 0;
  std::size_t lines = 0;
  for (std::size_t start = 0; start < text.size(); ++lines) {
    const std::size_t end = text.find('\n', start);
    longest = std::max(longest, end - start);
    start = end + 1;
  }
  EXPECT_LE(longest, 100u);
  EXPECT_LT(lines, 90u);
  const auto read = parse_json(text, "f.json");
  ASSERT_TRUE(read.has_value());
  EXPECT_EQ(print_compact(*read), print_compact(value));
}

}  // namespace
}  // namespace plimsoll::io
