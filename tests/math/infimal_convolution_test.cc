#include "plimsoll/math/infimal_convolution.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "math/random_functions.h"

namespace plimsoll::math {
namespace {

using ::testing::ElementsAre;

bool is_near(double a, double b) { return a == b || std::abs(a - b) < 1e-9; }

// W jumps from 9 to 2 at 10. Bytes cost 1 each, at most 6 of them: from 4 on the jump can be
// bought.
//   s      4    5    ...  9    10
//   bought 6    5         1    0      plus W(10) = 2
TEST(InfimalConvolution, BuysUpToAJump) {
  const PiecewiseLinear w{{0, 9, 0}, {10, 2, 0}};
  const PiecewiseLinear f = convolve(w, ConvexCost{0, {{6, 1}}});
  EXPECT_THAT(
      f, ElementsAre(Segment{-6, 15, -1}, Segment{0, 9, 0}, Segment{4, 8, -1}, Segment{10, 2, 0}));
}

TEST(InfimalConvolution, EqualsTryingEveryAmount) {
  for (std::uint64_t seed = 1; seed <= 1500; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    const PiecewiseLinear w = random_function(random);
    const ConvexCost cost = random_cost(random);
    const PiecewiseLinear f = convolve(w, cost), slow = convolve_by_copies(w, cost);
    for (Bytes s = -80; s <= 140; ++s) {
      double least = kInfinity;
      for (Bytes d = 0; d <= cost.capacity(); ++d) {
        least = std::min(least, cost.price(d) + value_at(w, s + d));
      }
      ASSERT_TRUE(is_near(value_at(f, s), least)) << s;
      ASSERT_TRUE(is_near(value_at(slow, s), least)) << s;
    }
  }
}

TEST(InfimalConvolution, TakesTheBestOfPointsThatAreOpen) {
  for (std::uint64_t seed = 1; seed <= 500; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    const PiecewiseLinear w = random_function(random);
    std::vector<CostPoint> points;
    for (auto k = random.whole(1, 5); k > 0; --k) {
      points.push_back({random.whole(0, 30), .125 * static_cast<double>(random.whole(0, 90))});
      if (random.whole(0, 1) == 0) points.back().needs = random.whole(-20, 40);
    }
    const PiecewiseLinear f = convolve(w, points);
    for (Bytes s = -60; s <= 140; ++s) {
      double least = kInfinity;
      for (const CostPoint& point : points) {
        if (s < point.needs) continue;
        least = std::min(least, point.price + value_at(w, s + point.bytes));
      }
      ASSERT_TRUE(is_near(value_at(f, s), least)) << s;
    }
  }
}

// Chains of convolutions and clips, as a search makes them, with breakpoints of tens of gigabytes.
TEST(InfimalConvolution, AgreesWithTheSlowMethodOnLongChains) {
  Random random(7);
  PiecewiseLinear fast{{0, 0, 0}}, slow = fast, merged;
  for (int step = 0; step < 100; ++step) {
    ConvexCost cost;
    cost.fixed = random.whole(0, 2) == 0 ? .37 * static_cast<double>(random.whole(0, 9)) : 0;
    double slope = 1e-9 * static_cast<double>(random.whole(1, 97));
    for (int k = 0; k < 3; ++k) {
      cost.pieces.push_back({random.whole(1, 400'000'000), slope});
      slope *= 1.7;
    }
    const Bytes need = 3'000'000'000 - Bytes{20'000'000} * step + random.whole(0, 50'000'000);
    for (PiecewiseLinear* f : {&fast, &slow}) {
      const PiecewiseLinear bought = f == &fast ? convolve(*f, cost) : convolve_by_copies(*f, cost);
      clip_below(*f, need);
      lower_envelope(*f, bought, merged);
      *f = merged;
      clip_below(*f, need - 300'000'000);
    }
  }
  EXPECT_GT(fast.size(), 8u);
  for (Bytes s = fast.front().x; s < fast.back().x + 1000; s += 100'003) {
    ASSERT_NEAR(value_at(fast, s), value_at(slow, s), 1e-8) << s;
  }
}

TEST(ConvexCost, IsTheLargestOfItsLinesAtWholeBytes) {
  for (std::uint64_t seed = 1; seed <= 500; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    std::vector<Line> lines;
    for (auto k = random.whole(1, 4); k > 0; --k) {
      lines.push_back({.125 * static_cast<double>(random.whole(-3, 20)),
                       .125 * static_cast<double>(random.whole(-300, 40))});
    }
    const Bytes capacity = random.whole(1, 60);
    const ConvexCost cost = convex_cost(lines, capacity);
    EXPECT_EQ(cost.capacity(), capacity);
    double steepest = 0;
    for (const Line& line : lines) steepest = std::max(steepest, line.slope);
    for (std::size_t k = 1; k < cost.pieces.size(); ++k) {
      EXPECT_GT(cost.pieces[k].slope, cost.pieces[k - 1].slope);
    }
    for (Bytes d = 0; d <= capacity; ++d) {
      double least = kInfinity;  // of this many bytes or more
      for (Bytes e = d; e <= capacity; ++e) {
        double price = 0;
        for (const Line& line : lines) {
          price = std::max(price, line.slope * static_cast<double>(e) + line.intercept);
        }
        least = std::min(least, price);
      }
      // A corner between two bytes moves down to the lower one.
      ASSERT_GE(cost.price(d), least - 1e-9) << d;
      ASSERT_LE(cost.price(d), least + 4 * (steepest + .5) + 1e-9) << d;
    }
    // Corners at whole bytes stay.
    const ConvexCost exact = convex_cost({{1, 0}, {3, -20}}, 25);
    EXPECT_THAT(exact.pieces, ElementsAre(CostPiece{10, 1}, CostPiece{15, 3}));
  }
}

TEST(ConvexCost, BuysWhatIsFreeAndWhatLowersThePrice) {
  const ConvexCost falling = convex_cost({{-1, 10}, {2, -5}}, 20);
  EXPECT_EQ(falling.fixed, 5);  // at 5 bytes, where the lines cross
  EXPECT_THAT(falling.pieces, ElementsAre(CostPiece{5, 0}, CostPiece{15, 2}));
  const ConvexCost clamped = convex_cost({{1, -4}}, 10);
  EXPECT_EQ(clamped.fixed, 0);
  EXPECT_THAT(clamped.pieces, ElementsAre(CostPiece{4, 0}, CostPiece{6, 1}));
  EXPECT_EQ(convex_cost({}, 3).pieces, (std::vector<CostPiece>{{3, 0}}));
}

}  // namespace
}  // namespace plimsoll::math
