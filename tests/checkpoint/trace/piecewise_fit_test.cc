#include "checkpoint/trace/piecewise_fit.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "checkpoint/random.h"

namespace plimsoll::checkpoint {
namespace {

using ::testing::DoubleNear;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

PiecewiseFit fit(const std::vector<CurvePoint>& points, int num_segments) {
  const auto result = fit_piecewise(points, num_segments);
  EXPECT_TRUE(result) << format_error(result.error());
  return result.value_or(PiecewiseFit{});
}

//   y
//   4            *        slope 0 up to x = 2.5, slope 2 from there on; the break lies between two
//   2         *           points
//   0  *  *  |
//      1  2  3  4  x
TEST(PiecewiseFit, FindsABreakBetweenPoints) {
  const PiecewiseFit found = fit({{1, 0}, {2, 0}, {3, 1}, {4, 3}, {5, 5}}, 2);
  EXPECT_THAT(found.slopes, ElementsAre(DoubleNear(0, 1e-12), DoubleNear(2, 1e-12)));
  EXPECT_THAT(found.intercepts, ElementsAre(DoubleNear(0, 1e-12), DoubleNear(-5, 1e-12)));
  EXPECT_THAT(found.breaks, ElementsAre(1, DoubleNear(2.5, 1e-12), 5));
  EXPECT_LT(found.sum_of_squares, 1e-20);
}

TEST(PiecewiseFit, FindsABreakAtAPoint) {
  const PiecewiseFit found = fit({{0, 0}, {1, 1}, {2, 2}, {3, 1}, {4, 0}}, 2);
  EXPECT_THAT(found.slopes, ElementsAre(DoubleNear(1, 1e-12), DoubleNear(-1, 1e-12)));
  EXPECT_THAT(found.breaks, ElementsAre(0, DoubleNear(2, 1e-12), 4));
}

TEST(PiecewiseFit, DrawsTheLineOfLeastSquares) {
  const PiecewiseFit found = fit({{0, 0}, {1, 3}, {2, 0}}, 1);
  EXPECT_THAT(found.slopes, ElementsAre(DoubleNear(0, 1e-12)));
  EXPECT_THAT(found.intercepts, ElementsAre(DoubleNear(1, 1e-12)));
  EXPECT_THAT(found.breaks, ElementsAre(0, 2));
  EXPECT_NEAR(found.sum_of_squares, 6, 1e-12);
}

TEST(PiecewiseFit, FindsThreeSegments) {
  std::vector<CurvePoint> points;
  for (int i = 0; i <= 10; ++i) {
    const double x = i;
    points.emplace_back(x, std::max({1 - x, 0.0, 2 * (x - 6.25)}));
  }
  const PiecewiseFit found = fit(points, 3);
  EXPECT_THAT(found.slopes,
              ElementsAre(DoubleNear(-1, 1e-9), DoubleNear(0, 1e-9), DoubleNear(2, 1e-9)));
  EXPECT_THAT(found.breaks, ElementsAre(0, DoubleNear(1, 1e-9), DoubleNear(6.25, 1e-9), 10));
}

// The curve of a transformer block on an A100, and its fit: the break is the ratio that upstream's
// unit test names (docs/mathematics/torch-checkpointing.md#an-example).
TEST(PiecewiseFit, ReproducesUpstreamsPublishedFit) {
  const std::vector<CurvePoint> curve = {{0.01, 0.0},
                                         {0.06136061866199752, 0.005068532693293007},
                                         {0.11272123732399503, 0.010137065386586014},
                                         {0.31763009515471763, 0.030382363744290933},
                                         {0.36885730961239827, 0.03797435062843028},
                                         {0.5489550698808742, 0.22082518225667955},
                                         {0.6001822843385549, 0.2851237514949446},
                                         {0.6514094987962356, 0.3494223207332097},
                                         {0.7026367132539162, 0.41372088997147477},
                                         {0.7538639277115968, 0.4780194592097399},
                                         {0.9587727855423194, 0.7352137361628003},
                                         {1.01, 1.0}};
  const auto found = fit_tradeoff_curve(curve);
  ASSERT_TRUE(found);
  // Upstream's search stops a little short of the optimum.
  EXPECT_THAT(found->slopes, ElementsAre(DoubleNear(0.4376648, 5e-6), DoubleNear(1.8385153, 5e-6)));
  EXPECT_THAT(found->intercepts,
              ElementsAre(DoubleNear(-0.0153258, 5e-6), DoubleNear(-0.7482252, 5e-6)));
  EXPECT_THAT(found->breaks, ElementsAre(0.01, DoubleNear(0.5231817, 5e-6), 0.9587727855423194));
  EXPECT_NEAR(found->sum_of_squares, 0.02909284990486258, 1e-11);
  EXPECT_LE(found->sum_of_squares, 0.02909284990486258);
}

// Least squares for a given break, from the normal equations.
double sum_of_squares_at(const std::vector<CurvePoint>& points, double at) {
  double a[3][4] = {};
  for (const auto& [x, y] : points) {
    const double row[3] = {1, x, std::max(x - at, 0.0)};
    for (int i = 0; i < 3; ++i) {
      for (int j = 0; j < 3; ++j) a[i][j] += row[i] * row[j];
      a[i][3] += row[i] * y;
    }
  }
  for (int k = 0; k < 3; ++k) {
    int pivot = k;
    for (int i = k; i < 3; ++i) {
      if (std::abs(a[i][k]) > std::abs(a[pivot][k])) pivot = i;
    }
    std::swap(a[k], a[pivot]);
    if (std::abs(a[k][k]) < 1e-9) return std::numeric_limits<double>::infinity();
    for (int i = 0; i < 3; ++i) {
      if (i == k) continue;
      const double factor = a[i][k] / a[k][k];
      for (int j = k; j < 4; ++j) a[i][j] -= factor * a[k][j];
    }
  }
  double sum = 0;
  for (const auto& [x, y] : points) {
    const double value =
        a[0][3] / a[0][0] + a[1][3] / a[1][1] * x + a[2][3] / a[2][2] * std::max(x - at, 0.0);
    sum += (y - value) * (y - value);
  }
  return sum;
}

TEST(PiecewiseFit, IsNeverBeatenByAGridOfBreaks) {
  for (int seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    std::vector<CurvePoint> points;
    double x = 0, y = 0;
    const int n = 4 + random.below(9);
    for (int i = 0; i < n; ++i) {
      points.emplace_back(x, y);
      x += 0.01 + random.below(100) / 100.0;
      y += (seed % 2 == 0 ? 1 : random.below(3) - 1) * random.below(100) / 100.0;
    }
    const PiecewiseFit found = fit(points, 2);
    double sum = 0;
    for (const auto& [px, py] : points) {
      const int s = px > found.breaks[1] ? 1 : 0;
      sum += std::pow(py - found.slopes[s] * px - found.intercepts[s], 2);
    }
    EXPECT_NEAR(found.sum_of_squares, sum, 1e-12);
    // The pieces meet.
    EXPECT_NEAR(found.slopes[0] * found.breaks[1] + found.intercepts[0],
                found.slopes[1] * found.breaks[1] + found.intercepts[1], 1e-9);
    double best = 1e300;
    for (int k = 1; k < 4000; ++k) {
      best = std::min(best, sum_of_squares_at(points, points.back().first * k / 4000.0));
    }
    EXPECT_LE(found.sum_of_squares, best + 1e-9);
    EXPECT_GE(found.sum_of_squares, best - 0.02 * best - 1e-3);
    EXPECT_LE(found.sum_of_squares, fit(points, 1).sum_of_squares + 1e-12);
    EXPECT_LE(fit(points, 3).sum_of_squares, found.sum_of_squares + 1e-12);
    EXPECT_EQ(fit(points, 2), found);
  }
}

TEST(PiecewiseFit, SaysWhereItFails) {
  const auto message = [](const std::vector<CurvePoint>& points, int num_segments) {
    const auto result = fit_piecewise(points, num_segments);
    return result ? std::string("fitted") : format_error(result.error());
  };
  EXPECT_THAT(message({}, 1), HasSubstr("the fit failed: 0 points"));
  EXPECT_THAT(message({{0, 1}}, 1), HasSubstr("the fit failed: 1 points"));
  EXPECT_THAT(message({{0, 1}, {0, 2}}, 1), HasSubstr("does not increase at point 1"));
  EXPECT_THAT(message({{0, 1}, {1, std::nan("")}}, 1), HasSubstr("point 1 is not finite"));
  EXPECT_THAT(message({{0, 1}, {1, 2}}, 2), HasSubstr("do not determine 2 segments"));
  EXPECT_THAT(message({{0, 1}, {1, 2}}, 0), HasSubstr("n_segments is 0"));
  std::vector<CurvePoint> many;
  for (int i = 0; i < 300; ++i) many.emplace_back(i, i % 7);
  EXPECT_THAT(message(many, 4), HasSubstr("too many"));
  EXPECT_EQ(message({{0, 1}, {1, 2}}, 1), "fitted");
}

// x moves on by one point, and each segment has more than its own points.
TEST(PiecewiseFit, ShiftsTheCurveAndLimitsTheSegments) {
  const auto two = fit_tradeoff_curve(std::vector<CurvePoint>{{0, 0}, {1, 2}, {3, 8}});
  ASSERT_TRUE(two);
  EXPECT_THAT(two->slopes, ElementsAre(DoubleNear(6, 1e-12)));  // (0, 2), (1, 8)
  EXPECT_THAT(two->breaks, ElementsAre(0, 1));
  const auto three = fit_tradeoff_curve(std::vector<CurvePoint>{{0, 0}, {1, 2}, {3, 8}, {4, 9}});
  EXPECT_EQ(three->slopes.size(), 1u);
  const auto four =
      fit_tradeoff_curve(std::vector<CurvePoint>{{0, 0}, {1, 2}, {3, 8}, {4, 9}, {5, 9}});
  EXPECT_EQ(four->slopes.size(), 2u);
  EXPECT_EQ(fit_tradeoff_curve(std::vector<CurvePoint>{{0, 0}, {1, 2}, {3, 8}, {4, 9}, {5, 9}}, -3)
                ->slopes.size(),
            1u);
  EXPECT_FALSE(fit_tradeoff_curve(std::vector<CurvePoint>{{0, 0}, {1, 2}}));
  EXPECT_FALSE(fit_tradeoff_curve(std::vector<CurvePoint>{}));
}

}  // namespace
}  // namespace plimsoll::checkpoint
