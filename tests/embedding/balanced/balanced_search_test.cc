// Our own search, judged by the checker: plans are right, free of hazards, never worse than the
// reference's.

#include "plimsoll/embedding/balanced_search.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cmath>

#include "balance/balanced_placement.h"
#include "balance/problem/placement_judge.h"
#include "balance/verify/verify_bound.h"
#include "plimsoll/check/sharding_check.h"

namespace plimsoll::embedding::balanced_search {
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
void remove_hazards(PlanningProblem& problem, bool keeps_means = false) {
  for (Module& module : problem.model.modules) {
    for (Table& table : module.tables) {
      if (!keeps_means) table.pooling = Pooling::kSum;
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

check::ShardingReport judge(const PlanningProblem& problem, const ShardingPlan& plan) {
  check::CheckOptions options;
  options.batch_size = problem.batch_size;
  options.reservation = problem.reservation;
  auto report = check::check_sharding(problem.model, plan, problem.topology, problem.cost_model,
                                      problem.mode, options);
  EXPECT_TRUE(report) << (report ? "" : format_error(report.error()));
  // Not avoided unless that is asked for.
  std::erase_if(report->findings, [](const check::Finding& hazard) {
    return hazard.code == check::FindingCode::kOptimizerStatePerBlock;
  });
  return *std::move(report);
}

TEST(BalancedSearch, MakesPlansThatTheCheckerAccepts) {
  int num_plans = 0;
  for (std::uint64_t seed = 0; seed < 15; ++seed) {
    SCOPED_TRACE(seed);
    const PlanningProblem problem = random_problem(seed);
    for (const auto objective :
         {BalanceObjective::kRating, BalanceObjective::kStep, BalanceObjective::kTime}) {
      auto options = BalancedOptions::minimizing(BalanceObjective::kRating);
      options.bridge.objective = objective;
      options.max_column_blocks = seed % 2 == 0 ? 8 : 0;
      const BalancedResult result = plan(problem, options);
      if (!result.planning.outcome.plan) continue;
      ++num_plans;
      const check::ShardingReport report = judge(problem, *result.planning.outcome.plan);
      for (const auto& violation : report.violations()) {
        ADD_FAILURE() << violation.place << ": " << violation.message;
      }
      const bool is_unavoidable = std::any_of(
          result.planning.outcome.warnings.begin(), result.planning.outcome.warnings.end(),
          [](const Warning& w) { return w.code == "hazard_unavoidable"; });
      for (const auto& hazard : report.hazards()) {
        EXPECT_TRUE(is_unavoidable) << hazard.place << ": " << hazard.message;
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
      auto options = BalancedOptions::minimizing(BalanceObjective::kRating);
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

// Of the first module.
bool cuts_means_by_rows(const PlanningProblem& problem, const BalancedResult& result) {
  if (!result.planning.outcome.plan) return false;
  const std::vector<Table>& tables = problem.model.modules.front().tables;
  const std::vector<TableSharding>& cut = result.planning.outcome.plan->tables;
  return std::any_of(cut.begin(), cut.end(), [&](const TableSharding& sharding) {
    return (sharding.sharding_type == ShardingType::kRowWise ||
            sharding.sharding_type == ShardingType::kTableRowWise) &&
           std::any_of(tables.begin(), tables.end(), [&](const Table& table) {
             return table.pooling == Pooling::kMean && sharding.table == table.name;
           });
  });
}

// A collection with mean-pooled tables may be cut by rows as a whole: no plan that the checker
// finds free of hazards is better than what is found, nor below the bound.
TEST(BalancedSearch, CutsMeanPooledCollectionsByRowsWhereThatIsBest) {
  int num_by_rows = 0;
  int num_compared = 0;
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(seed);
    PlanningProblem problem = random_problem(seed);
    remove_hazards(problem, true);
    problem.model.modules.resize(1);
    problem.model.modules.front().kind = ModuleKind::kEmbeddingBagCollection;
    const BalancedResult result =
        plan(problem, BalancedOptions::minimizing(BalanceObjective::kRating));
    if (cuts_means_by_rows(problem, result)) ++num_by_rows;
    const Result<PlanningResult> reference = plan_like_torchrec(problem, {}, {}, {});
    if (!reference || !reference->outcome.plan) continue;
    if (!judge(problem, *reference->outcome.plan).hazards().empty()) continue;
    ++num_compared;
    ASSERT_TRUE(result.planning.outcome.plan);
    EXPECT_TRUE(judge(problem, *result.planning.outcome.plan).hazards().empty());
    EXPECT_LE(result.times.rating, reference->rating * (1 + 1e-12));
    EXPECT_LE(result.planning.outcome.certificate.lower_bound.value_or(0), reference->rating);
  }
  EXPECT_GT(num_by_rows, 3);
  EXPECT_GT(num_compared, 10);
}

// What fits by rows alone is not proved to fit nowhere.
TEST(BalancedSearch, FindsRoomForMeanPooledTablesByRows) {
  PlanningProblem problem = random_problem(1);
  remove_hazards(problem);
  problem.model.modules.resize(1);
  Module& module = problem.model.modules.front();
  module.kind = ModuleKind::kEmbeddingBagCollection;
  module.tables.resize(1);
  Table& table = module.tables.front();
  table.pooling = Pooling::kMean;
  table.embedding_dim = 128;
  table.num_embeddings = 4000000;  // 2 GiB: no rank has so much
  module.tables.push_back(table);
  module.tables.back().name = "small";
  module.tables.back().num_embeddings = 4096;
  problem.model.constraints.clear();
  topology::TopologySpec spec;
  spec.world_size = 8;
  spec.local_world_size = 8;
  spec.hbm_cap = kGiB;
  spec.ddr_cap = 1;
  problem.topology = *topology::make_topology(spec, false, false);
  problem.reservation.percentage = 0;
  const BalancedResult result =
      plan(problem, BalancedOptions::minimizing(BalanceObjective::kRating));
  ASSERT_TRUE(result.planning.outcome.plan);
  EXPECT_TRUE(cuts_means_by_rows(problem, result));
  EXPECT_TRUE(judge(problem, *result.planning.outcome.plan).hazards().empty());
}

TEST(BalancedSearch, KeepsTheReferenceRatingWhereAsked) {
  int num_compared = 0;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    SCOPED_TRACE(seed);
    PlanningProblem problem = random_problem(seed);
    remove_hazards(problem);
    auto options = BalancedOptions::minimizing(BalanceObjective::kRating);
    options.bridge.objective = BalanceObjective::kTime;
    options.keeps_reference_rating = true;
    const BalancedResult result = plan(problem, options);
    if (!result.reference || !result.planning.outcome.plan) continue;
    ++num_compared;
    EXPECT_LE(result.times.rating, result.reference->rating * (1 + 1e-12));
  }
  EXPECT_GT(num_compared, 10);
}

TEST(BalancedSearch, SaysThatNoRatingIsKeptWhereTheReferenceIsCut) {
  PlanningProblem problem = random_problem(3);
  remove_hazards(problem);
  auto options = BalancedOptions::minimizing(BalanceObjective::kRating);
  options.bridge.objective = BalanceObjective::kTime;
  options.keeps_reference_rating = true;
  const auto codes = [](const BalancedResult& result) {
    std::vector<std::string> found;
    for (const Warning& warning : result.planning.outcome.warnings) found.push_back(warning.code);
    return found;
  };
  const BalancedResult whole = plan(problem, options);
  ASSERT_TRUE(whole.is_reference_whole);
  EXPECT_TRUE(whole.rating_cap);
  EXPECT_THAT(codes(whole), testing::Not(testing::Contains("no_reference_rating")));
  options.stops = {1};  // as the clock stopped an earlier run
  const BalancedResult cut = plan(problem, options);
  ASSERT_TRUE(cut.planning.outcome.plan);
  EXPECT_FALSE(cut.is_reference_whole);
  EXPECT_FALSE(cut.rating_cap);
  EXPECT_THAT(codes(cut), testing::Contains("no_reference_rating"));
  EXPECT_EQ(cut.stops.front(), 1);  // so that its own record stops there, too
}

TEST(BalancedSearch, StartsFromThePlanForAnotherBatch) {
  int num_compared = 0;
  const auto options = BalancedOptions::minimizing(BalanceObjective::kTime);
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    SCOPED_TRACE(seed);
    PlanningProblem problem = random_problem(seed);
    remove_hazards(problem);
    const BalancedResult alone = plan(problem, options);
    PlanningProblem other = problem;
    other.batch_size = 2 * problem.batch_size;
    const BalancedResult near = plan(other, options);
    if (!near.planning.outcome.plan) continue;
    auto warm = options;
    warm.near = &near.planning;
    warm.uses_reference = false;
    const BalancedResult found = plan(problem, warm);
    ASSERT_TRUE(found.planning.outcome.plan);
    const check::ShardingReport report = judge(problem, *near.planning.outcome.plan);
    if (!report.violations().empty() || !report.hazards().empty()) continue;
    ++num_compared;
    const PlanningResult& planning = found.planning;
    const BridgeInput input{&planning.enumeration.options, &planning.reservation->topology,
                            &problem.model, nullptr, planning.enumeration.profiles};
    ASSERT_EQ(near.planning.enumeration.options.options.size(), input.options->options.size());
    const PlanTimes times = plan_times(input, options.bridge.step_model, near.planning.best);
    EXPECT_LE(found.times.time, times.time * (1 + 1e-12));
    // The reference and one search, in place of three.
    EXPECT_EQ(found.stops.size(), 2U);
    EXPECT_GT(alone.stops.size(), 2U);
  }
  EXPECT_GT(num_compared, 10);
}

TEST(BalancedSearch, LeavesAPlanForOtherRanksOrTablesOut) {
  const auto options = BalancedOptions::minimizing(BalanceObjective::kTime);
  const PlanningProblem problem = random_problem(2);
  const BalancedResult alone = plan(problem, options);
  ASSERT_TRUE(alone.planning.outcome.plan);
  PlanningProblem fewer = problem;
  fewer.topology.world_size = problem.topology.local_world_size;
  fewer.topology.devices.resize(static_cast<std::size_t>(fewer.topology.world_size));
  ASSERT_LT(fewer.topology.world_size, problem.topology.world_size);
  PlanningProblem renamed = problem;
  for (Table& table : renamed.model.modules.front().tables) table.name += "_b";
  for (const PlanningProblem& other : {fewer, renamed}) {
    const BalancedResult near = plan(other, options);
    ASSERT_TRUE(near.planning.outcome.plan);
    auto warm = options;
    warm.near = &near.planning;
    const BalancedResult found = plan(problem, warm);
    EXPECT_EQ(found.stops, alone.stops);
    EXPECT_EQ(found.times.time, alone.times.time);
  }
}

// Cancelled somewhere, every search makes its plan again from where it says that it stopped.
TEST(BalancedSearch, MakesTheSamePlanAgainFromWhereItStopped) {
  int num_cut = 0;
  for (std::uint64_t seed = 0; seed < 32; ++seed) {
    SCOPED_TRACE(seed);
    const PlanningProblem problem = random_problem(seed);
    auto options = BalancedOptions::minimizing(BalanceObjective::kRating);
    options.bridge.objective = seed % 4 == 0   ? BalanceObjective::kRating
                               : seed % 4 == 1 ? BalanceObjective::kStep
                                               : BalanceObjective::kTime;
    options.keeps_reference_rating = seed % 4 == 3;
    options.max_column_blocks = seed / 4 % 2 == 0 ? 0 : 8;
    SearchOptions search;
    search.effort = 10000;
    std::atomic<bool> cancel = false;
    RunContext context;
    context.cancel = &cancel;
    int num_left = static_cast<int>(seed * 7 % 31);
    context.progress = [&](const Progress&) { cancel = cancel || num_left-- == 0; };
    const auto cut = plan_balanced(problem, options, search, context);
    ASSERT_TRUE(cut);
    num_cut += cut->planning.outcome.stop == StopReason::kCancelled;
    options.stops = cut->stops;
    const auto again = plan_balanced(problem, options, search, {});
    ASSERT_TRUE(again);
    EXPECT_EQ(again->planning.outcome.plan, cut->planning.outcome.plan);
    EXPECT_EQ(again->planning.best.ranks, cut->planning.best.ranks);
    EXPECT_EQ(again->stops, cut->stops);
  }
  EXPECT_GT(num_cut, 10);
}

RunContext out_of_time() {
  RunContext context;
  context.deadline = std::chrono::steady_clock::now() - std::chrono::hours(1);
  return context;
}

TEST(BalancedSearch, ConstructsAPlanWhereNoTimeIsLeft) {
  int num_plans = 0;
  for (std::uint64_t seed = 0; seed < 12; ++seed) {
    SCOPED_TRACE(seed);
    const PlanningProblem problem = random_problem(seed);
    auto options = BalancedOptions::minimizing(BalanceObjective::kRating);
    const auto late = plan_balanced(problem, options, {}, out_of_time());
    ASSERT_TRUE(late);
    EXPECT_EQ(late->planning.outcome.stop, StopReason::kDeadline);
    if (!late->planning.outcome.plan) continue;
    ++num_plans;
    EXPECT_TRUE(judge(problem, *late->planning.outcome.plan).violations().empty());
    options.stops = late->stops;
    const auto again = plan_balanced(problem, options, {}, {});
    ASSERT_TRUE(again);
    EXPECT_EQ(again->planning.outcome.plan, late->planning.outcome.plan);
    EXPECT_EQ(again->stops, late->stops);
  }
  EXPECT_GT(num_plans, 8);
}

// To construct one for very many options takes longer than a short limit allows.
TEST(BalancedSearch, BeginsNoConstructionOfVeryManyOptionsWhereTheLimitIsShort) {
  PlanningProblem problem;
  problem.cost_model = *find_cost_model("torchrec-ref");
  problem.batch_size = 256;
  Module module;
  module.path = "m";
  for (int t = 0; t < 4500; ++t) {
    Table table;
    table.name = "t" + std::to_string(t);
    table.num_embeddings = 4096;
    table.embedding_dim = 128;
    module.tables.push_back(table);
  }
  problem.model.modules.push_back(module);
  topology::TopologySpec spec;
  spec.world_size = 2;
  spec.local_world_size = 2;
  problem.topology = *topology::make_topology(spec, true, false);
  for (const double limit : {.5, 5.}) {
    SCOPED_TRACE(limit);
    auto options = BalancedOptions::minimizing(BalanceObjective::kRating);
    options.max_column_blocks = 8;
    RunContext context = out_of_time();
    context.time_limit_s = limit;
    const auto late = plan_balanced(problem, options, {}, context);
    ASSERT_TRUE(late);
    const bool has_begun = std::any_of(late->stops.begin(), late->stops.end(),
                                       [](std::int64_t stop) { return stop != 0; });
    EXPECT_EQ(has_begun, limit > 1);
    options.stops = late->stops;
    const auto again = plan_balanced(problem, options, {}, {});
    ASSERT_TRUE(again);
    EXPECT_EQ(again->planning.outcome.plan, late->planning.outcome.plan);
    EXPECT_EQ(again->stops, late->stops);
  }
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
      balance::BalanceOptions balance;
      balance.uses_annealing = false;
      balance.uses_dives = false;
      balance.uses_patterns = false;
      SearchOptions search;
      search.effort = 1000;
      const auto found = balance::balance(bridge->problem, balance, search, {}).outcome;
      if (!found.plan) continue;
      const PlacedProposal plan = to_proposal(*bridge, options, *found.plan);
      const PlanTimes times = plan_times(input, settings.step_model, plan);
      const double value = objective == BalanceObjective::kRating ? times.rating
                           : objective == BalanceObjective::kStep ? times.step
                                                                  : times.time;
      EXPECT_NEAR(value, found.certificate.objective, 1e-9 * value);
      const auto back = find_placements(*bridge, options, plan);
      ASSERT_TRUE(back);
      EXPECT_NEAR(evaluate(bridge->problem, *back).objective, found.certificate.objective,
                  1e-12 * value);  // sums in another order
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
  auto options = BalancedOptions::minimizing(BalanceObjective::kRating);
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

// A collection on four ranks of 4 GiB: the first table, mean-pooled, fits there only cut by rows,
// unless it has 10,000 of them.
PlanningProblem mean_pooled_problem(std::int64_t rows, std::vector<ShardingType> types_of_second) {
  PlanningProblem problem;
  problem.batch_size = 256;
  Module module;
  module.path = "ebc";
  for (const char* name : {"a", "b"}) {
    Table table;
    table.name = name;
    table.num_embeddings = name[0] == 'a' ? rows : 4096;
    table.embedding_dim = 128;
    problem.model.constraints[name].compute_kernels = {ComputeKernel::kFused};
    module.tables.push_back(table);
  }
  module.tables[0].pooling = Pooling::kMean;
  problem.model.constraints["b"].sharding_types = std::move(types_of_second);
  problem.model.modules.push_back(module);
  topology::TopologySpec spec;
  spec.world_size = 4;
  spec.local_world_size = 4;
  spec.hbm_cap = 4 * kGiB;
  problem.topology = *topology::make_topology(spec, true, false);
  return problem;
}

bool warns_of_hazards(const BalancedResult& result) {
  const auto& warnings = result.planning.outcome.warnings;
  return std::any_of(warnings.begin(), warnings.end(),
                     [](const Warning& w) { return w.code == "hazard_unavoidable"; });
}

TEST(BalancedSearch, CutsACollectionByRowsAsAWholeWhereItMust) {
  const PlanningProblem problem = mean_pooled_problem(20000000, {});
  const BalancedResult result =
      plan(problem, BalancedOptions::minimizing(BalanceObjective::kRating));
  ASSERT_TRUE(result.planning.outcome.plan);
  const check::ShardingReport report = judge(problem, *result.planning.outcome.plan);
  EXPECT_TRUE(report.violations().empty());
  EXPECT_TRUE(report.hazards().empty());
  EXPECT_FALSE(warns_of_hazards(result));
  EXPECT_EQ(result.planning.outcome.status, SolveStatus::kOptimal);
}

TEST(BalancedSearch, BoundsBothWaysOfACollection) {
  // By rows the tables are as fast as whole ones: all of one type saves a charge.
  PlanningProblem problem = mean_pooled_problem(10000, {ShardingType::kRowWise});
  problem.model.modules[0].tables.push_back(problem.model.modules[0].tables[0]);
  problem.model.modules[0].tables.back().name = "c";
  problem.model.modules[0].tables.back().pooling = Pooling::kSum;
  auto options = BalancedOptions::minimizing(BalanceObjective::kRating);
  options.bridge.objective = BalanceObjective::kTime;
  options.bridge.step_model.ms_per_sharding_type = 100;
  const BalancedResult result = plan(problem, options);
  ASSERT_TRUE(result.planning.outcome.plan);
  EXPECT_TRUE(judge(problem, *result.planning.outcome.plan).hazards().empty());
  EXPECT_LT(result.times.time, 101);  // one type
  EXPECT_EQ(result.planning.outcome.status, SolveStatus::kOptimal);
  ASSERT_TRUE(result.bound);
  const auto bounded = make_bounded_problem(problem, options);
  ASSERT_TRUE(bounded);
  EXPECT_EQ(bounded->problem.exclusive.size(), 1U);
  EXPECT_TRUE(balance::verify_bound(bounded->problem, *result.bound).holds);
}

TEST(BalancedSearch, KeepsHazardsWhereNothingElseFits) {
  const PlanningProblem problem = mean_pooled_problem(20000000, {ShardingType::kTableWise});
  auto options = BalancedOptions::minimizing(BalanceObjective::kRating);
  options.bridge.objective = BalanceObjective::kTime;
  options.keeps_reference_rating = true;
  const BalancedResult result = plan(problem, options);
  ASSERT_TRUE(result.reference);
  ASSERT_TRUE(result.planning.outcome.plan);
  EXPECT_TRUE(warns_of_hazards(result));
  EXPECT_TRUE(result.keeps_hazards);
  EXPECT_LE(result.times.time, result.reference->time * (1 + 1e-12));
  ASSERT_TRUE(result.bound);
  options.bridge.keeps_hazards = true;
  options.bridge.rating_cap = result.rating_cap;
  const auto bounded = make_bounded_problem(problem, options);
  ASSERT_TRUE(bounded);
  EXPECT_TRUE(balance::verify_bound(bounded->problem, *result.bound).holds);
}

TEST(BalancedSearch, SharesTheChargeOfColumnsOnAHost) {
  PlanningProblem problem = mean_pooled_problem(10000, {ShardingType::kTableColumnWise});
  problem.model.modules[0].tables[0].pooling = Pooling::kSum;
  auto options = BalancedOptions::minimizing(BalanceObjective::kRating);
  options.bridge.objective = BalanceObjective::kTime;
  options.bridge.step_model.ms_per_sharding_type = 100;
  const BalancedResult result = plan(problem, options);
  ASSERT_TRUE(result.planning.outcome.plan);
  EXPECT_LT(result.times.time, 101);  // one type
}

TEST(BalancedSearch, IsOptimalWhereNothingWeighs) {
  const PlanningProblem problem = mean_pooled_problem(10000, {});
  auto options = BalancedOptions::minimizing(BalanceObjective::kRating);
  options.bridge.objective = BalanceObjective::kTime;
  options.bridge.step_model = {0, 0, 0, 0, 0, 0, false};
  const BalancedResult result = plan(problem, options);
  EXPECT_EQ(result.planning.outcome.status, SolveStatus::kOptimal);
  EXPECT_EQ(result.planning.outcome.certificate.lower_bound, 0);
}

TEST(BalancedSearch, NamesTheBytesThatATableLacks) {
  PlanningProblem problem = mean_pooled_problem(20000000, {});
  problem.model.constraints["a"].sharding_types = {ShardingType::kTableWise};
  const BalancedResult result =
      plan(problem, BalancedOptions::minimizing(BalanceObjective::kRating));
  ASSERT_EQ(result.planning.outcome.status, SolveStatus::kInfeasible);
  const Explanation& explanation = result.planning.outcome.explanation;
  EXPECT_EQ(explanation.binding, "hbm");
  ASSERT_GT(explanation.missing, 0);
  for (topology::Storage& device : problem.topology.devices) {
    device.hbm += (explanation.missing * 100 + 84) / 85;  // a share is reserved
  }
  EXPECT_TRUE(
      plan(problem, BalancedOptions::minimizing(BalanceObjective::kRating)).planning.outcome.plan);
  for (topology::Storage& device : problem.topology.devices) device.hbm -= 4;
  EXPECT_FALSE(
      plan(problem, BalancedOptions::minimizing(BalanceObjective::kRating)).planning.outcome.plan);
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
  problem.model.modules[0].tables[0].embedding_dim = 256;
  const auto wider = enumerate(estimator, problem.model, options);
  ASSERT_TRUE(wider);
  blocks.clear();
  for (const Option& option : wider->options.options) {
    if (option.sharding_type == ShardingType::kColumnWise &&
        option.compute_kernel == ComputeKernel::kFused) {
      blocks.push_back(option.column_blocks);
    }
  }
  EXPECT_THAT(blocks, testing::ElementsAre(2, 1, 4, 8));  // 128, 256, 64, 32
}

}  // namespace
}  // namespace plimsoll::embedding::balanced_search
