#include "core/option_record.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace plimsoll {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::Pair;

enum class Colour { kRed, kGreen };

struct Options {
  bool is_on = false;
  std::int64_t effort = 7;
  double ratio = 1;
  std::string name;
  std::vector<std::string> units, sizes;
  std::optional<double> cap;
  Colour colour = Colour::kRed;
  bool operator==(const Options&) const = default;
};

template <class Fields, class T>
void describe_record(Fields& fields, T& options) {
  fields.stated("is_on", options.is_on);
  fields.unusual("effort", options.effort, std::int64_t{7});
  fields.unusual("ratio", options.ratio, 1.0);
  fields.unusual("name", options.name);
  fields.unusual("units", options.units);
  fields.by_class("sizes", options.sizes);
  fields.stated("cap", options.cap);
  fields.named("colour", options.colour, {{"red", Colour::kRed}, {"green", Colour::kGreen}});
}

OptionTexts write(const Options& options) {
  OptionTexts texts;
  RecordWriter writer(texts);
  describe_record(writer, options);
  return texts;
}

Result<Options> read(const OptionTexts& texts) {
  Options options;
  RecordReader reader(texts);
  describe_record(reader, options);
  PLIMSOLL_RETURN_IF_ERROR(reader.finish());
  return options;
}

TEST(OptionRecord, WritesWhatIsStatedAndWhatIsUnusual) {
  EXPECT_THAT(write({}), ElementsAre(Pair("colour", "red"), Pair("is_on", "false")));
  const Options options{true,          -3, .1, "a b", {"x", "y"}, {"4", "cpu=1", "cpu=2"}, 2.5,
                        Colour::kGreen};
  EXPECT_THAT(write(options),
              ElementsAre(Pair("cap", "2.5"), Pair("colour", "green"), Pair("effort", "-3"),
                          Pair("is_on", "true"), Pair("name", "a b"), Pair("ratio", "0.1"),
                          Pair("sizes", "4"), Pair("sizes/cpu", "1,2"), Pair("units", "x,y")));
}

TEST(OptionRecord, ReadsBackWhatItWrites) {
  for (const Options& options :
       {Options(), Options{true, 1, 1.0 / 3, "n", {"u"}, {"2", "cpu=1"}, 1e-300, Colour::kGreen},
        Options{false, 7, -0.0, "", {}, {"gpu=8"}, 0, Colour::kRed}}) {
    const auto again = read(write(options));
    ASSERT_TRUE(again) << format_error(again.error());
    EXPECT_EQ(*again, options);
  }
}

TEST(OptionRecord, RefusesTextsThatNoWriterWrites) {
  const std::pair<const char*, const char*> faults[] = {
      {"is_on", "yes"},  {"effort", "7x"}, {"effort", ""},
      {"ratio", "one"},  {"cap", "-"},     {"effort", "99999999999999999999"},
      {"colour", "blue"}};
  for (const auto& [name, text] : faults) {
    SCOPED_TRACE(name);
    const auto refused = read({{name, text}});
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, ErrorCode::kSchema);
    EXPECT_EQ(refused.error().place, std::string("provenance/options/") + name);
  }
}

TEST(OptionRecord, FillsWhatIsAsUsualAlone) {
  Options options;
  options.effort = 1;
  options.sizes = {"3"};
  const OptionTexts texts{
      {"effort", "9"}, {"ratio", "2"}, {"sizes/cpu", "1"}, {"units", ""}, {"name", "n"}};
  RecordReader reader(texts, true);
  describe_record(reader, options);
  EXPECT_EQ(options.effort, 1);
  EXPECT_EQ(options.ratio, 2);
  EXPECT_EQ(options.name, "n");
  EXPECT_THAT(options.sizes, ElementsAre("3"));
  EXPECT_THAT(options.units, IsEmpty());
}

}  // namespace
}  // namespace plimsoll
