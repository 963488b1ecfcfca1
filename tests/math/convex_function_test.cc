#include "math/convex_function.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "math/random_functions.h"

namespace plimsoll::math {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// The largest convex function below the values at the integers of [from, to], by all chords.
double convexified(const PiecewiseLinear& f, Bytes s, Bytes from, Bytes to) {
  double least = value_at(f, s);
  for (Bytes a = from; a <= s; ++a) {
    for (Bytes b = s + 1; b <= to; ++b) {
      if (value_at(f, a) == kInfinity) continue;
      const double share = static_cast<double>(s - a) / static_cast<double>(b - a);
      least = std::min(least, (1 - share) * value_at(f, a) + share * value_at(f, b));
    }
  }
  return least;
}

//  9 ┤•                     hull: 9 at 0, 2 at 10, straight between; the point (5, 8) lies above
//    │     •
//  2 ┤          •────
TEST(ConvexFunction, DropsWhatLiesAboveAChord) {
  const PiecewiseLinear f{{0, 9, 0}, {5, 8, 0}, {10, 2, 0}};
  const PiecewiseLinear hull = lower_convex_hull(f);
  EXPECT_THAT(hull, ElementsAre(Segment{0, 9, -.7}, Segment{10, 2, 0}));
}

TEST(ConvexFunction, IsTheLowerHullAtEveryInteger) {
  for (std::uint64_t seed = 1; seed <= 150; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    const PiecewiseLinear a = random_function(random, 5), b = random_function(random, 5);
    PiecewiseLinear least;
    lower_envelope(a, b, least);
    const PiecewiseLinear hull = convex_minimum(lower_convex_hull(a), lower_convex_hull(b));
    for (Bytes s = least.front().x; s <= 90; ++s) {
      ASSERT_NEAR(value_at(hull, s), convexified(least, s, least.front().x, 95), 1e-9) << s;
    }
    EXPECT_EQ(value_at(hull, least.front().x - 1), kInfinity);
  }
}

TEST(ConvexFunction, ConvolvesAsTheExactOne) {
  for (std::uint64_t seed = 1; seed <= 500; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    const PiecewiseLinear w = lower_convex_hull(random_function(random));
    const ConvexCost cost = random_cost(random);
    const PiecewiseLinear merged = convex_convolution(w, cost), exact = convolve(w, cost);
    for (Bytes s = -80; s <= 120; ++s) {
      const double a = value_at(merged, s), b = value_at(exact, s);
      ASSERT_TRUE(a == b || std::abs(a - b) < 1e-9) << s;
    }
    for (std::size_t k = 1; k < merged.size(); ++k) {
      ASSERT_GE(merged[k].slope, merged[k - 1].slope - 1e-12);
    }
  }
}

TEST(ConvexFunction, BoundsPointsFromBelow) {
  const ConvexHullOfPoints hull =
      lower_convex_hull(std::vector<CostPoint>{{30, 9}, {10, 2}, {20, 7}, {25, 4}, {12, 2}});
  EXPECT_EQ(hull.least_bytes, 12);  // 10 bytes cost as much
  EXPECT_EQ(hull.cost.fixed, 2);
  EXPECT_THAT(hull.cost.pieces, ElementsAre(CostPiece{13, 2. / 13}, CostPiece{5, 1}));
}

TEST(ConvexFunction, IsFlatBeyondAPointThatMustBeReached) {
  const PiecewiseLinear w{{0, 9, -2}, {2, 5, -1}, {6, 1, 0}};
  PiecewiseLinear f = w;
  flatten_beyond(f, 7);
  EXPECT_EQ(f, w);
  flatten_beyond(f, 3);
  EXPECT_THAT(f, ElementsAre(Segment{0, 9, -2}, Segment{2, 5, -1}, Segment{3, 4, 0}));
  flatten_beyond(f, 2);
  EXPECT_THAT(f, ElementsAre(Segment{0, 9, -2}, Segment{2, 5, 0}));
  flatten_beyond(f, 0);
  EXPECT_THAT(f, ElementsAre(Segment{0, 9, 0}));
  flatten_beyond(f, -1);
  EXPECT_THAT(f, IsEmpty());
}

}  // namespace
}  // namespace plimsoll::math
