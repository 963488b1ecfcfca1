#include <gtest/gtest.h>

#include "plimsoll/solve/bound_placement.h"
#include "plimsoll/solve/verify_bound.h"
#include "solve/random_placements.h"

namespace plimsoll::solve {
namespace {

using testing::Enumerator;
using testing::InstanceKind;
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

// Each rule off: what is proved holds, and no rule is without use: without it bounds are lower, or
// dearer.
TEST(PlacementBounds, HoldWithoutAnyOneRule) {
  struct Rule {
    const char* name;
    void (*turn_off)(BoundOptions&);
  };
  constexpr Rule kRules[] = {
      {"none", [](BoundOptions&) {}},
      {"dominated choices", [](BoundOptions& options) { options.groups.drop_dominated = false; }},
      {"groups", [](BoundOptions& options) { options.groups.merge_units = false; }},
      {"cascade", [](BoundOptions& options) { options.filter.cascade = false; }},
      {"windows", [](BoundOptions& options) { options.use_windows = false; }},
      {"patterns", [](BoundOptions& options) { options.use_patterns = false; }},
      {"fine cells", [](BoundOptions& options) { options.use_fine = false; }},
      {"branching", [](BoundOptions& options) { options.use_branching = false; }},
  };
  constexpr int kNumRules = std::size(kRules);
  double gap[kNumRules] = {};
  std::int64_t work[kNumRules] = {};
  for (std::uint64_t seed = 700; seed < 800; ++seed) {
    SCOPED_TRACE(seed);
    InstanceKind kind = kind_of_seed(seed);
    kind.tight_memory = seed % 2 == 0;
    kind.repeated = true;
    const PlacementProblem problem = random_problem(seed, kind);
    const double optimum = Enumerator(problem).find();
    for (int rule = 0; rule < kNumRules; ++rule) {
      BoundOptions options;
      options.coarse_cells = 200;
      options.cells = 1000;
      options.window_tolerance = 1e-3;
      kRules[rule].turn_off(options);
      const PlacementBound bound = bound_placement(problem, options, {});
      EXPECT_LE(bound.value, optimum * (1 + 1e-9)) << kRules[rule].name;
      const BoundVerdict verdict = verify_bound(problem, bound);
      EXPECT_TRUE(verdict.holds) << kRules[rule].name << " " << verdict.fault;
      if (optimum < kInfinity) gap[rule] += optimum / bound.value - 1;
      const PlacementGroups groups = make_placement_groups(problem, options.groups);
      work[rule] += (bound.num_evaluations + bound.num_pricings + bound.num_windows) *
                    static_cast<std::int64_t>(groups.choices.size());
    }
  }
  for (int rule = 1; rule < kNumRules; ++rule) {
    EXPECT_TRUE(gap[rule] > gap[0] || work[rule] > work[0])
        << kRules[rule].name << " gap " << gap[rule] << " of " << gap[0] << " work " << work[rule]
        << " of " << work[0];
  }
}

}  // namespace
}  // namespace plimsoll::solve
