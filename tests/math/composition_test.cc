// Frontiers under one cap against trying every split, and what must hold of any sum of curves.
#include "math/composition.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "math/random_functions.h"

namespace plimsoll::math {
namespace {

using ::testing::ElementsAre;

// The least sum over all splits of `cap` into whole bytes.
double least_sum(const std::vector<PiecewiseLinear>& parts, std::size_t k, Bytes cap) {
  if (k + 1 == parts.size()) return value_at(parts[k], cap);
  double least = kInfinity;
  Bytes others = 0;
  for (std::size_t j = k + 1; j < parts.size(); ++j) others += parts[j].front().x;
  for (Bytes m = parts[k].front().x; m <= cap - others; ++m) {
    least = std::min(least, value_at(parts[k], m) + least_sum(parts, k + 1, cap - m));
  }
  return least;
}

// ms  8 |*                    ms  6 |*
//       | \                         |
//     4 |  *.....                 1 |    *....
//       +--+------ bytes            +----+---- bytes
//       10 14                       5    9
// 15 bytes are the least; the next four are worth 1 ms each to the first, the jump of the second
// is worth 5 at 4 bytes: so it is bought first, as soon as it fits.
TEST(Composition, BuysTheDearestBytesFirst) {
  const Frontier slope({{10, 8, -1}, {14, 4, 0}}), jump({{5, 6, 0}, {9, 1, 0}});
  const Composition both({slope, jump});
  EXPECT_EQ(both.whole().upper(), (PiecewiseLinear{{15, 14, -1}, {19, 9, -1}, {23, 5, 0}}));
  EXPECT_FALSE(both.split_at(14));
  EXPECT_THAT(both.split_at(15)->bytes, ElementsAre(10, 5));
  EXPECT_THAT(both.split_at(18)->bytes, ElementsAre(13, 5));
  const MemorySplit split = *both.split_at(21);
  EXPECT_THAT(split.bytes, ElementsAre(12, 9));
  EXPECT_EQ(split.ms, 7);
  EXPECT_EQ(split.lower_bound, 7);
  EXPECT_EQ(split.free, 0);
  EXPECT_THAT(split.price, ElementsAre(1, 0));
  EXPECT_EQ(split.next_gib_ms, 2);
  EXPECT_THAT(both.split_at(500)->bytes, ElementsAre(14, 9));  // no more than is of use
  EXPECT_EQ(both.split_at(500)->free, 477);
}

TEST(Composition, IsEmptyWhereAPartHasNoPlan) {
  const Composition none({Frontier({{3, 1, 0}}), Frontier()});
  EXPECT_TRUE(none.whole().is_empty());
  EXPECT_FALSE(none.split_at(1000));
  EXPECT_FALSE(split_between(Frontier({{3, 1, 0}}), Frontier(), 1000));
  EXPECT_FALSE(split_between(Frontier(), Frontier({{3, 1, 0}}), 1000));
  EXPECT_EQ(Composition({Frontier({{3, 1, 0}})}).split_at(4)->bytes, std::vector<Bytes>{3});
}

TEST(Composition, EqualsTryingEverySplitAndHandsOutNoMoreThanTheCap) {
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    std::vector<PiecewiseLinear> curves;
    std::vector<Frontier> parts;
    const int num_parts = seed % 4 == 0 ? 3 : 2;
    for (int k = 0; k < num_parts; ++k) {
      curves.push_back(random_function(random, 6));
      parts.emplace_back(curves.back());
    }
    const Composition composition(parts);
    const Frontier& whole = composition.whole();
    EXPECT_TRUE(whole.is_exact());
    const Bytes step = num_parts == 3 ? 7 : 1;
    for (Bytes cap = whole.min_bytes() - 2; cap <= whole.saturation_bytes() + 5; cap += step) {
      SCOPED_TRACE(cap);
      const double least = cap < whole.min_bytes() ? kInfinity : least_sum(curves, 0, cap);
      const auto ms = whole.ms_at(cap);
      ASSERT_EQ(ms.has_value(), std::isfinite(least));
      const auto split = composition.split_at(cap);
      ASSERT_EQ(split.has_value(), ms.has_value());
      if (!split && num_parts == 2) {
        ASSERT_FALSE(split_between(parts[0], parts[1], cap));
      }
      if (!split) continue;
      ASSERT_NEAR(*ms, least, 1e-9);
      ASSERT_NEAR(split->ms, least, 1e-9);
      ASSERT_LE(split->lower_bound, least + 1e-9);
      Bytes used = 0;
      double sum = 0;
      for (int k = 0; k < num_parts; ++k) {
        used += split->bytes[k];
        sum += value_at(curves[k], split->bytes[k]);
      }
      ASSERT_EQ(used + split->free, cap);
      ASSERT_GE(split->free, 0);
      ASSERT_EQ(sum, split->ms);
      // Less memory than is handed out costs more.
      if (used > whole.min_bytes()) {
        ASSERT_GT(*whole.ms_at(used - 1), split->ms);
      }
      if (num_parts > 2) continue;
      // The same without the curve of the whole.
      const auto direct = split_between(parts[0], parts[1], cap);
      ASSERT_TRUE(direct);
      ASSERT_NEAR(direct->ms, least, 1e-9);
      ASSERT_EQ(direct->lower_bound, direct->ms);
      ASSERT_EQ(direct->bytes[0] + direct->bytes[1] + direct->free, cap);
      ASSERT_GE(direct->free, 0);
      ASSERT_EQ(value_at(curves[0], direct->bytes[0]) + value_at(curves[1], direct->bytes[1]),
                direct->ms);
      ASSERT_NEAR(direct->next_gib_ms, split->next_gib_ms, 1e-9);
      for (int k = 0; k < 2; ++k) {
        ASSERT_EQ(direct->price[k], parts[k].price_at(direct->bytes[k]));
        ASSERT_EQ(direct->bytes[k], *parts[k].bytes_for(value_at(curves[k], direct->bytes[k])));
      }
    }
  }
}

TEST(Composition, BoundsFromBelowByTheLowerTwins) {
  int num_open = 0;
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    std::vector<PiecewiseLinear> truths;
    std::vector<Frontier> parts;
    for (int k = 0; k < 2; ++k) {
      truths.push_back(random_function(random, 6));
      PiecewiseLinear lower = truths.back(), upper = truths.back();
      const double by = .125 * static_cast<double>(random.whole(0, 16));
      for (Segment& piece : lower) piece.y -= by;
      for (Segment& piece : upper) piece.y += by;
      parts.emplace_back(upper, lower);
    }
    const Composition composition(parts);
    EXPECT_FALSE(composition.whole().is_exact());
    for (Bytes cap = composition.whole().min_bytes(); cap < 90; cap += 3) {
      const double least = least_sum(truths, 0, cap);
      const MemorySplit split = *composition.split_at(cap);
      ASSERT_LE(split.lower_bound, least + 1e-9);
      ASSERT_GE(split.ms, least - 1e-9);
      const MemorySplit direct = *split_between(parts[0], parts[1], cap);
      ASSERT_NEAR(direct.ms, split.ms, 1e-9);
      ASSERT_NEAR(direct.lower_bound, split.lower_bound, 1e-9);
      num_open += split.ms > split.lower_bound ? 1 : 0;
    }
  }
  EXPECT_GT(num_open, 1000);
}

TEST(Composition, FindsTheSameWithoutJoiningRuns) {
  CompositionWork joined, single;
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    const PiecewiseLinear other = random_function(random);
    // A convex curve: pieces that flatten, and no jump.
    PiecewiseLinear convex;
    Bytes x = 0;
    double y = 100, slope = -3;
    for (int k = 0; k < 6; ++k) {
      convex.push_back({x, y, slope});
      const Bytes length = random.whole(1, 9);
      x += length;
      y += slope * static_cast<double>(length);
      slope += .25;
    }
    convex.push_back({x, y, 0});
    for (const PiecewiseLinear& curve : {convex, random_function(random)}) {
      const Frontier a(curve), b(other);
      const Frontier fast = compose(a, b, {}, &joined);
      const Frontier slow = compose(a, b, {.join_runs = false}, &single);
      ASSERT_EQ(fast.min_bytes(), slow.min_bytes());
      for (Bytes cap = fast.min_bytes(); cap < 200; ++cap) {
        ASSERT_NEAR(*fast.ms_at(cap), *slow.ms_at(cap), 1e-9) << cap;
      }
    }
  }
  EXPECT_LT(2 * joined.convolutions, single.convolutions);
}

TEST(Composition, DependsOnThePartsAndNotOnTheirOrder) {
  for (std::uint64_t seed = 1; seed <= 100; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    std::vector<Frontier> parts;
    for (int k = 0; k < 3; ++k) parts.emplace_back(random_function(random, 5));
    const Composition one(parts), again(parts);
    std::swap(parts[0], parts[2]);
    const Composition other(parts);
    EXPECT_EQ(one.whole().upper(), again.whole().upper());
    EXPECT_EQ(one.whole().min_bytes(), other.whole().min_bytes());
    for (Bytes cap = one.whole().min_bytes(); cap < 150; ++cap) {
      ASSERT_EQ(one.split_at(cap), again.split_at(cap));
      ASSERT_NEAR(one.split_at(cap)->ms, other.split_at(cap)->ms, 1e-9);
    }
  }
}

TEST(Composition, IsNeverWorseThanServingOnePartFirst) {
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    const Frontier a(random_function(random)), b(random_function(random));
    const Composition both({a, b});
    for (Bytes cap = both.whole().min_bytes(); cap < 120; cap += 5) {
      const double a_first = *a.ms_at(cap - b.min_bytes()) + b.max_ms();
      const double b_first = *b.ms_at(cap - a.min_bytes()) + a.max_ms();
      ASSERT_LE(both.split_at(cap)->ms, std::min(a_first, b_first) + 1e-9);
    }
  }
}

// Curves of thousands of pieces at sizes of tens of gigabytes.
TEST(Composition, StandsLargeCurves) {
  Random random(3);
  std::vector<Frontier> parts;
  for (int k = 0; k < 2; ++k) {
    PiecewiseLinear f;
    Bytes x = 1'000'000'000;
    double y = 4000;
    for (int piece = 0; piece < 600; ++piece) {
      const double slope = -1e-9 * static_cast<double>(random.whole(1, 90));
      f.push_back({x, y, slope});
      const Bytes length = random.whole(1, 100'000'000);
      x += length;
      y += slope * static_cast<double>(length);
      if (piece % 3 == 0) y -= .5;
    }
    f.push_back({x, y, 0});
    parts.emplace_back(f);
  }
  const Composition both(parts);
  const Bytes low = both.whole().min_bytes(), high = both.whole().saturation_bytes();
  for (int k = 0; k <= 200; ++k) {
    const Bytes cap = low + (high - low) / 200 * k;
    const auto split = both.split_at(cap);
    ASSERT_TRUE(split);
    ASSERT_NEAR(split->ms, *both.whole().ms_at(cap), 1e-10 * (1 + split->ms));
    ASSERT_GE(split->free, 0);
  }
}

}  // namespace
}  // namespace plimsoll::math
