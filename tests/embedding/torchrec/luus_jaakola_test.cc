#include "embedding/torchrec/luus_jaakola.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <optional>
#include <random>
#include <vector>

namespace plimsoll::embedding {
namespace {

// Numbers that the reference's own tests assert.
double bowl(double x) { return x * x - 10 * x + 10; }

TEST(LuusJaakola, FindsWhatTheReferenceFinds) {
  const LuusJaakola::Best expected[] = {{3.51914, -12.80705},
                                        {4.22958, -14.40646},
                                        {5.41303, -14.82940},
                                        {2.35012, -7.97811},
                                        {4.18552, -14.33662}};
  for (std::uint32_t seed = 0; seed < 5; ++seed) {
    SCOPED_TRACE(seed);
    LuusJaakola search(0, 100, 16, seed);
    double cost = 0;
    int points = 0;
    while (const std::optional<double> point = search.next(cost)) {
      cost = bowl(*point);
      ++points;
    }
    EXPECT_EQ(points, 16);
    EXPECT_NEAR(search.best().point, expected[seed].point, 5e-6);
    EXPECT_NEAR(search.best().cost, expected[seed].cost, 5e-6);
  }
}

TEST(LuusJaakola, DrawsTheLowBitsOfMersenneTwister) {
  std::mt19937 generator(42);
  EXPECT_EQ(generator(), 1608637542U);
  EXPECT_EQ(generator(), 3421126067U);
  EXPECT_EQ(generator(), 4083286876U);
  EXPECT_EQ(generator(), 787846414U);
  LuusJaakola search(0, 0x1p24, 16);
  EXPECT_EQ(search.next(0), static_cast<double>(1608637542U & 0xFFFFFFU));
}

TEST(LuusJaakola, NeverRepeatsABorderOfKnownCost) {
  for (std::uint32_t seed = 0; seed < 50; ++seed) {
    SCOPED_TRACE(seed);
    LuusJaakola search(0, 100, 40, seed, 7.0);
    double cost = 0;
    int lefts = 0, rights = 0;
    while (const std::optional<double> point = search.next(cost)) {
      cost = -*point;  // the right border is best
      lefts += *point == 0;
      rights += *point == 100;
    }
    EXPECT_EQ(lefts, 0);
    EXPECT_LE(rights, 1);
  }
}

TEST(LuusJaakola, StaysBelowAShrunkBorder) {
  LuusJaakola search(0, 100, 30, 1);
  ASSERT_TRUE(search.next(0).has_value());
  search.shrink_right(20);
  double cost = 1;
  while (const std::optional<double> point = search.next(cost)) {
    EXPECT_GE(*point, 0);
    EXPECT_LT(*point, 20);
    cost = *point;
  }
}

TEST(LuusJaakola, EndsWhereTheReferenceWouldLoop) {
  LuusJaakola point(5, 5, 16, 42, 1.0);
  EXPECT_EQ(point.next(0), 5.0);  // the first point is free of choice
  EXPECT_EQ(point.next(1), std::nullopt);

  LuusJaakola shrunk(0, 10, 16, 42, 1.0);
  ASSERT_TRUE(shrunk.next(0).has_value());
  shrunk.shrink_right(0);
  EXPECT_EQ(shrunk.next(1e99), std::nullopt);
  shrunk.shrink_right(-3);
  EXPECT_EQ(shrunk.next(1e99), std::nullopt);
}

TEST(LuusJaakola, MayTryTheOnlyPointOnceMore) {
  LuusJaakola search(5, 5, 16);
  EXPECT_EQ(search.next(0), 5.0);
  EXPECT_EQ(search.next(1), 5.0);
  EXPECT_EQ(search.next(1), std::nullopt);
}

std::vector<std::int64_t> probes(std::int64_t left, std::int64_t right, std::int64_t tolerance) {
  BinarySearchPredicate search(left, right, tolerance);
  std::vector<std::int64_t> result;
  bool holds = false;
  while (const std::optional<std::int64_t> probe = search.next(holds)) {
    result.push_back(*probe);
    holds = *probe < 90;
  }
  return result;
}

TEST(BinarySearchPredicate, ProbesAsTheReferenceDoes) {
  using Probes = std::vector<std::int64_t>;
  EXPECT_EQ(probes(0, 100, 0), (Probes{50, 75, 88, 94, 91, 89, 90}));
  EXPECT_EQ(probes(0, 100, 3), (Probes{50, 75, 88, 94, 91}));
  EXPECT_EQ(probes(0, 100, 20), (Probes{50, 75, 88}));
  EXPECT_EQ(probes(91, 100, 0), (Probes{95, 92, 91}));
  EXPECT_EQ(probes(1, 10, 0), (Probes{5, 8, 9, 10}));
  EXPECT_EQ(probes(1, 1, 0), (Probes{1}));
  EXPECT_EQ(probes(1, 0, 0), (Probes{}));
}

}  // namespace
}  // namespace plimsoll::embedding
