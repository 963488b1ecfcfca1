#include "plimsoll/study/robust.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <random>

#include "embedding/small_models.h"
#include "study/robust/pooling_draws.h"
#include "study/robust/scenario_bound.h"
#include "study/robust/scenario_costs.h"
#include "study/robust/scenes.h"

namespace plimsoll::study {
namespace {

using embedding::BalanceObjective;
using embedding::PlacedProposal;
using embedding::ShardingType;

constexpr Bytes kMiB = Bytes{1} << 20;

TEST(PoolingDraws, InvertTheNormalDistribution) {
  for (double z = -6; z <= 6; z += .125) {
    const double p = std::erfc(-z / std::sqrt(2.0)) / 2;
    EXPECT_NEAR(normal_quantile(p), z, 1e-9 * std::exp(z * z / 4)) << z;
  }
}

TEST(PoolingDraws, HaveTheQuantilesThatAreGiven) {
  PoolingForecast forecast;
  forecast.tables["a"] = {{4, 10}, {12, 20}, {}};
  forecast.others_p95_over_p50 = 2;
  const std::vector<DrawnTable> tables{{"a", {1, 1}}, {"b", {7}}};
  const auto scenarios = draw_factors(forecast, tables, 20000, 3, 0);
  const auto at = [&](std::size_t table, std::size_t feature, double level) {
    std::vector<double> values;
    for (const Factors& factors : scenarios) values.push_back(factors[table][feature]);
    std::sort(values.begin(), values.end());
    return values[static_cast<std::size_t>(level * static_cast<double>(values.size()))];
  };
  EXPECT_NEAR(at(0, 0, .5), 4, .1);
  EXPECT_NEAR(at(0, 0, .95), 12, .4);
  EXPECT_NEAR(at(0, 1, .5), 10, .15);
  EXPECT_NEAR(at(0, 1, .95), 20, .5);
  EXPECT_NEAR(at(1, 0, .5), 7, .1);
  EXPECT_NEAR(at(1, 0, .95), 14, .4);
  EXPECT_NEAR(high_factors(forecast, tables[0])[0], 12, 1e-9);
  EXPECT_NEAR(high_factors(forecast, tables[1])[0], 14, 1e-9);
}

TEST(PoolingDraws, OfSamplesAreIndependentUnlessTheyAreJoint) {
  PoolingForecast forecast;
  for (const char* name : {"a", "b"}) forecast.tables[name].samples = {{0}, {1}, {2}, {3}};
  const std::vector<DrawnTable> tables{{"a", {1}}, {"b", {1}}};
  const auto num_equal = [&] {
    const auto scenarios = draw_factors(forecast, tables, 4000, 5, 0);
    return std::count_if(scenarios.begin(), scenarios.end(),
                         [](const Factors& factors) { return factors[0] == factors[1]; });
  };
  EXPECT_NEAR(static_cast<double>(num_equal()), 1000, 100);
  forecast.joint_samples = true;
  EXPECT_EQ(num_equal(), 4000);
  // Fresh scenarios are others.
  EXPECT_NE(draw_factors(forecast, tables, 50, 5, 0), draw_factors(forecast, tables, 50, 5, 1));
}

TEST(PoolingDraws, WrongForecastsAreRefused) {
  const std::vector<DrawnTable> tables{{"a", {1}}, {"b", {1, 1}}};
  const auto place_of = [&](const PoolingForecast& forecast) {
    const auto valid = validate_forecast(forecast, tables);
    return valid ? std::string("valid") : valid.error().place;
  };
  PoolingForecast forecast;
  EXPECT_EQ(place_of(forecast), "valid");
  forecast.tables["c"] = {{1}, {2}, {}};
  EXPECT_EQ(place_of(forecast), "pooling/c");
  const PoolingDistribution wrong[] = {
      {{1}, {}, {}},        {{1}, {2}, {{1}}}, {{2}, {1}, {}},     {{0}, {1}, {}},
      {{1, 1}, {2, 2}, {}}, {{}, {}, {{-1}}},  {{}, {}, {{1, 1}}}, {}};
  for (const PoolingDistribution& distribution : wrong) {
    forecast.tables = {{"a", distribution}};
    EXPECT_EQ(place_of(forecast), "pooling/a");
  }
  forecast.tables = {{"a", {{}, {}, {{1}, {2}}}}, {"b", {{}, {}, {{1, 1}}}}};
  EXPECT_EQ(place_of(forecast), "valid");
  forecast.joint_samples = true;
  EXPECT_EQ(place_of(forecast), "pooling/b");
  forecast = {};
  forecast.others_p95_over_p50 = .5;
  EXPECT_EQ(place_of(forecast), "pooling");
}

TEST(MeasureRisk, IsWhatItsDefinitionSays) {
  std::mt19937 random(1);
  for (int n = 1; n < 60; ++n) {
    std::vector<double> values;
    for (int i = 0; i < n; ++i) values.push_back(static_cast<double>(random() % 20));
    for (const double level : {.05, .5, .9, .95, .99}) {
      SCOPED_TRACE(testing::Message() << n << " values at " << level);
      // The smallest value that so many scenarios keep.
      double quantile = std::numeric_limits<double>::infinity();
      for (const double value : values) {
        const auto kept = std::count_if(values.begin(), values.end(),
                                        [value](double other) { return other <= value; });
        if (static_cast<double>(kept) >= level * n - 1e-9) quantile = std::min(quantile, value);
      }
      EXPECT_EQ(measure_risk(RiskMeasure::kQuantile, level, values), quantile);
      std::vector<double> sorted = values;
      std::sort(sorted.rbegin(), sorted.rend());
      const int count = std::max(1, static_cast<int>(std::ceil((1 - level) * n - 1e-9)));
      const double mean = std::accumulate(sorted.begin(), sorted.begin() + count, 0.0) / count;
      EXPECT_NEAR(measure_risk(RiskMeasure::kCvar, level, values), mean, 1e-12 * (1 + mean));
    }
  }
}

struct Case {
  embedding::PlanningProblem problem;
  PoolingForecast forecast;
  RobustOptions options;
};

// Five tables on two or three ranks, cut by rows or whole, some of them uncertain; on some
// machines not all fit on one rank.
Case random_case(std::uint32_t seed) {
  std::mt19937 random(seed);
  const auto below = [&random](unsigned n) { return static_cast<int>(random() % n); };
  Case drawn;
  embedding::Module module;
  module.path = "ebc";
  for (int t = 0; t < 5; ++t) {
    const std::string name = "t" + std::to_string(t);
    module.tables.push_back(
        embedding::make_table(name, (1 + below(8)) * 8192, 64, embedding::Pooling::kSum));
    auto& constraints = drawn.problem.model.constraints[name];
    constraints.sharding_types = {ShardingType::kTableWise};
    if (below(3) == 0) constraints.sharding_types.push_back(ShardingType::kRowWise);
    constraints.compute_kernels = {embedding::ComputeKernel::kFused};
    constraints.pooling_factors = {1.0 + below(30)};
    if (below(4) == 0) continue;
    PoolingDistribution& distribution = drawn.forecast.tables[name];
    if (below(3) == 0) {
      for (int i = 0; i < 6; ++i) distribution.samples.push_back({1.0 + below(80)});
    } else {
      distribution.p50 = {2.0 + below(20)};
      distribution.p95 = {distribution.p50[0] * (1 + .5 * below(6))};
    }
  }
  drawn.problem.model.modules = {module};
  const int num_ranks = 2 + below(2);
  embedding::set_room(drawn.problem, num_ranks, num_ranks, (48 + below(60)) * kMiB, 1e6);
  for (auto& device : drawn.problem.topology.devices) device.ddr = 0;
  drawn.problem.batch_size = 64;
  drawn.options.num_scenarios = 20 + below(30);
  drawn.options.num_fresh_scenarios = 20;
  drawn.options.measure = below(2) == 0 ? RiskMeasure::kQuantile : RiskMeasure::kCvar;
  drawn.options.level = .5 + .05 * below(10);
  constexpr BalanceObjective kObjectives[] = {BalanceObjective::kRating, BalanceObjective::kStep,
                                              BalanceObjective::kTime};
  drawn.options.objective = kObjectives[below(3)];
  return drawn;
}

// The least measure of all plans that fit where all factors are largest, one by one.
double best_of_all(const Case& drawn) {
  const auto scenes = make_scenes(drawn.problem, drawn.forecast, drawn.options, 0);
  if (!scenes || !scenes->prepared.reservation) return std::numeric_limits<double>::infinity();
  const ScenarioCosts costs(scenes->largest, scenes->prepared, drawn.options);
  const embedding::OptionSet& set = costs.base();
  const auto& devices = scenes->prepared.reservation->topology.devices;
  double best = std::numeric_limits<double>::infinity();
  PlacedProposal plan;
  plan.first_rank = {0};
  const std::function<void(std::size_t)> place = [&](std::size_t t) {
    if (t == set.tables.size()) {
      const auto used = embedding::rank_storage(set, plan);
      for (std::size_t rank = 0; rank < used.size(); ++rank) {
        if (!used[rank].fits_in(devices[rank])) return;
      }
      best = std::min(best, measure_risk(drawn.options.measure, drawn.options.level,
                                         costs.values(plan, scenes->scenarios)->objective));
      return;
    }
    for (std::int32_t o = 0; o < set.tables[t].num_options; ++o) {
      const std::int32_t index = set.tables[t].first_option + o;
      const embedding::Option& option = set.options[static_cast<std::size_t>(index)];
      const bool is_uniform = option.partition_by == embedding::PartitionBy::kUniform;
      const PlacedProposal before = plan;
      for (int rank = 0; rank < (is_uniform ? 1 : set.world_size); ++rank) {
        plan.options.push_back(index);
        if (!is_uniform) plan.ranks.push_back(rank);
        plan.first_rank.push_back(static_cast<std::int64_t>(plan.ranks.size()));
        place(t + 1);
        plan = before;
      }
    }
  };
  place(0);
  return best;
}

TEST(Robust, FindsTheBestOfAllPlansOfSmallModelsAndBoundsIt) {
  int num_plans = 0, num_gaps = 0;
  for (std::uint32_t seed = 0; seed < 24; ++seed) {
    SCOPED_TRACE(seed);
    const Case drawn = random_case(seed);
    SearchOptions search;
    search.effort = 30'000;
    const auto found = plan_robustly(drawn.problem, drawn.forecast, drawn.options, search);
    ASSERT_TRUE(found) << format_error(found.error());
    const double best = best_of_all(drawn);
    if (!found->plan) {
      EXPECT_EQ(best, std::numeric_limits<double>::infinity());
      continue;
    }
    ++num_plans;
    EXPECT_NEAR(found->figures->risk_ms, best, 1e-9 * best);
    EXPECT_LE(found->figures->risk_ms, found->means_figures->risk_ms * (1 + 1e-12));
    ASSERT_TRUE(found->lower_bound.has_value());
    EXPECT_LE(*found->lower_bound, best * (1 + 1e-9));
    EXPECT_GT(*found->lower_bound, .4 * best);
    num_gaps += *found->gap() > 1e-3;
    const auto verdict = judge_robust_plan(drawn.problem, *found);
    ASSERT_TRUE(verdict);
    EXPECT_EQ(verdict->faults, std::vector<std::string>{});
    EXPECT_EQ(verdict->bound_faults, std::vector<std::string>{});
  }
  EXPECT_GE(num_plans, 15);
  EXPECT_GE(num_gaps, 3);  // the bound is one, not the optimum itself
}

TEST(Robust, TheJudgeFindsWhatIsWrong) {
  Case drawn = random_case(3);
  for (const RiskMeasure measure : {RiskMeasure::kQuantile, RiskMeasure::kCvar}) {
    drawn.options.measure = measure;
    drawn.options.level = .8;
    const auto found = plan_robustly(drawn.problem, drawn.forecast, drawn.options);
    ASSERT_TRUE(found && found->plan && found->lower_bound);
    const auto is_refused = [&](const std::function<void(RobustPlan&)>& change) {
      RobustPlan changed = *found;
      change(changed);
      const auto verdict = judge_robust_plan(drawn.problem, changed);
      return verdict && !(verdict->faults.empty() && verdict->bound_faults.empty());
    };
    EXPECT_FALSE(is_refused([](RobustPlan&) {}));
    EXPECT_TRUE(is_refused([](RobustPlan& plan) { plan.figures->risk_ms *= .999; }));
    EXPECT_TRUE(is_refused([](RobustPlan& plan) { plan.figures->fresh_mean_ms *= .999; }));
    EXPECT_TRUE(is_refused([](RobustPlan& plan) { plan.means_figures->mean_ms *= 1.001; }));
    EXPECT_TRUE(is_refused([](RobustPlan& plan) { plan.scenario_ms[1] *= 1.001; }));
    EXPECT_TRUE(is_refused([](RobustPlan& plan) { plan.scenario_ms.pop_back(); }));
    EXPECT_TRUE(is_refused([](RobustPlan& plan) { plan.provenance.seed = 9; }));
    EXPECT_TRUE(is_refused([](RobustPlan& plan) { *plan.lower_bound *= 1.001; }));
    EXPECT_TRUE(is_refused([](RobustPlan& plan) { plan.bounds.clear(); }));
    EXPECT_TRUE(is_refused([](RobustPlan& plan) {
      plan.status = SolveStatus::kOptimal;
      *plan.lower_bound *= .9;
    }));
    EXPECT_TRUE(is_refused([](RobustPlan& plan) { plan.bounds[0].scenarios = {-1}; }));
    if (measure == RiskMeasure::kQuantile) {
      // A scenario counts once.
      EXPECT_TRUE(is_refused([](RobustPlan& plan) { plan.bounds[0] = plan.bounds[1]; }));
    }
  }
}

TEST(Robust, IsAFunctionOfItsArguments) {
  const Case drawn = random_case(7);
  const auto once = plan_robustly(drawn.problem, drawn.forecast, drawn.options);
  const auto twice = plan_robustly(drawn.problem, drawn.forecast, drawn.options);
  ASSERT_TRUE(once && twice);
  EXPECT_EQ(once->plan, twice->plan);
  EXPECT_EQ(once->scenario_ms, twice->scenario_ms);
  EXPECT_EQ(once->bounds, twice->bounds);
  EXPECT_EQ(once->drifts, twice->drifts);
}

// Two ranks, four equal tables; two of them vary together. Their mean is that of the others, so the
// means do not tell which two should share a rank; the quantile does.
TEST(Robust, PutsTablesApartThatAreHighTogether) {
  Case drawn;
  embedding::Module module;
  module.path = "ebc";
  for (const char* name : {"a", "b", "c", "d"}) {
    module.tables.push_back(embedding::make_table(name, 8192, 64, embedding::Pooling::kSum));
    auto& constraints = drawn.problem.model.constraints[name];
    constraints.sharding_types = {ShardingType::kTableWise};
    constraints.compute_kernels = {embedding::ComputeKernel::kFused};
    constraints.pooling_factors = {20};
  }
  for (const char* name : {"a", "b"}) drawn.forecast.tables[name].samples = {{2}, {38}};
  drawn.forecast.joint_samples = true;
  drawn.problem.model.modules = {module};
  embedding::set_room(drawn.problem, 2, 2, 64 * kMiB, 1e6);
  drawn.problem.batch_size = 512;
  drawn.options.num_scenarios = 50;
  drawn.options.num_fresh_scenarios = 50;
  const auto found = plan_robustly(drawn.problem, drawn.forecast, drawn.options);
  ASSERT_TRUE(found && found->plan);
  std::vector<int> ranks;
  for (const auto& table : found->plan->tables) {
    if (table.table == "a" || table.table == "b") ranks.push_back(table.ranks.front().first);
  }
  ASSERT_EQ(ranks.size(), 2U);
  EXPECT_NE(ranks[0], ranks[1]);
  EXPECT_EQ(found->status, SolveStatus::kOptimal);
}

TEST(Robust, RefusesWhatItCannotDo) {
  Case drawn = random_case(1);
  drawn.options.level = 1;
  auto found = plan_robustly(drawn.problem, drawn.forecast, drawn.options);
  ASSERT_FALSE(found);
  EXPECT_EQ(found.error().place, "level");
  drawn.options.level = .9;
  drawn.options.num_scenarios = 0;
  found = plan_robustly(drawn.problem, drawn.forecast, drawn.options);
  ASSERT_FALSE(found);
  EXPECT_EQ(found.error().place, "scenarios");
  drawn.options.num_scenarios = 10;
  drawn.forecast.tables["nobody"].samples = {{1}};
  found = plan_robustly(drawn.problem, drawn.forecast, drawn.options);
  ASSERT_FALSE(found);
  EXPECT_EQ(found.error().place, "pooling/nobody");
}

}  // namespace
}  // namespace plimsoll::study
