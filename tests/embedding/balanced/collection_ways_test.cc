// Collections of sequences whose column_wise tables want one width, and options that keep an
// optimizer state for each block: against every plan of tiny models, each judged by the checker.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "balance/bounds/bound_placement.h"
#include "embedding/problem/option_hazards.h"
#include "embedding/small_models.h"

namespace plimsoll::embedding {
namespace {

using enum ShardingType;

// Sequences of one dimension whose column cuts differ in width, on two ranks, where not everything
// fits everywhere.
PlanningProblem sequence_problem(std::uint64_t seed) {
  Random random(seed);
  PlanningProblem problem;
  problem.batch_size = 256;
  Module module;
  module.path = "m";
  module.kind = ModuleKind::kEmbeddingCollection;
  for (const char* name : {"a", "b", "c"}) {
    module.tables.push_back(make_table(name, 40000 + random.below(260000), 128, Pooling::kSum));
    ParameterConstraints& constraints = problem.model.constraints[name];
    constraints.compute_kernels = {ComputeKernel::kFused};
    constraints.pooling_factors = {static_cast<double>(1 + random.below(20))};
    constraints.min_partition = std::int64_t{32} << random.below(3);  // four blocks, two or one
    for (const ShardingType type : {kTableWise, kRowWise}) {
      if (random.below(3) == 0) constraints.sharding_types.push_back(type);
    }
    constraints.sharding_types.push_back(kColumnWise);
  }
  problem.model.modules.push_back(std::move(module));
  set_room(problem, 2, 1, (random.below(2) == 0 ? 40 + random.below(150) : 2000) * kMiB,
           1e5 * static_cast<double>(1 + random.below(100)));
  return problem;
}

struct Tally {
  int num_plans = 0;
  int num_proved = 0;
  int num_unavoidable = 0;
  int num_bound_by_ways = 0;  // where plans of several widths would be better
};

void compare(const PlanningProblem& problem, BalanceObjective objective, Tally& tally) {
  SCOPED_TRACE(to_string(objective));
  auto options = BalancedOptions::minimizing(BalanceObjective::kRating);
  options.bridge.objective = objective;
  const std::vector<Judged> plans = all_plans(problem);
  const BalancedResult result = plan(problem, options);
  const auto& outcome = result.planning.outcome;
  if (plans.empty()) {
    EXPECT_FALSE(outcome.plan);
    return;
  }
  ++tally.num_plans;
  const Best best = best_of(plans, objective);
  double least = kInfinity;  // with any hazards
  for (const Judged& judged : plans) {
    least = std::min(least, objective == BalanceObjective::kRating ? judged.rating : judged.time);
  }
  tally.num_bound_by_ways += least < best.value * (1 - 1e-6) ? 1 : 0;
  tally.num_unavoidable += best.num_hazards > 0 ? 1 : 0;
  EXPECT_NE(outcome.status, SolveStatus::kInfeasible);
  EXPECT_LE(outcome.certificate.lower_bound.value_or(0), best.value * (1 + 1e-9));
  ASSERT_TRUE(outcome.plan);
  const check::ShardingReport report = judge(problem, *outcome.plan);
  EXPECT_TRUE(report.is_right());
  EXPECT_EQ(report.hazards().size(), best.num_hazards);
  for (const check::Finding& hazard : report.hazards()) {
    const std::vector<Warning> warnings = warnings_of(result, "hazard_unavoidable");
    EXPECT_TRUE(std::any_of(warnings.begin(), warnings.end(), [&hazard](const Warning& warning) {
      return warning.place == hazard.place && warning.message.starts_with(to_string(hazard.code));
    })) << hazard.message;
  }
  if (outcome.status != SolveStatus::kOptimal) return;
  ++tally.num_proved;
  EXPECT_LE(outcome.certificate.objective, best.value * (1 + 1e-6));
}

TEST(CollectionWays, KeepOneWidthOfSequencesWhereTheyCan) {
  Tally tally;
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    SCOPED_TRACE(seed);
    const PlanningProblem problem = sequence_problem(seed);
    compare(problem, BalanceObjective::kRating, tally);
    compare(problem, BalanceObjective::kTime, tally);
  }
  EXPECT_GT(tally.num_plans, 50);
  EXPECT_GT(tally.num_proved, tally.num_plans / 2);
  EXPECT_GT(tally.num_unavoidable, 5);
  EXPECT_GT(tally.num_bound_by_ways, 5);
}

// The bound tells the ways of a collection apart: with them it is never less, at times more, and
// never above the best plan of one width.
TEST(CollectionWays, SharpenTheBound) {
  int num_sharper = 0;
  for (std::uint64_t seed = 0; seed < 30; ++seed) {
    SCOPED_TRACE(seed);
    const PlanningProblem problem = sequence_problem(seed);
    auto options = BalancedOptions::minimizing(BalanceObjective::kRating);
    options.bridge.objective = BalanceObjective::kRating;
    const auto bridge = make_bounded_problem(problem, options);
    ASSERT_TRUE(bridge) << format_error(bridge.error());
    EXPECT_FALSE(bridge->is_tighter);
    const double with = balance::bound_placement(bridge->problem, {}, RunContext{}).value;
    balance::PlacementProblem loose = bridge->problem;
    loose.exclusive.clear();
    const double without = balance::bound_placement(loose, {}, RunContext{}).value;
    EXPECT_GE(with, without * (1 - 1e-6));
    num_sharper += with > without * (1 + 1e-6) ? 1 : 0;
    const Best best = best_of(all_plans(problem), BalanceObjective::kRating);
    EXPECT_LE(with, best.value * (1 + 1e-9));
  }
  EXPECT_GT(num_sharper, 0);
}

// Two tables of 64 columns and one of 32 by constraint: the way of most tables is the first, and
// each way leaves out what the other takes.
TEST(CollectionWays, AreTheWidthsOfColumnShards) {
  PlanningProblem problem;
  Module module;
  module.path = "m";
  module.kind = ModuleKind::kEmbeddingCollection;
  for (const char* name : {"a", "b", "c"}) {
    module.tables.push_back(make_table(name, 1000, 128, Pooling::kSum));
    ParameterConstraints& constraints = problem.model.constraints[name];
    constraints.compute_kernels = {ComputeKernel::kFused};
    constraints.sharding_types = {kColumnWise, kTableWise};
    constraints.min_partition = name[0] == 'a' ? 32 : 64;
  }
  problem.model.modules.push_back(std::move(module));
  set_room(problem, 2, 1, kGiB, 1e7);
  const Estimator estimator(problem.cost_model, problem.topology, problem.mode);
  const auto made = enumerate(estimator, problem.model, problem.enumeration);
  ASSERT_TRUE(made);
  const OptionSet& set = made->options;
  const OptionHazards hazards = find_option_hazards(set, problem.topology, problem.model);
  ASSERT_EQ(hazards.way_choices.size(), 1U);
  EXPECT_EQ(hazards.least(), 0);
  std::vector<std::int32_t> narrow, wide;
  for (std::size_t o = 0; o < set.options.size(); ++o) {
    if (set.options[o].sharding_type != kColumnWise) continue;
    (set.options[o].table == 0 ? narrow : wide).push_back(static_cast<std::int32_t>(o));
  }
  EXPECT_THAT(hazards.way_choices[0].left_out, testing::ElementsAre(narrow, wide));
  EXPECT_EQ(hazards.way_choices[0].way_of(wide), 0U);
  EXPECT_EQ(hazards.way_choices[0].way_of(narrow), 1U);
  // As pooled tables they do not depend on each other.
  problem.model.modules[0].kind = ModuleKind::kEmbeddingBagCollection;
  const auto pooled = enumerate(estimator, problem.model, problem.enumeration);
  ASSERT_TRUE(pooled);
  EXPECT_TRUE(
      find_option_hazards(pooled->options, problem.topology, problem.model).way_choices.empty());
}

// A pooled model under row-wise Adagrad whose columns may be cut.
PlanningProblem row_wise_adagrad_problem(std::uint64_t seed) {
  Random random(seed);
  PlanningProblem problem;
  problem.batch_size = 256;
  problem.model.optimizer = Optimizer::kRowWiseAdagrad;
  Module module;
  module.path = "m";
  for (const char* name : {"a", "b"}) {
    module.tables.push_back(make_table(name, 40000 + random.below(260000), 128, Pooling::kSum));
    ParameterConstraints& constraints = problem.model.constraints[name];
    constraints.compute_kernels = {ComputeKernel::kFused};
    constraints.pooling_factors = {static_cast<double>(1 + random.below(20))};
    constraints.min_partition = std::int64_t{32} << random.below(3);
    for (const ShardingType type : {kTableWise, kRowWise, kColumnWise, kTableColumnWise}) {
      if (random.below(2) == 0) constraints.sharding_types.push_back(type);
    }
    if (constraints.sharding_types.empty()) constraints.sharding_types = {kColumnWise};
  }
  problem.model.modules.push_back(std::move(module));
  set_room(problem, 4, 2, (random.below(2) == 0 ? 30 + random.below(60) : 2000) * kMiB, 1e7);
  return problem;
}

TEST(StrictNumerics, PlansNoOptimizerStatePerBlock) {
  int num_dearer = 0, num_impossible = 0, num_optimal = 0, num_named = 0;
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(seed);
    const PlanningProblem problem = row_wise_adagrad_problem(seed);
    auto options = BalancedOptions::minimizing(BalanceObjective::kRating);
    const BalancedResult loose = plan(problem, options);
    if (loose.planning.outcome.plan) {
      const check::ShardingReport report = judge(problem, *loose.planning.outcome.plan);
      const bool is_named = report.hazards().size() > count_hazards(report);
      EXPECT_EQ(warnings_of(loose, "optimizer_state_per_block").size(), is_named ? 1U : 0U);
      num_named += is_named ? 1 : 0;
    }
    options.bridge.strict_numerics = true;
    const BalancedResult strict = plan(problem, options);
    const auto& outcome = strict.planning.outcome;
    const std::vector<Judged> plans = all_plans(problem, true);
    if (plans.empty()) {
      EXPECT_FALSE(outcome.plan);
      num_impossible += outcome.status == SolveStatus::kInfeasible ? 1 : 0;
      continue;
    }
    const Best best = best_of(plans, BalanceObjective::kRating);
    EXPECT_LE(outcome.certificate.lower_bound.value_or(0), best.value * (1 + 1e-9));
    EXPECT_NE(outcome.status, SolveStatus::kInfeasible);
    ASSERT_TRUE(outcome.plan);
    const check::ShardingReport report = judge(problem, *outcome.plan);
    EXPECT_EQ(report.hazards().size(), count_hazards(report));
    EXPECT_TRUE(warnings_of(strict, "optimizer_state_per_block").empty());
    if (outcome.status != SolveStatus::kOptimal) continue;
    ++num_optimal;
    EXPECT_LE(outcome.certificate.objective, best.value * (1 + 1e-6));
    num_dearer += loose.times.rating < strict.times.rating * (1 - 1e-6) ? 1 : 0;
  }
  EXPECT_GT(num_dearer, 5);
  EXPECT_GT(num_impossible, 2);
  EXPECT_GT(num_optimal, 20);
  EXPECT_GT(num_named, 10);
}

TEST(StrictNumerics, NamesTheTableThatHasNothingElse) {
  PlanningProblem problem = row_wise_adagrad_problem(1);
  for (auto& [name, constraints] : problem.model.constraints) {
    constraints.sharding_types = {kTableWise};
    constraints.min_partition = 64;
  }
  problem.model.constraints["b"].sharding_types = {kColumnWise};
  set_room(problem, 4, 2, kGiB, 1e7);
  auto options = BalancedOptions::minimizing(BalanceObjective::kRating);
  options.bridge.strict_numerics = true;
  const BalancedResult result = plan(problem, options);
  const auto& outcome = result.planning.outcome;
  EXPECT_EQ(outcome.status, SolveStatus::kInfeasible);
  EXPECT_EQ(outcome.explanation.binding, "table m.b");
  ASSERT_EQ(outcome.explanation.lines.size(), 1U);
  EXPECT_THAT(outcome.explanation.lines[0], testing::HasSubstr("optimizer_state_per_block"));
  // Of an optimizer that keeps a number for each cell every block trains as the table does.
  problem.model.optimizer = Optimizer::kOther;
  EXPECT_TRUE(plan(problem, options).planning.outcome.plan);
  // A sharder's optimizer is that of tables without one.
  problem.model.optimizer.reset();
  EXPECT_TRUE(plan(problem, options).planning.outcome.plan);
  problem.model.modules[0].sharder.optimizer = Optimizer::kRowWiseAdagrad;
  EXPECT_EQ(plan(problem, options).planning.outcome.status, SolveStatus::kInfeasible);
  problem.model.modules[0].tables[1].optimizer = Optimizer::kSgd;
  EXPECT_TRUE(plan(problem, options).planning.outcome.plan);
}

// b may be called column_wise of one block, beside a, which is cut in two: it is whole all the
// same, stands as table_wise and pays for that.
TEST(Charges, AreNotSavedByCallingAWholeTableColumns) {
  PlanningProblem problem;
  Module module;
  module.path = "m";
  for (const char* name : {"a", "b"}) {
    module.tables.push_back(make_table(name, 100000, 128, Pooling::kSum));
    ParameterConstraints& constraints = problem.model.constraints[name];
    constraints.compute_kernels = {ComputeKernel::kFused};
    constraints.sharding_types = {kColumnWise, kTableWise};
    constraints.min_partition = name[0] == 'a' ? 64 : 128;
  }
  problem.model.constraints["a"].sharding_types = {kColumnWise};
  problem.model.modules.push_back(std::move(module));
  set_room(problem, 2, 1, 40 * kGiB, 1e7);
  auto options = BalancedOptions::minimizing(BalanceObjective::kRating);
  options.bridge.objective = BalanceObjective::kTime;
  options.bridge.step_model.ms_per_sharding_type = 100;
  for (const bool is_alone : {false, true}) {
    // Even where nothing else is allowed.
    if (is_alone) problem.model.constraints["b"].sharding_types = {kColumnWise};
    const BalancedResult result = plan(problem, options);
    ASSERT_TRUE(result.planning.outcome.plan);
    EXPECT_EQ(result.planning.outcome.plan->tables[1].sharding_type,
              is_alone ? kColumnWise : kTableWise);
    EXPECT_GT(result.times.time, 200);
    EXPECT_LT(result.times.time, 300);
    EXPECT_EQ(result.planning.outcome.status, SolveStatus::kOptimal);
  }
}

}  // namespace
}  // namespace plimsoll::embedding
