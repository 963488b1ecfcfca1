#include <gtest/gtest.h>

#include "plimsoll/solve/bound_placement.h"
#include "plimsoll/solve/verify_bound.h"
#include "solve/random_placements.h"

namespace plimsoll::solve {
namespace {

using testing::Enumerator;
using testing::kind_of_seed;
using testing::random_problem;

TEST(PlacementBounds, NeverExceedTheOptimum) {
  double sum[5] = {};
  int count = 0, infeasible = 0, proved = 0;
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(seed);
    PlacementProblem problem = random_problem(seed, kind_of_seed(seed));
    ASSERT_TRUE(validate(problem).has_value());
    const double optimum = Enumerator(problem).find();
    double values[5];
    for (int level = 0; level < 4; ++level) {
      BoundOptions options;
      options.coarse_cells = 300;
      options.cells = 1000;
      options.window_tolerance = 1e-3;
      options.use_windows = level == 1 || level == 3;
      options.use_patterns = level >= 2;
      options.use_branching = level == 3;
      const PlacementBound bound = bound_placement(problem, options, {});
      values[level] = bound.value;
      EXPECT_LE(bound.value, optimum * (1 + 1e-9)) << level;
      const BoundVerdict verdict = verify_bound(problem, bound);
      EXPECT_TRUE(verdict.holds) << level << " " << verdict.fault << " " << verdict.value << " of "
                                 << bound.value << " " << to_string(bound.method);
      EXPECT_LE(verdict.value, optimum * (1 + 1e-9)) << level;
      infeasible += level == 0 && optimum == kInfinity;
      proved += level == 0 && bound.value == kInfinity;
    }
    if (optimum < kInfinity) {
      for (int level = 0; level < 4; ++level) sum[level] += optimum / values[level] - 1;
      ++count;
    }
  }
  // What each further bound is worth: the mean distance falls.
  ASSERT_GT(count, 100);
  EXPECT_LT(sum[1], sum[0]);
  EXPECT_LT(sum[2], sum[0]);
  EXPECT_LE(sum[3], sum[2]);
  EXPECT_LT(sum[3] / count, 0.05);
  EXPECT_GT(proved, 0);
  EXPECT_LE(proved, infeasible);
}

// A choice or a byte more can only help.
TEST(PlacementBounds, NeverRiseWithMoreChoicesOrBytes) {
  int num_lower = 0;
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(seed);
    PlacementProblem problem = random_problem(seed, kind_of_seed(seed));
    const double before = bound_placement(problem, {}, {}).value;
    PlacementProblem roomy = problem;
    for (TierBytes& caps : roomy.caps) {
      for (Bytes& cap : caps) cap += cap / 4;
    }
    const double with_bytes = bound_placement(roomy, {}, {}).value;
    UnitChoice lighter = problem.units[0].choices[0];
    for (PieceRun& run : lighter.runs) {
      for (double& load : run.load) load *= 0.7;
    }
    problem.units[0].choices.push_back(lighter);
    const double with_choice = bound_placement(problem, {}, {}).value;
    // Windows and cells leave a little room.
    EXPECT_LE(with_bytes, before * (1 + 1e-3));
    EXPECT_LE(with_choice, before * (1 + 1e-3));
    num_lower += with_choice < before;
  }
  EXPECT_GT(num_lower, 10);
}

}  // namespace
}  // namespace plimsoll::solve
