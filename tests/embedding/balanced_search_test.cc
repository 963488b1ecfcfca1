// Our own search, judged by the checker: plans are right, free of hazards, never worse than the
// reference's.

#include "plimsoll/embedding/balanced_search.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "plimsoll/check/sharding_check.h"
#include "plimsoll/solve/balanced_placement.h"
#include "plimsoll/solve/placement_judge.h"

namespace plimsoll::embedding {
namespace {

// A generator of the test's own.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed * 0x9E3779B97F4A7C15U + 1) {}
  std::int64_t below(std::int64_t end) {
    state_ ^= state_ << 13;
    state_ ^= state_ >> 7;
    state_ ^= state_ << 17;
    return static_cast<std::int64_t>((state_ >> 11) % static_cast<std::uint64_t>(end));
  }

 private:
  std::uint64_t state_;
};

PlanningProblem random_problem(std::uint64_t seed) {
  Random random(seed);
  PlanningProblem problem;
  problem.cost_model = *find_cost_model("torchrec-ref");
  problem.batch_size = 256;
  problem.model.optimizer = random.below(2) == 0 ? Optimizer::kRowWiseAdagrad : Optimizer::kOther;
  const std::int64_t num_modules = 1 + random.below(2);
  for (std::int64_t m = 0; m < num_modules; ++m) {
    Module module;
    module.path = "m" + std::to_string(m);
    if (random.below(5) == 0) module.kind = ModuleKind::kEmbeddingTower;
    const std::int64_t num_tables = 1 + random.below(6);
    for (std::int64_t t = 0; t < num_tables; ++t) {
      Table table;
      table.name = module.path + "_t" + std::to_string(t);
      table.num_embeddings = 1 + random.below(std::int64_t{1} << (4 + random.below(20)));
      table.embedding_dim = std::int64_t{64} << random.below(4);
      if (random.below(4) == 0) table.pooling = Pooling::kMean;
      problem.model.constraints[table.name].pooling_factors = {
          static_cast<double>(1 + random.below(40))};
      module.tables.push_back(table);
    }
    problem.model.modules.push_back(module);
  }
  topology::TopologySpec spec;
  spec.world_size = static_cast<int>(random.below(2) == 0 ? 4 : 8);
  spec.local_world_size = static_cast<int>(random.below(2) == 0 ? 4 : 2);
  spec.hbm_cap = (4 + random.below(12)) * kGiB;
  if (random.below(4) == 0) {
    for (int r = 0; r < spec.world_size; ++r) {
      spec.hbm_caps.push_back((4 + random.below(12)) * kGiB);
    }
  }
  problem.topology = *topology::make_topology(spec, true, false);
  return problem;
}

// The reference knows no hazards.
void remove_hazards(PlanningProblem& problem) {
  for (Module& module : problem.model.modules) {
    for (Table& table : module.tables) {
      table.pooling = Pooling::kSum;
      table.num_embeddings = std::max<std::int64_t>(table.num_embeddings, 4096) / 64 * 64;
    }
  }
  problem.topology.has_custom_hbm = false;  // rows are cut evenly
}

BalancedResult plan(const PlanningProblem& problem, const BalancedOptions& options) {
  SearchOptions search;
  search.effort = 5000;
  auto result = plan_balanced(problem, options, search, {});
  EXPECT_TRUE(result) << (result ? "" : format_error(result.error()));
  return *std::move(result);
}

check::CheckReport judge(const PlanningProblem& problem, const ShardingPlan& plan) {
  check::CheckOptions options;
  options.batch_size = problem.batch_size;
  options.reservation = problem.reservation;
  auto report = check::check_sharding(problem.model, plan, problem.topology, problem.cost_model,
                                      problem.mode, options);
  EXPECT_TRUE(report) << (report ? "" : format_error(report.error()));
  return *std::move(report);
}

TEST(BalancedSearch, MakesPlansThatTheCheckerAccepts) {
  int num_plans = 0;
  for (std::uint64_t seed = 0; seed < 15; ++seed) {
    SCOPED_TRACE(seed);
    const PlanningProblem problem = random_problem(seed);
    for (const auto objective :
         {BalanceObjective::kRating, BalanceObjective::kStep, BalanceObjective::kTime}) {
      BalancedOptions options;
      options.bridge.objective = objective;
      options.max_column_blocks = seed % 2 == 0 ? 8 : 0;
      const BalancedResult result = plan(problem, options);
      if (!result.planning.outcome.plan) continue;
      ++num_plans;
      const check::CheckReport report = judge(problem, *result.planning.outcome.plan);
      for (const auto& violation : report.violations) {
        ADD_FAILURE() << violation.table << ": " << violation.message;
      }
      const bool is_unavoidable = std::any_of(
          result.planning.outcome.warnings.begin(), result.planning.outcome.warnings.end(),
          [](const Warning& w) { return w.code == "hazard_unavoidable"; });
      for (const auto& hazard : report.hazards) {
        EXPECT_TRUE(is_unavoidable) << hazard.table << ": " << hazard.message;
      }
      EXPECT_NEAR(report.rating, result.times.rating, 1e-9 * report.rating);
      const Certificate& certificate = result.planning.outcome.certificate;
      EXPECT_LE(certificate.lower_bound.value_or(0), certificate.objective);
      EXPECT_LE(result.times.rating, result.times.step * (1 + 1e-12));
    }
  }
  EXPECT_GT(num_plans, 30);
}

TEST(BalancedSearch, IsNeverWorseThanTheReference) {
  int num_compared = 0;
  for (std::uint64_t seed = 0; seed < 30; ++seed) {
    SCOPED_TRACE(seed);
    PlanningProblem problem = random_problem(seed);
    remove_hazards(problem);
    for (const auto objective :
         {BalanceObjective::kRating, BalanceObjective::kStep, BalanceObjective::kTime}) {
      BalancedOptions options;
      options.bridge.objective = objective;
      const BalancedResult result = plan(problem, options);
      if (!result.reference) continue;
      ASSERT_TRUE(result.planning.outcome.plan);
      ++num_compared;
      switch (objective) {
        case BalanceObjective::kRating:
          EXPECT_LE(result.times.rating, result.reference->rating * (1 + 1e-12));
          break;
        case BalanceObjective::kStep:
          EXPECT_LE(result.times.step, result.reference->step * (1 + 1e-12));
          break;
        case BalanceObjective::kTime:
          EXPECT_LE(result.times.time, result.reference->time * (1 + 1e-12));
          break;
      }
    }
  }
  EXPECT_GT(num_compared, 50);
}

TEST(BalancedSearch, KeepsTheReferenceRatingWhereAsked) {
  int num_compared = 0;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    SCOPED_TRACE(seed);
    PlanningProblem problem = random_problem(seed);
    remove_hazards(problem);
    BalancedOptions options;
    options.bridge.objective = BalanceObjective::kTime;
    options.keeps_reference_rating = true;
    const BalancedResult result = plan(problem, options);
    if (!result.reference || !result.planning.outcome.plan) continue;
    ++num_compared;
    EXPECT_LE(result.times.rating, result.reference->rating * (1 + 1e-12));
  }
  EXPECT_GT(num_compared, 10);
}

TEST(PlacementBridge, GivesBackWhatItWasGiven) {
  for (std::uint64_t seed = 0; seed < 30; ++seed) {
    SCOPED_TRACE(seed);
    const PlanningProblem problem = random_problem(seed);
    const Estimator estimator(problem.cost_model, problem.topology, problem.mode);
    EnumerationOptions enumeration;
    enumeration.batch_size = problem.batch_size;
    enumeration.max_column_blocks = 8;
    const auto enumerated = enumerate(estimator, problem.model, enumeration);
    ASSERT_TRUE(enumerated);
    const OptionSet& options = enumerated->options;
    const BridgeInput input{&options, &problem.topology, &problem.model, &estimator,
                            enumerated->profiles};
    for (const auto objective :
         {BalanceObjective::kRating, BalanceObjective::kStep, BalanceObjective::kTime}) {
      BridgeOptions settings;
      settings.objective = objective;
      settings.step_model.ms_per_output_byte = 1e-6;
      settings.step_model.ms_per_table = .01;
      const auto bridge = make_placement_bridge(input, settings);
      ASSERT_TRUE(bridge);
      solve::BalanceOptions balance;
      balance.uses_annealing = false;
      balance.uses_dives = false;
      balance.uses_patterns = false;
      SearchOptions search;
      search.effort = 1000;
      const auto found = solve::balance(bridge->problem, balance, search, {}).outcome;
      if (!found.plan) continue;
      const PlacedProposal plan = to_proposal(*bridge, options, *found.plan);
      const PlanTimes times = plan_times(input, settings.step_model, plan);
      const double value = objective == BalanceObjective::kRating ? times.rating
                           : objective == BalanceObjective::kStep ? times.step
                                                                  : times.time;
      EXPECT_NEAR(value, found.certificate.objective, 1e-9 * value);
      const auto back = find_placements(*bridge, options, plan);
      ASSERT_TRUE(back);
      EXPECT_EQ(evaluate(bridge->problem, *back).objective, found.certificate.objective);
    }
  }
}

TEST(PlacementBridge, HoldsTablesToRanksAndApart) {
  PlanningProblem problem = random_problem(1);
  problem.topology.devices.assign(problem.topology.devices.size(), {40 * kGiB, 128 * kGiB, 0});
  Module module;
  module.path = "ebc";
  for (const char* name : {"a", "b"}) {
    Table table;
    table.name = name;
    table.num_embeddings = 4096;
    table.embedding_dim = 64;
    module.tables.push_back(table);
  }
  problem.model.modules = {module};
  BalancedOptions options;
  options.bridge.allowed_ranks["ebc.a"] = {1, 2};
  options.bridge.apart = {{"ebc.a", "ebc.b"}};
  const BalancedResult result = plan(problem, options);
  ASSERT_TRUE(result.planning.outcome.plan);
  std::vector<std::int32_t> ranks[2];
  for (std::size_t t = 0; t < 2; ++t) {
    for (const PlacedShard& shard : expand_shards(result.planning.outcome.plan->tables[t])) {
      ranks[t].push_back(shard.rank);
    }
  }
  for (const std::int32_t rank : ranks[0]) {
    EXPECT_TRUE(rank == 1 || rank == 2);
    EXPECT_THAT(ranks[1], testing::Not(testing::Contains(rank)));
  }
  options.bridge.allowed_ranks["ebc.c"] = {0};
  EXPECT_EQ(plan_balanced(problem, options, {}, {}).error().code, ErrorCode::kNotFound);
}

TEST(Enumerator, ListsEveryWidthWhereAsked) {
  PlanningProblem problem = random_problem(1);
  problem.model.modules.resize(1);
  problem.model.modules[0].kind = ModuleKind::kEmbeddingBagCollection;
  problem.model.modules[0].tables.resize(1);
  problem.model.modules[0].tables[0].embedding_dim = 48;
  const Estimator estimator(problem.cost_model, problem.topology, problem.mode);
  EnumerationOptions options;
  options.max_column_blocks = 8;
  const auto enumerated = enumerate(estimator, problem.model, options);
  ASSERT_TRUE(enumerated);
  std::vector<int> blocks;
  for (const Option& option : enumerated->options.options) {
    if (option.sharding_type == ShardingType::kColumnWise &&
        option.compute_kernel == ComputeKernel::kFused) {
      blocks.push_back(option.column_blocks);
    }
  }
  EXPECT_THAT(blocks, testing::ElementsAre(1, 2, 3, 4, 6));  // 48, 24, 16, 12, 8
}

}  // namespace
}  // namespace plimsoll::embedding
