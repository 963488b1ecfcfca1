#include "plimsoll/math/piecewise_linear.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "math/random_functions.h"

namespace plimsoll::math {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

PiecewiseLinear envelope(const PiecewiseLinear& a, const PiecewiseLinear& b) {
  PiecewiseLinear out;
  lower_envelope(a, b, out);
  return out;
}

TEST(PiecewiseLinear, IsInfiniteBeforeItsFirstPiece) {
  const PiecewiseLinear f{{2, 8, -1}, {5, 1, 0}};
  EXPECT_EQ(value_at(f, 1), kInfinity);
  EXPECT_EQ(value_at(f, 2), 8);
  EXPECT_EQ(value_at(f, 4), 6);
  EXPECT_EQ(value_at(f, 5), 1);
  EXPECT_EQ(value_at(f, 1000), 1);
  EXPECT_EQ(value_at({}, 0), kInfinity);
  EXPECT_EQ(find_segment(f, 1), nullptr);
  EXPECT_EQ(find_segment(f, 4), &f[0]);
}

TEST(PiecewiseLinear, ClipsWithinAPieceAndAtItsStart) {
  const PiecewiseLinear f{{2, 8, -1}, {5, 1, 0}};
  PiecewiseLinear g = f;
  clip_below(g, 2);
  EXPECT_EQ(g, f);
  clip_below(g, 4);
  EXPECT_THAT(g, ElementsAre(Segment{4, 6, -1}, Segment{5, 1, 0}));
  clip_below(g, 5);
  EXPECT_THAT(g, ElementsAre(Segment{5, 1, 0}));
  clip_below(g, 9);
  EXPECT_THAT(g, ElementsAre(Segment{9, 1, 0}));
}

//  8 ┤ a
//    │  \  b────────        a falls 1 a byte from 8 at 0, b is 5.5: they cross at 2.5, so the
//    │    \                 first whole byte of a is 3.
TEST(PiecewiseLinear, MovesACrossingUpToAWholeByte) {
  const PiecewiseLinear a{{0, 8, -1}, {8, 0, 0}}, b{{0, 5.5, 0}};
  EXPECT_THAT(envelope(a, b), ElementsAre(Segment{0, 5.5, 0}, Segment{3, 5, -1}, Segment{8, 0, 0}));
  EXPECT_EQ(envelope(b, a), envelope(a, b));
  // Equal at a whole byte: nothing to gain there, all from the next byte on.
  const PiecewiseLinear at_three{{0, 5, 0}};
  EXPECT_EQ(value_at(envelope(a, at_three), 3), 5);
  EXPECT_EQ(value_at(envelope(a, at_three), 4), 4);
}

// The better line is lower by rounding alone at 0 and clearly lower after: it must not be lost.
TEST(PiecewiseLinear, KeepsTheSteeperLineWhereTwoMeetAtABreakpoint) {
  const PiecewiseLinear flat{{0, 5, 0}}, steep{{0, 5 + 1e-14, -1}, {5, 0, 0}};
  for (const auto& f : {envelope(flat, steep), envelope(steep, flat)}) {
    EXPECT_NEAR(value_at(f, 1), 4, 1e-12);
    EXPECT_LE(f.size(), 2u);
  }
}

TEST(PiecewiseLinear, LeavesNoSliversWhereTwoLinesAgreeButForRounding) {
  PiecewiseLinear a, b;
  for (int k = 0; k < 100; ++k) {
    const double noise = (k % 2 == 0 ? 1 : -1) * 1e-13;
    a.push_back({10 * k, 1000. - 10 * k, -1});
    b.push_back({10 * k + 5, 1000. - 10 * k - 5 + noise, -1});
  }
  a.push_back({1000, 0, 0});
  b.push_back({1000, 0, 0});
  b.insert(b.begin(), {0, 1000, -1});
  EXPECT_LE(envelope(a, b).size(), 3u);
}

// b winds around a, a tenth of the tolerance above and below it by turns.
TEST(PiecewiseLinear, StaysWithTheLineItUsedLastWhereBothAgree) {
  const PiecewiseLinear a{{0, 1000, -1}, {1000, 0, 0}};
  PiecewiseLinear b;
  for (int k = 0; k <= 100; ++k) {
    const double height = (k % 2 == 0 ? 1e-9 : -1e-9) * (100 - k) / 100;
    b.push_back({10 * k, 1000. - 10 * k + height, 0});
    if (k > 0) b[k - 1].slope = (b[k].y - b[k - 1].y) / 10;
  }
  EXPECT_EQ(envelope(a, b).size(), 2u);
  EXPECT_LE(envelope(b, a).size(), 102u);
}

TEST(PiecewiseLinear, TakesTheMinimumAtEveryInteger) {
  for (std::uint64_t seed = 1; seed <= 2000; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    const PiecewiseLinear a = random_function(random), b = random_function(random);
    const PiecewiseLinear f = envelope(a, b), total = sum(a, b);
    EXPECT_LE(f.size(), 2 * (a.size() + b.size()));
    for (Bytes s = -25; s <= 150; ++s) {
      const double least = std::min(value_at(a, s), value_at(b, s));
      const double both = value_at(a, s) + value_at(b, s);
      ASSERT_TRUE(value_at(f, s) == least || std::abs(value_at(f, s) - least) < 1e-9) << s;
      ASSERT_TRUE(value_at(total, s) == both || std::abs(value_at(total, s) - both) < 1e-9) << s;
    }
    for (std::size_t k = 1; k < f.size(); ++k) ASSERT_LT(f[k - 1].x, f[k].x);
  }
}

TEST(PiecewiseLinear, TakesNothingForAnOperand) {
  const PiecewiseLinear f{{2, 8, -1}, {5, 1, 0}};
  EXPECT_EQ(envelope(f, {}), f);
  EXPECT_EQ(envelope({}, f), f);
  EXPECT_THAT(envelope({}, {}), IsEmpty());
  EXPECT_THAT(sum(f, {}), IsEmpty());
  EXPECT_THAT(shifted(f, 2, 1), ElementsAre(Segment{0, 9, -1}, Segment{3, 2, 0}));
}

}  // namespace
}  // namespace plimsoll::math
