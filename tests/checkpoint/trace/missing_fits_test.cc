#include "checkpoint/trace/missing_fits.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "checkpoint/models.h"
#include "checkpoint/trace/piecewise_fit.h"
#include "checkpoint/trace/sac_greedy_order.h"

namespace plimsoll::checkpoint {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// Five products, each dearer for its bytes than the one before.
SACStats products() {
  SACStats stats;
  stats.func_names.assign(5, "mm");
  stats.memory = {512, 256, 128, 96, 32};
  stats.runtimes = {1, 1, 1, 2, 3};
  return stats;
}

void remove_fit(ModuleInfo& module) {
  module.n_segments = 0;
  module.slopes = module.intercepts = module.breakpoints = {};
}

// R.a and R.b without their fits.
ModuleStats unfitted() {
  ModuleStats stats = tiny6();
  remove_fit(stats.mod_stats[1]);
  remove_fit(stats.mod_stats[3]);
  return stats;
}

TEST(MissingFits, ChangesNothingWhereNothingIsMissing) {
  ModuleStats stats = tiny6();
  fit_missing_curves(stats);
  EXPECT_EQ(stats, tiny6());
}

TEST(MissingFits, FitsTheCurveOfTheTable) {
  ModuleStats stats = unfitted();
  stats.sac_stats = {products()};
  stats.sac_stats_of = {{"R.a", 0}, {"R.b", 0}, {"R.a.x", 0}};
  stats.mod_stats[3].sac_memory = 0;
  stats.mod_stats[3].sac_runtime = 0;
  fit_missing_curves(stats);
  const auto curve = make_tradeoff_curve(products(), make_greedy_order(products()));
  const auto fit = fit_tradeoff_curve(curve->points);
  ASSERT_TRUE(fit);
  for (const int node : {1, 3}) {
    const ModuleInfo& module = stats.mod_stats[node];
    EXPECT_EQ(module.n_segments, 2);
    EXPECT_EQ(module.slopes, fit->slopes);
    EXPECT_EQ(module.intercepts, fit->intercepts);
    EXPECT_EQ(module.breakpoints, fit->breaks);
  }
  EXPECT_EQ(stats.mod_stats[1].sac_memory, tiny6().mod_stats[1].sac_memory);
  EXPECT_EQ(stats.mod_stats[3].sac_memory, 1024);
  EXPECT_EQ(stats.mod_stats[3].sac_runtime, 8);
  EXPECT_THAT(stats.mod_stats[2].slopes, IsEmpty());  // a leaf
  EXPECT_TRUE(validate(stats));
}

TEST(MissingFits, FitsTheRecordedCurveWhereThereIsNoTable) {
  ModuleStats stats = unfitted();
  stats.mod_stats[1].tradeoff_curve = {{0.01, 0}, {0.5, 0.25}, {1, 0.5}};
  fit_missing_curves(stats);
  // Shifted: (0.01, 0.25), (0.5, 0.5).
  ASSERT_THAT(stats.mod_stats[1].slopes, ElementsAre(::testing::DoubleNear(0.25 / 0.49, 1e-12)));
  EXPECT_TRUE(stats.mod_stats[3].slopes.empty());
  EXPECT_FALSE(stats.mod_stats[3].is_leaf);
}

TEST(MissingFits, MakesAModuleWithoutAUsableCurveALeaf) {
  ModuleStats stats = unfitted();
  SACStats still = products();
  still.runtimes.assign(5, 0);
  stats.sac_stats = {still};
  stats.sac_stats_of = {{"R.a", 0}};
  fit_missing_curves(stats);
  EXPECT_TRUE(stats.mod_stats[1].is_leaf);
  EXPECT_THAT(stats.fit_failed, ElementsAre("R.a"));
  fit_missing_curves(stats);
  EXPECT_THAT(stats.fit_failed, ElementsAre("R.a"));
}

}  // namespace
}  // namespace plimsoll::checkpoint
