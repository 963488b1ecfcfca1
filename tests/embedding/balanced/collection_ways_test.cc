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

// Two tables of 128 columns on two ranks; a is cut in two if its blocks may be 64 wide, as b.
PlanningProblem columns_problem(const std::vector<ShardingType>& of_a,
                                const std::vector<ShardingType>& of_b, int columns_of_a,
                                int columns_of_b) {
  PlanningProblem problem;
  Module module;
  module.path = "m";
  for (const char* name : {"a", "b"}) {
    module.tables.push_back(make_table(name, 100000, 128, Pooling::kSum));
    ParameterConstraints& constraints = problem.model.constraints[name];
    constraints.compute_kernels = {ComputeKernel::kFused};
    constraints.sharding_types = name[0] == 'a' ? of_a : of_b;
    constraints.min_partition = name[0] == 'a' ? columns_of_a : columns_of_b;
  }
  problem.model.modules.push_back(std::move(module));
  set_room(problem, 2, 1, 40 * kGiB, 1e7);
  return problem;
}

// At 100 ms a type, with b whole.
BalancedResult plan_of_types(const std::vector<ShardingType>& of_a,
                             const std::vector<ShardingType>& of_b, int columns_of_a) {
  auto options = BalancedOptions::minimizing(BalanceObjective::kRating);
  options.bridge.objective = BalanceObjective::kTime;
  options.bridge.step_model.ms_per_sharding_type = 100;
  return plan(columns_problem(of_a, of_b, columns_of_a, 128), options);
}

std::vector<ShardingType> types_of(const BalancedResult& result) {
  std::vector<ShardingType> types;
  for (const TableSharding& table : result.planning.outcome.plan.value().tables) {
    types.push_back(table.sharding_type);
  }
  return types;
}

// The runtime groups tables by the names of their types: b stands whole beside a, which is cut, and
// shares its group where it may have the name.
TEST(Charges, AreSharedByWholeTablesBesideCutOnes) {
  const BalancedResult shared = plan_of_types({kColumnWise}, {kColumnWise, kTableWise}, 64);
  EXPECT_THAT(types_of(shared), testing::ElementsAre(kColumnWise, kColumnWise));
  EXPECT_EQ(shared.planning.outcome.plan->tables[1].shards.size(), 1U);
  EXPECT_GT(shared.times.time, 100);
  EXPECT_LT(shared.times.time, 200);
  EXPECT_EQ(shared.planning.outcome.status, SolveStatus::kOptimal);
  const BalancedResult apart = plan_of_types({kColumnWise}, {kTableWise}, 64);
  EXPECT_THAT(types_of(apart), testing::ElementsAre(kColumnWise, kTableWise));
  EXPECT_GT(apart.times.time, 200);
  EXPECT_LT(apart.times.time, 300);
  EXPECT_EQ(apart.planning.outcome.status, SolveStatus::kOptimal);
}

// Where nothing is cut, whether or not it might be, whole tables have the plainer name; one that
// may have no other is charged for it.
TEST(Charges, NameWholeTablesPlainlyWhereNoneIsCut) {
  const std::vector<ShardingType> both{kColumnWise, kTableWise};
  for (const int columns_of_a : {64, 128}) {
    const BalancedResult whole = plan_of_types(both, both, columns_of_a);
    EXPECT_THAT(types_of(whole), testing::ElementsAre(kTableWise, kTableWise));
    EXPECT_LT(whole.times.time, 200);
    EXPECT_EQ(whole.planning.outcome.status, SolveStatus::kOptimal);
  }
  const BalancedResult named = plan_of_types({kColumnWise}, both, 128);
  EXPECT_THAT(types_of(named), testing::ElementsAre(kColumnWise, kColumnWise));
  EXPECT_LT(named.times.time, 200);
  for (const int columns_of_a : {64, 128}) {
    const BalancedResult beside = plan_of_types(both, {kTableWise}, columns_of_a);
    EXPECT_THAT(types_of(beside), testing::ElementsAre(kTableWise, kTableWise));
    EXPECT_LT(beside.times.time, 200);
    EXPECT_EQ(beside.planning.outcome.status, SolveStatus::kOptimal);
  }
}

// Two tables that may both be called column_wise and be cut in two, on two ranks.
class NamesOfTypes : public testing::Test {
 protected:
  void SetUp() override {
    const std::vector<ShardingType> both{kTableWise, kColumnWise};
    problem_ = columns_problem(both, both, 64, 64);
    EnumerationOptions enumeration;
    enumeration.max_column_blocks = 2;
    const Estimator estimator(problem_.cost_model, problem_.topology, problem_.mode);
    auto enumerated = enumerate(estimator, problem_.model, enumeration);
    ASSERT_TRUE(enumerated);
    options_ = std::move(enumerated->options);
  }

  Result<PlacementBridge> make_bridge(BridgeOptions settings) const {
    settings.objective = BalanceObjective::kTime;
    return make_placement_bridge({&options_, &problem_.topology, &problem_.model, nullptr, {}},
                                 settings);
  }

  // "TW1 CW2 ": types and column blocks.
  std::string names_of(const std::vector<std::int32_t>& options) const {
    std::string names;
    for (const std::int32_t index : options) {
      const Option& option = options_.options[static_cast<std::size_t>(index)];
      names += std::string(abbreviation(option.sharding_type)) +
               std::to_string(option.column_blocks) + " ";
    }
    return names;
  }

  PlanningProblem problem_;
  OptionSet options_;
};

TEST_F(NamesOfTypes, ArePlainForWholeTablesOfAPlanThatCutsNone) {
  const Result<PlacementBridge> bridge = make_bridge({});
  ASSERT_TRUE(bridge);
  ASSERT_EQ(bridge->options.size(), 2U);
  std::map<std::string, std::string> called;  // by what is placed
  for (std::size_t a = 0; a < bridge->options[0].size(); ++a) {
    for (std::size_t b = 0; b < bridge->options[1].size(); ++b) {
      balance::UnitPlacements placements;
      std::vector<std::int32_t> placed;
      for (const auto& [unit, choice] : {std::pair{0U, a}, std::pair{1U, b}}) {
        placed.push_back(bridge->options[unit][choice][0]);
        const Option& option = options_.options[static_cast<std::size_t>(placed.back())];
        placements.units.push_back(
            {static_cast<int>(choice),
             std::vector<int>(static_cast<std::size_t>(option.column_blocks), 0)});
      }
      const PlacedProposal plan = to_proposal(*bridge, options_, placements);
      EXPECT_TRUE(called.emplace(names_of(placed), names_of(plan.options)).second);
      EXPECT_THAT(plan.ranks, testing::Each(0));
      const auto back = find_placements(*bridge, options_, plan);
      ASSERT_TRUE(back);
      EXPECT_LE(balance::evaluate(bridge->problem, *back).objective,
                balance::evaluate(bridge->problem, placements).objective);
      EXPECT_EQ(to_proposal(*bridge, options_, *back).options, plan.options);
    }
  }
  const std::map<std::string, std::string> expected{{"CW1 CW1 ", "TW1 TW1 "},
                                                    {"CW1 CW2 ", "CW1 CW2 "},
                                                    {"CW2 CW1 ", "CW2 CW1 "},
                                                    {"CW2 CW2 ", "CW2 CW2 "}};
  EXPECT_EQ(called, expected);
}

}  // namespace
}  // namespace plimsoll::embedding
