#include "plimsoll/math/frontier.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "math/random_functions.h"

namespace plimsoll::math {
namespace {

using ::testing::Optional;

// ms at bytes: 8 at 10, one less a byte until 14; 3 from 14 on; 0 from 20 on.
Frontier staircase() { return Frontier({{10, 8, -1}, {14, 3, 0}, {20, 0, 0}}); }

TEST(Frontier, AnswersByMemoryAndByTime) {
  const Frontier frontier = staircase();
  EXPECT_TRUE(frontier.is_exact());
  EXPECT_EQ(frontier.min_bytes(), 10);
  EXPECT_EQ(frontier.saturation_bytes(), 20);
  EXPECT_EQ(frontier.max_ms(), 8);
  EXPECT_EQ(frontier.min_ms(), 0);
  EXPECT_EQ(frontier.ms_at(9), std::nullopt);
  EXPECT_THAT(frontier.ms_at(10), Optional(8));
  EXPECT_THAT(frontier.ms_at(13), Optional(5));
  EXPECT_THAT(frontier.ms_at(19), Optional(3));
  EXPECT_THAT(frontier.ms_at(500), Optional(0));
  EXPECT_EQ(frontier.price_at(12), 1);
  EXPECT_EQ(frontier.price_at(15), 0);

  EXPECT_THAT(frontier.bytes_for(100), Optional(10));
  EXPECT_THAT(frontier.bytes_for(8), Optional(10));
  EXPECT_THAT(frontier.bytes_for(7.5), Optional(11));
  EXPECT_THAT(frontier.bytes_for(5), Optional(13));
  EXPECT_THAT(frontier.bytes_for(4.9), Optional(14));
  EXPECT_THAT(frontier.bytes_for(2.9), Optional(20));
  EXPECT_EQ(frontier.bytes_for(-1), std::nullopt);
}

TEST(Frontier, FindsTheBestSizeAtAPriceAndPrefersFreeMemory) {
  const Frontier frontier = staircase();
  const auto dear = frontier.cheapest_at(2);
  EXPECT_EQ(dear->bytes, 10);
  EXPECT_EQ(dear->cost, 28);
  EXPECT_EQ(frontier.cheapest_at(.6)->bytes, 14);
  EXPECT_EQ(frontier.cheapest_at(.4)->bytes, 20);
  EXPECT_EQ(frontier.cheapest_at(.5)->bytes, 14);  // 14 and 20 cost the same
  EXPECT_EQ(frontier.cheapest_at(0)->bytes, 20);
  EXPECT_EQ(dear->bound, dear->cost);
}

TEST(Frontier, BendsMostAtItsKnee) {
  EXPECT_THAT(staircase().knee(), Optional(14));
  EXPECT_EQ(Frontier({{10, 8, 0}}).knee(), std::nullopt);
  EXPECT_EQ(Frontier().knee(), std::nullopt);
  EXPECT_TRUE(Frontier().is_empty());
  EXPECT_EQ(Frontier().ms_at(3), std::nullopt);
  EXPECT_EQ(Frontier().bytes_for(3), std::nullopt);
  EXPECT_FALSE(Frontier().cheapest_at(3));
}

TEST(Frontier, SaysWhereItIsExact) {
  const Frontier frontier({{10, 8, -1}, {14, 3, 0}}, {{8, 8, -1}, {13, 3, 0}});
  EXPECT_FALSE(frontier.is_exact());
  const auto points = frontier.breakpoints();
  EXPECT_FALSE(points[0].is_exact);
  EXPECT_TRUE(points[1].is_exact);
  EXPECT_EQ(frontier.cheapest_at(2)->cost, 28);
  EXPECT_EQ(frontier.cheapest_at(2)->bound, 24);
  EXPECT_TRUE(staircase().breakpoints()[0].is_exact);
}

TEST(Frontier, InvertsItselfAtEveryByte) {
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    const Frontier frontier(random_function(random));
    for (Bytes bytes = frontier.min_bytes(); bytes < 120; ++bytes) {
      const double ms = *frontier.ms_at(bytes);
      const auto back = frontier.bytes_for(ms);
      ASSERT_TRUE(back);
      ASSERT_LE(*back, bytes);
      ASSERT_LE(*frontier.ms_at(*back), ms);
      if (*back > frontier.min_bytes()) {
        ASSERT_GT(*frontier.ms_at(*back - 1), ms);
      }
    }
    for (int k = 0; k <= 20; ++k) {
      const double price = .1 * k;
      double least = kInfinity;
      for (Bytes bytes = frontier.min_bytes(); bytes < 160; ++bytes) {
        least = std::min(least, *frontier.ms_at(bytes) + price * static_cast<double>(bytes));
      }
      ASSERT_NEAR(frontier.cheapest_at(price)->cost, least, 1e-9);
    }
  }
}

}  // namespace
}  // namespace plimsoll::math
