#include "core/search_record.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>

namespace plimsoll {
namespace {

TEST(SearchRecord, ReadsBackWhatItWrote) {
  SearchRecord record;
  record.search = "balanced";
  record.variant = "2.13";
  record.effort = 5000;
  record.tolerance = 0.1;
  OptionTexts texts{{"on", "dgx-h100"}};
  put_search_record(record, texts);
  EXPECT_EQ(texts, (OptionTexts{{"effort", "5000"},
                                {"on", "dgx-h100"},
                                {"search", "balanced"},
                                {"tolerance", "0.1"},
                                {"variant", "2.13"}}));
  const SearchRecord read = read_search_record(texts);
  EXPECT_EQ(read.search, record.search);
  EXPECT_EQ(read.variant, record.variant);
  EXPECT_EQ(read.effort, record.effort);
  EXPECT_EQ(read.tolerance, record.tolerance);
}

TEST(SearchRecord, IsEmptyWhereAPlanRecordsNothing) {
  OptionTexts texts;
  put_search_record({}, texts);
  EXPECT_TRUE(texts.empty());
  EXPECT_FALSE(search_record_of(std::nullopt).search);
  EXPECT_FALSE(search_record_of(Provenance{}).search);
}

TEST(SearchRecord, TakesNothingFromTextsThatNoSearchWrites) {
  const std::pair<const char*, const char*> cases[] = {
      {"effort", "many"}, {"effort", "-1"}, {"tolerance", "0.1x"}, {"tolerance", "-0.5"}};
  for (const auto& [name, text] : cases) {
    SCOPED_TRACE(std::string(name) + "=" + text);
    const SearchRecord read = read_search_record({{"search", "exact"}, {name, text}});
    EXPECT_EQ(read.search, "exact");
    EXPECT_FALSE(read.effort || read.tolerance);
  }
}

}  // namespace
}  // namespace plimsoll
