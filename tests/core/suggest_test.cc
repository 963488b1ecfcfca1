#include "core/suggest.h"

#include <gtest/gtest.h>

#include <vector>

namespace plimsoll {
namespace {

using Names = std::vector<std::string>;

TEST(FindSimilar, CountsEveryKindOfSlipAsOne) {
  for (const std::string_view slip : {"rat", "bats", "at", "bta"}) {
    SCOPED_TRACE(slip);
    EXPECT_EQ(find_similar(slip, Names{"bat"}), "bat");
  }
}

TEST(FindSimilar, FindsTheWordItself) {
  EXPECT_EQ(find_similar("row_wise", Names{"column_wise", "row_wise"}), "row_wise");
}

TEST(FindSimilar, PrefersTheNearest) {
  EXPECT_EQ(find_similar("table_row_wis", Names{"table_row_w", "table_row_wise"}),
            "table_row_wise");
}

TEST(FindSimilar, GivesTiesToTheFirst) {
  EXPECT_EQ(find_similar("cat", Names{"bat", "rat"}), "bat");
  EXPECT_EQ(find_similar("cat", Names{"rat", "bat"}), "rat");
}

TEST(FindSimilar, AllowsAThirdOfTheWordAndNoMore) {
  EXPECT_EQ(find_similar("abcdef", Names{"xbcdex"}), "xbcdex");      // 2 of 6
  EXPECT_EQ(find_similar("abcdef", Names{"xxcdex"}), std::nullopt);  // 3 of 6
  EXPECT_EQ(find_similar("abcde", Names{"xbcdx"}), std::nullopt);    // 2 of 5
  EXPECT_EQ(find_similar("a", Names{"b"}), "b");                     // at least one slip
  EXPECT_EQ(find_similar("ab", Names{"ba"}), "ba");                  // a swap is one
  EXPECT_EQ(find_similar("ab", Names{"xy"}), std::nullopt);
  EXPECT_EQ(find_similar("ab", Names{}), std::nullopt);
}

TEST(Suggest, AsksWhetherTheNearestWasMeant) {
  EXPECT_EQ(suggest("colum_wise", Names{"row_wise", "column_wise"}), "did you mean 'column_wise'?");
}

TEST(Suggest, AsksForNamesThatContainTheWord) {
  const Names names{"mlperf-dlrm-dcnv2", "mlperf-dlrm-v1", "criteo-kaggle"};
  EXPECT_EQ(suggest("mlperf", names), "did you mean 'mlperf-dlrm-dcnv2' or 'mlperf-dlrm-v1'?");
  EXPECT_EQ(suggest("kaggle", names), "did you mean 'criteo-kaggle'?");
  // Two characters are contained in too much.
  EXPECT_EQ(suggest("dl", names), "known: mlperf-dlrm-dcnv2, mlperf-dlrm-v1, criteo-kaggle");
  // Of five names a list is clearer.
  EXPECT_EQ(suggest("abcd", Names{"abcd-one", "abcd-two", "abcd-three", "abcd-four", "abcd-five"}),
            "known: abcd-one, abcd-two, abcd-three, abcd-four, abcd-five");
}

TEST(Suggest, ListsWhatIsKnownWhereNothingIsNear) {
  EXPECT_EQ(suggest("zzz", Names{"row_wise", "column_wise"}), "known: row_wise, column_wise");
}

TEST(Suggest, ListsTheFirstSixteen) {
  Names names;
  std::string expected = "known: ";
  for (int i = 10; i < 26; ++i) {
    names.push_back("name" + std::to_string(i));
    expected += (i > 10 ? ", " : "") + names.back();
  }
  EXPECT_EQ(suggest("zzz", names), expected);
  names.push_back("name99");
  EXPECT_EQ(suggest("zzz", names), expected + ", ...");
}

TEST(Suggest, IsSilentWithoutCandidates) { EXPECT_EQ(suggest("zzz", Names{}), ""); }

}  // namespace
}  // namespace plimsoll
