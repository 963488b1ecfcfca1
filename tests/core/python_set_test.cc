#include "core/python_set.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

namespace plimsoll {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

PythonIntSet set_of(const std::vector<int>& keys) { return PythonIntSet(keys); }

// list({8, 2}) is [8, 2]: in a table of eight slots 8 stands in the first. Five keys make it grow.
TEST(PythonIntSet, IsWalkedByTheRestsOfItsKeys) {
  EXPECT_THAT(set_of({2, 8}).keys(), ElementsAre(8, 2));
  EXPECT_THAT(set_of({2, 8, 2}).keys(), ElementsAre(8, 2));
  EXPECT_THAT(set_of({9, 8, 7, 6, 5}).keys(), ElementsAre(5, 6, 7, 8, 9));
  EXPECT_THAT(set_of({}).keys(), IsEmpty());
  EXPECT_TRUE(set_of({2, 8}).contains(8));
  EXPECT_FALSE(set_of({2, 8}).contains(0));
  EXPECT_FALSE(set_of({2, 8}).contains(-1));
}

// Recorded from CPython 3.11.7: {6, 7, 8, 9, 1} - {7, 0, 6} and more.
TEST(PythonIntSet, KeepsTheOrderOfDifferencesAndUnions) {
  const PythonIntSet a = set_of({7, 9, 6, 8, 1});
  EXPECT_THAT(a.keys(), ElementsAre(1, 6, 7, 8, 9));
  EXPECT_THAT(a.without(set_of({1})).keys(), ElementsAre(8, 9, 6, 7));
  EXPECT_THAT(a.without(set_of({7, 0, 6})).keys(), ElementsAre(8, 1, 9));
  PythonIntSet all = set_of({7});
  all.update(set_of({7, 0, 6}).without(set_of({1})));
  EXPECT_THAT(all.keys(), ElementsAre(0, 6, 7));
  all.update(all);
  EXPECT_EQ(all.size(), 3u);
}

// Random sets, and a hash of all their orders that CPython 3.7 to 3.13 gives for the same program.
TEST(PythonIntSet, WalksRandomSetsAsCPythonDoes) {
  std::uint64_t x = 1, digest = 14695981039346656037u;
  const auto draw = [&x](int n) {
    x = (x * 1103515245 + 12345) % (std::uint64_t{1} << 31);
    return static_cast<int>((x >> 8) % static_cast<std::uint64_t>(n));
  };
  for (int round = 0; round < 400; ++round) {
    const int n = 1 + draw(1 + round);
    std::vector<std::vector<int>> lists;
    for (const int count : {n, 1 + n / 7, 1 + n / 2}) {
      std::vector<int>& list = lists.emplace_back();
      for (int i = 0; i < count; ++i) list.push_back(draw(2 * n));
    }
    const PythonIntSet a(lists[0]), b(lists[1]), c(lists[2]);
    PythonIntSet u;
    u.add(lists[0][0]);
    u.update(c.without(b));
    u.update(a.without(b).without(c));
    for (const PythonIntSet& set : {a, a.without(b), a.without(c), a.without(b).without(c), u}) {
      for (const int key : set.keys()) {
        digest = (digest ^ static_cast<std::uint64_t>(key)) * 1099511628211u;
      }
    }
  }
  EXPECT_EQ(digest, 0x9ee3a88c618cda9eu);
}

}  // namespace
}  // namespace plimsoll
