#include "math/fewer_pieces.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "math/convex_function.h"
#include "math/random_functions.h"

namespace plimsoll::math {
namespace {

TEST(FewerPieces, LieOnEitherSideOfTheFunction) {
  int num_fewer = 0;
  for (std::uint64_t seed = 1; seed <= 500; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    const PiecewiseLinear f = random_function(random, 40);
    const auto count = static_cast<std::size_t>(random.whole(2, 12));
    PiecewiseLinear above = f, below = f;
    raise_to_fewer(above, count);
    lower_to_fewer(below, count);
    ASSERT_EQ(above.front().x, f.front().x);
    ASSERT_EQ(below.front().x, f.front().x);
    double last_above = kInfinity, last_below = kInfinity;
    for (Bytes s = f.front().x; s <= f.back().x + 3; ++s) {
      ASSERT_GE(value_at(above, s), value_at(f, s) - 1e-9) << s;
      ASSERT_LE(value_at(below, s), value_at(f, s) + 1e-9) << s;
      EXPECT_LE(value_at(above, s), last_above + 1e-9) << s;
      EXPECT_LE(value_at(below, s), last_below + 1e-9) << s;
      last_above = value_at(above, s);
      last_below = value_at(below, s);
    }
    // The vertices of the hull are exact, the ends among them.
    for (const Segment& vertex : lower_convex_hull(f)) {
      EXPECT_NEAR(value_at(above, vertex.x), vertex.y, 1e-9);
    }
    if (f.size() > count) num_fewer += above.size() < f.size() && below.size() < f.size() ? 1 : 0;
    if (f.size() <= count) {
      EXPECT_EQ(above, f);
    }
  }
  EXPECT_GT(num_fewer, 200);
}

// A step of a thousandth of the width, and one of a thousandth of the height, are seen.
TEST(FewerPieces, KeepStepsOfAThousandthOfWidthAndHeight) {
  PiecewiseLinear f;
  for (int k = 0; k < 50'000; ++k) f.push_back({Bytes{1000} * k, 50'000.0 - k + (k % 7), 0});
  for (std::size_t k = 1; k < f.size(); ++k) f[k].y = std::min(f[k].y, f[k - 1].y);
  PiecewiseLinear above = f, below = f;
  raise_to_fewer(above, 2000);
  lower_to_fewer(below, 2000);
  EXPECT_LT(above.size(), 4000u);
  EXPECT_LE(below.size(), 2001u);
  for (const Segment& piece : f) {
    EXPECT_LE(value_at(above, piece.x) - piece.y, 2 * 50'000 / 500.0);
    EXPECT_LE(piece.y - value_at(below, piece.x), 2 * 50'000 / 1000.0);
  }
}

TEST(UpperEnvelope, IsTheMaximumWhereBothAreFinite) {
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    const PiecewiseLinear a = random_function(random), b = random_function(random);
    const PiecewiseLinear both = upper_envelope(a, b);
    for (Bytes s = -25; s <= 150; ++s) {
      const double x = value_at(a, s), y = value_at(b, s);
      if (std::isinf(x) && std::isinf(y)) continue;
      const double expected = std::isinf(x) ? y : std::isinf(y) ? x : std::max(x, y);
      EXPECT_NEAR(value_at(both, s), expected, 1e-8) << s;
    }
  }
}

}  // namespace
}  // namespace plimsoll::math
