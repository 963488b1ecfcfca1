#include "math/least_conflict.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>

namespace plimsoll::math {
namespace {

// Impossible where all conditions of one of the sets hold.
Possibility ask_sets(const std::vector<std::set<std::size_t>>& sets,
                     const std::vector<bool>& holds) {
  for (const std::set<std::size_t>& set : sets) {
    if (std::all_of(set.begin(), set.end(), [&holds](std::size_t i) { return holds[i]; })) {
      return Possibility::kImpossible;
    }
  }
  return Possibility::kPossible;
}

TEST(LeastConflict, IsOneOfTheSmallestReasons) {
  for (unsigned seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    const std::size_t n = 1 + random() % 40;
    std::vector<std::set<std::size_t>> sets(1 + random() % 3);
    for (std::set<std::size_t>& set : sets) {
      for (unsigned i = 0; i < 1 + random() % 4; ++i) set.insert(random() % n);
    }
    int questions = 0;
    const LeastConflict found = find_least_conflict(n, 1000, [&](const std::vector<bool>& holds) {
      ++questions;
      return ask_sets(sets, holds);
    });
    EXPECT_TRUE(found.is_irreducible);
    std::vector<bool> holds(n, false);
    for (const std::size_t i : found.members) holds[i] = true;
    EXPECT_EQ(ask_sets(sets, holds), Possibility::kImpossible);
    for (const std::size_t i : found.members) {
      holds[i] = false;
      EXPECT_EQ(ask_sets(sets, holds), Possibility::kPossible);
      holds[i] = true;
    }
    EXPECT_LE(questions, 2 * static_cast<int>(n));
  }
}

TEST(LeastConflict, AsksLittleWhereFewConditionsMatter) {
  int questions = 0;
  const auto found = find_least_conflict(1024, 1000, [&](const std::vector<bool>& holds) {
    ++questions;
    return ask_sets({{100, 900}}, holds);
  });
  EXPECT_EQ(found.members, (std::vector<std::size_t>{100, 900}));
  EXPECT_LE(questions, 45);  // 2 * 2 * log2(1024) and a few more
}

TEST(LeastConflict, IsEmptyWhereNoConditionMatters) {
  const auto found =
      find_least_conflict(5, 10, [](const std::vector<bool>&) { return Possibility::kImpossible; });
  EXPECT_TRUE(found.members.empty());
}

// Without 0 nothing is known as long as 1 holds, which the filter leaves out after it.
TEST(LeastConflict, AsksAgainWhenFewerConditionsHold) {
  const auto ask = [](const std::vector<bool>& holds) {
    if (!holds[2]) return Possibility::kPossible;
    if (!holds[0] && holds[1]) return Possibility::kUnknown;
    return Possibility::kImpossible;
  };
  const auto found = find_least_conflict(3, 100, ask);
  EXPECT_EQ(found.members, (std::vector<std::size_t>{2}));
  EXPECT_TRUE(found.is_irreducible);
}

TEST(LeastConflict, KeepsWhatItDoesNotKnowAndSaysSo) {
  const auto unknown =
      find_least_conflict(3, 10, [](const std::vector<bool>&) { return Possibility::kUnknown; });
  EXPECT_EQ(unknown.members.size(), 3U);
  EXPECT_FALSE(unknown.is_irreducible);
  const auto cut = find_least_conflict(
      8, 3, [](const std::vector<bool>& holds) { return ask_sets({{0}}, holds); });
  EXPECT_FALSE(cut.is_irreducible);
  EXPECT_TRUE(std::count(cut.members.begin(), cut.members.end(), 0U) == 1);
}

}  // namespace
}  // namespace plimsoll::math
