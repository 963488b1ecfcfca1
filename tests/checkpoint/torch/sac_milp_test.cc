#include "plimsoll/checkpoint/sac_milp.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "checkpoint/model/baseline.h"
#include "checkpoint/models.h"

namespace plimsoll::checkpoint::sac_milp {
namespace {

using ::testing::Contains;
using ::testing::DoubleNear;
using ::testing::ElementsAre;
using ::testing::Field;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::Pair;

SACMilpOptions options_for(double budget, int world_size = 1) {
  SACMilpOptions options;
  options.memory_budget = budget;
  options.world_size = world_size;
  options.relative_gap = 0;
  return options;
}

SACMilpResult plan(const ModuleStats& stats, const SACMilpOptions& options) {
  const auto result = plan_like_sac_milp(stats, options);
  EXPECT_TRUE(result) << format_error(result.error());
  return result.value_or(SACMilpResult{});
}

void expect_failure_triple(const SACMilpResult& result) {
  EXPECT_THAT(result.decisions, IsEmpty());
  EXPECT_EQ(result.recompute_ms, 0);
  EXPECT_EQ(result.peak_bytes, -1);
  EXPECT_EQ(result.outcome.status, SolveStatus::kInfeasible);
  EXPECT_FALSE(result.outcome.plan);
}

// At 2.6 GiB the root lacks 2704 - 2662.4 = 41.6 MiB. R.a gives them at the ratio (41.6 + 256) /
// 1024 = 0.290625, for 4 * 0.4 * 0.290625 = 0.465 ms.
TEST(SACMilp, SolvesTheTinyModelByHand) {
  const SACMilpResult result = plan(tiny6(), options_for(2.6));
  EXPECT_THAT(result.decisions, ElementsAre(Pair("R.a", 0.2906)));
  EXPECT_NEAR(result.recompute_ms, 0.465, 0.0051);
  EXPECT_NEAR(static_cast<double>(result.peak_bytes), 2.6 * 0x1p30, 2);
  ASSERT_TRUE(result.outcome.plan);
  ASSERT_EQ(result.outcome.plan->units.size(), 1u);
  const CheckpointUnit& unit = result.outcome.plan->units[0];
  EXPECT_THAT(unit.fqns, ElementsAre("R.a"));
  EXPECT_EQ(unit.kind, UnitKind::kSelective);
  EXPECT_NEAR(unit.recompute_ms, 0.465, 1e-6);
  EXPECT_NEAR(static_cast<double>(unit.discarded), 41.6 * 0x1p20, 200);
}

TEST(SACMilp, FindsTheTinyModelsTable) {
  struct Row {
    double budget, one_rank, four_ranks;  // -1: infeasible
  };
  for (const Row& row :
       {Row{2.7, 0, 0}, Row{2.5, 0.625, 0}, Row{2.25, 1.7, 0.55625}, Row{2.0, 2.93125, 1.425},
        Row{1.75, 4.53125, 2.625}, Row{1.5, -1, 4.225}, Row{1.25, -1, 6.1375}, Row{1.0, -1, -1}}) {
    for (const auto& [world_size, expected] :
         {std::pair{1, row.one_rank}, std::pair{4, row.four_ranks}}) {
      SCOPED_TRACE(std::to_string(row.budget) + " GiB, ranks: " + std::to_string(world_size));
      const SACMilpResult result = plan(tiny6(), options_for(row.budget, world_size));
      if (expected < 0) {
        expect_failure_triple(result);
        continue;
      }
      EXPECT_EQ(result.outcome.status, SolveStatus::kOptimal);
      EXPECT_NEAR(result.outcome.certificate.objective, expected, 1e-6);
      EXPECT_LE(static_cast<double>(result.peak_bytes), row.budget * 0x1p30 + 100);
    }
  }
}

// Upstream's own test: 1.6 GiB takes three blocks to the break of their curve and the fourth
// further, 2.4 GiB take nothing, 0.8 GiB do not suffice.
TEST(SACMilp, ReproducesUpstreamsPublishedPlan) {
  const SACMilpResult result = plan(four_blocks(), options_for(1.6, 4));
  ASSERT_EQ(result.decisions.size(), 4u);
  std::vector<double> ratios;
  for (const auto& [fqn, ratio] : result.decisions) {
    EXPECT_THAT(fqn, ::testing::MatchesRegex("Transformer\\.layers\\.[0-3]"));
    ratios.push_back(ratio);
  }
  std::sort(ratios.begin(), ratios.end());
  EXPECT_THAT(ratios, ElementsAre(DoubleNear(0.5232, 1e-9), DoubleNear(0.5232, 1e-9),
                                  DoubleNear(0.5232, 1e-9), DoubleNear(0.7964, 1e-9)));
  EXPECT_EQ(result.recompute_ms, 6.97);

  const SACMilpResult ample = plan(four_blocks(), options_for(2.4, 4));
  EXPECT_THAT(ample.decisions, IsEmpty());
  EXPECT_EQ(ample.recompute_ms, 0);
  EXPECT_EQ(ample.peak_bytes, 2'477'633'024);  // upstream returns the budget
  expect_failure_triple(plan(four_blocks(), options_for(0.8, 4)));
}

TEST(SACMilp, StaysWithinUpstreamsGap) {
  SACMilpOptions options;
  options.world_size = 4;
  for (const auto& [budget, optimum] : {std::pair{2.2, 0.910328}, std::pair{1.2, 15.231456}}) {
    options.memory_budget = budget;
    const SACMilpResult result = plan(four_blocks(), options);
    EXPECT_EQ(result.outcome.status, SolveStatus::kOptimal);
    EXPECT_GE(result.outcome.certificate.objective, optimum - 1e-5);
    EXPECT_LE(0.95 * result.outcome.certificate.objective, optimum + 1e-5);
    EXPECT_LE(static_cast<double>(result.peak_bytes), budget * 0x1p30 + 100);
    EXPECT_EQ(plan(four_blocks(), options).decisions, result.decisions);
  }
}

ModuleStats slower(double factor) {
  ModuleStats stats = four_blocks();
  for (ModuleInfo& module : stats.mod_stats) module.sac_runtime *= factor;
  return stats;
}

// M = 100 ms forbids blocks that take 154 ms, and knows no plan at all once they take 205.
TEST(SACMilp, KeepsTheReferencesBigM) {
  SACMilpOptions options = options_for(1.2, 4);
  options.relative_gap = 0.01;
  options.variant = find_variant("reference").value();
  EXPECT_NEAR(plan(slower(30), options).recompute_ms, 626.05, 0.01 * 626.05);
  expect_failure_triple(plan(slower(40), options));
  // A module left alone whose curve ends above M / T makes even an ample budget infeasible.
  options.memory_budget = 2.4;
  expect_failure_triple(plan(slower(330), options));
  EXPECT_EQ(plan(slower(30), options).recompute_ms, 0);
}

TEST(SACMilp, SetsBigMFromTheRuntimesInTorch213) {
  SACMilpOptions options = options_for(1.2, 4);
  EXPECT_EQ(options.variant.name, "torch-2.13");
  EXPECT_NEAR(plan(slower(30), options).recompute_ms, 456.94, 0.02);
  EXPECT_NEAR(plan(slower(40), options).recompute_ms, 609.26, 0.02);
  options.memory_budget = 2.4;
  EXPECT_EQ(plan(slower(330), options).recompute_ms, 0);
}

TEST(SACMilp, KeepsToTheUnitsThatAreNamed) {
  SACMilpOptions options = options_for(2.5);
  options.ac_units = {"R.b", "R.bb"};
  const SACMilpResult only_b = plan(tiny6(), options);
  EXPECT_THAT(only_b.decisions, ElementsAre(Pair("R.b", ::testing::_)));
  ASSERT_EQ(only_b.outcome.warnings.size(), 1u);
  EXPECT_EQ(only_b.outcome.warnings[0].code, "unknown_module");
  EXPECT_EQ(only_b.outcome.warnings[0].place, "R.bb");
  EXPECT_THAT(only_b.outcome.warnings[0].message, HasSubstr("did you mean 'R.b'"));

  options.ac_units = {"nowhere"};  // upstream passes over it, so that nothing may be a unit
  expect_failure_triple(plan(tiny6(), options));

  options.ac_units = {};
  options.fsdp_units = {"R.a.x", "R.b"};
  EXPECT_THAT(plan(tiny6(), options).decisions, ElementsAre(Pair("R.b", ::testing::_)));
  // A name that only holds "R.b." keeps R.b from being a unit, too.
  options.fsdp_units = {"R.a.x", "another.R.b.z"};
  expect_failure_triple(plan(tiny6(), options));
}

TEST(SACMilp, TakesTheTrackersActivationsWhereTheOperatorsShowFewer) {
  ModuleStats stats = tiny6();
  stats.mod_stats[1].sac_memory = 1;
  const SACMilpResult result = plan(stats, options_for(2.6));
  EXPECT_THAT(result.outcome.warnings,
              Contains(Field(&Warning::code, ::testing::Eq("sac_memory_overridden"))));
  // Now 41.6 MiB are 41.6 / 768 of R.a's memory.
  EXPECT_THAT(result.decisions, ElementsAre(Pair("R.a", 0.0542)));
  EXPECT_EQ(stats.mod_stats[1].sac_memory, 1);
}

TEST(SACMilp, FailsWhereUpstreamRaises) {
  ModuleStats stats = tiny6();
  stats.mod_stats[1].sac_memory = stats.mod_stats[1].act_fw_per_module = 0;
  const auto empty = plan_like_sac_milp(stats, options_for(2.6));
  ASSERT_FALSE(empty);
  EXPECT_EQ(empty.error().code, ErrorCode::kZeroDivision);
  EXPECT_EQ(empty.error().place, "R.a");

  stats = tiny6();
  stats.mod_order.fw_pre_order.emplace_back("R.a");
  EXPECT_EQ(plan_like_sac_milp(stats, options_for(2.6)).error().code, ErrorCode::kConflict);
  stats = tiny6();
  stats.mod_stats[3].slopes[1] = std::nan("");
  EXPECT_EQ(plan_like_sac_milp(stats, options_for(2.6)).error().code, ErrorCode::kValue);
  EXPECT_FALSE(plan_like_sac_milp(tiny6(), options_for(std::nan(""))));
  EXPECT_FALSE(plan_like_sac_milp(tiny6(), options_for(2.6, 0)));
  SACMilpOptions options = options_for(2.6);
  options.relative_gap = -1;
  EXPECT_FALSE(plan_like_sac_milp(tiny6(), options));
}

// A module's own discards count while it runs backward, those below it do not: R.a with 700 MiB
// less to need before it is planned from R.a.x, were that no leaf.
TEST(SACMilp, CountsDiscardsBelowAModuleButNotItsOwn) {
  ModuleStats stats = tiny6();
  ModuleInfo& inner = stats.mod_stats[2];
  inner.is_leaf = false;
  inner.sac_memory = inner.act_fw_per_module;
  inner.sac_runtime = 100;
  inner.slopes = {1};
  inner.intercepts = {0};
  inner.n_segments = 1;
  stats.mod_stats[1].act_grad_per_module += Bytes{1200} << 20;  // R.a now needs 2924 MiB
  const SACMilpResult result = plan(stats, options_for(2.75));  // 2816 MiB
  EXPECT_THAT(result.decisions, ElementsAre(Pair("R.a.x", DoubleNear(108.0 / 700, 5e-5))));
}

TEST(SACMilp, NeverNestsUnits) {
  ModuleStats stats = tiny6();
  ModuleInfo& inner = stats.mod_stats[2];
  inner.is_leaf = false;
  inner.sac_memory = inner.act_fw_per_module;
  inner.sac_runtime = 1;
  inner.slopes = {1};
  inner.intercepts = {0};
  inner.n_segments = 1;
  const SACMilpResult result = plan(stats, options_for(1.75));
  ASSERT_TRUE(result.outcome.plan);
  EXPECT_THAT(result.decisions,
              ::testing::Not(::testing::AllOf(Contains(Pair("R.a", ::testing::_)),
                                              Contains(Pair("R.a.x", ::testing::_)))));
  EXPECT_THAT(result.decisions, Contains(Pair("R.a.x", ::testing::_)));
}

TEST(Baseline, IsTheLargestNeedAndTheRootsTime) {
  ModuleStats stats = tiny6();
  stats.mod_stats[0].fw_runtime_per_module = 1.5;
  stats.mod_stats[0].bw_runtime_per_module = 3;
  stats.mod_stats[1].fw_runtime_per_module = 100;
  EXPECT_EQ(make_baseline(stats), (Baseline{Bytes{2704} << 20, 4.5}));
  for (ModuleInfo& module : stats.mod_stats) module.act_grad_per_module = -(Bytes{1} << 40);
  EXPECT_EQ(make_baseline(stats).peak_bytes, 0);
}

TEST(Variant, IsFoundByName) {
  EXPECT_EQ(find_variant("torch-2.13").value(), default_variant());
  EXPECT_EQ(find_variant("reference")->big_m_per_sac_runtime, 0);
  EXPECT_THAT(format_error(find_variant("torch-2.12").error()),
              HasSubstr("did you mean 'torch-2.13'"));
}

TEST(SACMilp, WarnsOnceOfAllModulesWhoseOperatorsMakeTooLittle) {
  ModuleStats stats = tiny6();
  for (const int node : {0, 1, 3}) stats.mod_stats[node].sac_memory = 600 << 20;
  const std::vector<Warning> warnings = plan(stats, options_for(2.6)).outcome.warnings;
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_EQ(warnings[0].place, "R");
  EXPECT_THAT(warnings[0].message, HasSubstr("in 2 other module(s)"));
  stats = tiny6();
  stats.mod_stats[3].sac_memory = 600 << 20;
  const std::vector<Warning> one = plan(stats, options_for(2.6)).outcome.warnings;
  ASSERT_EQ(one.size(), 1u);
  EXPECT_EQ(one[0].place, "R.b");
  EXPECT_THAT(one[0].message, Not(HasSubstr("other")));
}

TEST(SACMilp, RefusesUnitsWhoseRecomputationHasNoPrice) {
  ModuleStats stats = tiny6();
  ModuleInfo& module = stats.mod_stats[3];
  module.n_segments = 0;
  module.slopes = module.intercepts = {};
  const auto refused = plan_like_sac_milp(stats, options_for(2.6));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kValue);
  EXPECT_EQ(refused.error().place, "R.b");
  // It need not be a unit,
  SACMilpOptions options = options_for(2.6);
  options.ac_units = {"R.a"};
  EXPECT_EQ(plan(stats, options).decisions.size(), 1u);
  // and one whose fit failed is none.
  stats.fit_failed = {"R.b"};
  EXPECT_THAT(plan(stats, options_for(2)).decisions, Not(Contains(Pair("R.b", ::testing::_))));
}

}  // namespace
}  // namespace plimsoll::checkpoint::sac_milp
