// Plans where hazards cannot be avoided, under the rating's cap, of towers: against every plan of
// tiny models, each judged by the checker.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "embedding/every_plan.h"
#include "embedding/small_models.h"

namespace plimsoll::embedding::fewest_hazards {
namespace {

// One collection or tower, of mean-pooled tables, too, whose types are constrained at random; some
// tables have fewer rows than there are ranks, and often not everything fits everywhere.
PlanningProblem random_problem(std::uint64_t seed) {
  Random random(seed);
  PlanningProblem problem;
  problem.batch_size = 256;
  const int local = 1 + static_cast<int>(random.below(2));
  const std::int64_t num_tables = local == 1 ? 3 : 2;
  Module module;
  module.path = "m";
  const bool is_tower = local == 2 && random.below(3) == 0;
  if (is_tower) module.kind = ModuleKind::kEmbeddingTower;
  using enum ShardingType;
  for (std::int64_t t = 0; t < num_tables; ++t) {
    const std::string name(1, static_cast<char>('a' + t));
    module.tables.push_back(make_table(name,
                                       random.below(4) == 0 ? 3 : 40000 + random.below(260000),
                                       std::int64_t{64} << random.below(3),
                                       random.below(2) == 0 ? Pooling::kMean : Pooling::kSum));
    ParameterConstraints& constraints = problem.model.constraints[name];
    constraints.compute_kernels = {ComputeKernel::kFused};
    constraints.pooling_factors = {static_cast<double>(1 + random.below(20))};
    constraints.min_partition = 64;
    for (const ShardingType type :
         is_tower ? std::vector{kTableRowWise, kTableColumnWise}
                  : std::vector{kTableWise, kRowWise, kColumnWise, kTableRowWise, kGridShard}) {
      if (random.below(2) == 0) constraints.sharding_types.push_back(type);
    }
    if (constraints.sharding_types.empty()) {
      constraints.sharding_types = {is_tower ? kTableColumnWise : kTableWise};
    }
  }
  problem.model.modules.push_back(std::move(module));
  set_room(problem, 2 * local, local, (random.below(2) == 0 ? 30 + random.below(120) : 2000) * kMiB,
           1e5 * static_cast<double>(1 + random.below(100)));
  return problem;
}

// Two collections of a mean-pooled table, which may be cut by rows, and one that mostly may not, on
// two ranks that often hold them only if the former is: with one avoidable hazard or two.
PlanningProblem tight_problem(std::uint64_t seed) {
  Random random(seed);
  PlanningProblem problem;
  using enum ShardingType;
  for (const char* path : {"m", "n"}) {
    Module module;
    module.path = path;
    for (const Pooling pooling : {Pooling::kMean, Pooling::kSum}) {
      const std::string name = path + std::string(pooling == Pooling::kMean ? "a" : "b");
      const std::int64_t rows =
          pooling == Pooling::kMean ? 200000 + random.below(400000) : 20000 + random.below(80000);
      module.tables.push_back(make_table(name, rows, 128, pooling));
      ParameterConstraints& constraints = problem.model.constraints[name];
      constraints.compute_kernels = {ComputeKernel::kFused};
      constraints.pooling_factors = {static_cast<double>(1 + random.below(20))};
      constraints.sharding_types = {kTableWise};
      if (pooling == Pooling::kMean || random.below(5) == 0) {
        constraints.sharding_types.push_back(kRowWise);
      }
    }
    problem.model.modules.push_back(std::move(module));
  }
  set_room(problem, 2, 1, (150 + random.below(150)) * kMiB,
           1e5 * static_cast<double>(1 + random.below(100)));
  return problem;
}

// A tower on one of two hosts of two ranks: its columns stand on any ranks of the host, and the
// search deals them out in turn.
PlanningProblem tower_problem(std::uint64_t seed) {
  Random random(seed);
  PlanningProblem problem;
  problem.batch_size = 256;
  Module module;
  module.path = "m";
  module.kind = ModuleKind::kEmbeddingTower;
  using enum ShardingType;
  for (const char* name : {"a", "b", "c"}) {
    module.tables.push_back(make_table(name, 40000 + random.below(90000),
                                       std::int64_t{64} << random.below(2), Pooling::kSum));
    ParameterConstraints& constraints = problem.model.constraints[name];
    constraints.compute_kernels = {ComputeKernel::kFused};
    constraints.pooling_factors = {static_cast<double>(1 + random.below(20))};
    constraints.min_partition = 64;
    constraints.sharding_types = {kTableColumnWise};
    if (random.below(2) == 0) constraints.sharding_types.push_back(kTableRowWise);
  }
  problem.model.modules.push_back(std::move(module));
  set_room(problem, 4, 2, 2000 * kMiB, 1e7);
  return problem;
}

// Every hazard of the plan is announced by its table and its name.
void expect_named(const check::ShardingReport& report, const BalancedResult& result) {
  for (const check::Finding& hazard : report.hazards()) {
    const std::vector<Warning> warnings = warnings_of(result, "hazard_unavoidable");
    EXPECT_TRUE(std::any_of(warnings.begin(), warnings.end(),
                            [&hazard](const Warning& warning) {
                              return warning.place == hazard.place &&
                                     warning.message.find(to_string(hazard.code)) !=
                                         std::string::npos;
                            }))
        << hazard.place << ": " << hazard.message;
  }
}

struct Tally {
  int num_plans = 0;
  int num_best = 0;
  int num_proved = 0;
  int num_with_hazards = 0;       // unavoidable ones
  int num_proved_not_to_fit = 0;  // of them, in plans of avoidable ones
};

void compare(const PlanningProblem& problem, BalanceObjective objective, Tally& tally) {
  SCOPED_TRACE(to_string(objective));
  auto options = BalancedOptions::minimizing(BalanceObjective::kRating);
  options.bridge.objective = objective;
  const std::vector<Judged> plans = all_plans(problem);
  const BalancedResult result = plan(problem, options);
  const auto& outcome = result.planning.outcome;
  const Certificate& certificate = outcome.certificate;
  const Best best = best_of(plans, objective);
  if (plans.empty()) {
    EXPECT_FALSE(outcome.plan);
    return;
  }
  ++tally.num_plans;
  EXPECT_NE(outcome.status, SolveStatus::kInfeasible);
  EXPECT_LE(certificate.lower_bound.value_or(0), best.value * (1 + 1e-9));
  ASSERT_TRUE(outcome.plan);
  const check::ShardingReport report = judge(problem, *outcome.plan);
  EXPECT_TRUE(report.is_right());
  expect_named(report, result);
  const bool is_fewest = report.hazards().size() == best.num_hazards;
  EXPECT_GE(report.hazards().size(), best.num_hazards);
  EXPECT_TRUE(is_fewest || result.keeps_hazards);
  const double value =
      objective == BalanceObjective::kRating ? report.rating : time_of(*outcome.plan, report);
  EXPECT_NEAR(value, certificate.objective, 1e-9 * value);
  EXPECT_TRUE(!is_fewest || value >= best.value * (1 - 1e-9));
  const bool is_best = is_fewest && value <= best.value * (1 + 1e-6);
  tally.num_best += is_best ? 1 : 0;
  tally.num_with_hazards += best.num_hazards > 0 ? 1 : 0;
  if (outcome.status != SolveStatus::kOptimal) return;
  ++tally.num_proved;
  tally.num_proved_not_to_fit += result.keeps_hazards ? 1 : 0;
  EXPECT_TRUE(is_best) << value << " " << best.value;
}

TEST(FewestHazards, AreMinimisedFirstAndBoundedWithTheObjective) {
  Tally tally;
  for (std::uint64_t seed = 0; seed < 150; ++seed) {
    SCOPED_TRACE(seed);
    const PlanningProblem problem = random_problem(seed);
    compare(problem, BalanceObjective::kRating, tally);
    compare(problem, BalanceObjective::kTime, tally);
  }
  EXPECT_GT(tally.num_plans, 200);
  EXPECT_GT(tally.num_with_hazards, 30);
  EXPECT_GT(tally.num_best, tally.num_plans * 97 / 100);
  EXPECT_GT(tally.num_proved, tally.num_plans / 2);
}

TEST(FewestHazards, AreFoundWhereAvoidingAllDoesNotFit) {
  Tally tally;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(seed);
    const PlanningProblem problem = tight_problem(seed);
    compare(problem, BalanceObjective::kRating, tally);
    compare(problem, BalanceObjective::kTime, tally);
  }
  EXPECT_GT(tally.num_plans, 100);
  EXPECT_GT(tally.num_with_hazards, 15);
  EXPECT_GT(tally.num_proved_not_to_fit, 0);
  EXPECT_GT(tally.num_best, tally.num_plans * 97 / 100);
}

struct CapTally {
  int num_kept = 0;
  int num_dropped = 0;
};

void compare_cap(const PlanningProblem& problem, CapTally& tally) {
  auto options = BalancedOptions::minimizing(BalanceObjective::kRating);
  options.bridge.objective = BalanceObjective::kTime;
  options.keeps_reference_rating = true;
  const BalancedResult result = plan(problem, options);
  const auto& outcome = result.planning.outcome;
  if (!result.reference || !outcome.plan) return;
  const std::vector<Judged> plans = all_plans(problem);
  const double cap = result.reference->rating;
  const bool is_dropped = !warnings_of(result, "rating_cap_dropped").empty();
  EXPECT_EQ(is_dropped, result.times.rating > cap * (1 + 1e-9));
  EXPECT_EQ(result.rating_cap.has_value(), !is_dropped);  // the bound is of such plans
  const Best fewest = best_of(plans, BalanceObjective::kTime);
  const Best capped = best_of(plans, BalanceObjective::kTime, cap);
  const std::size_t num_hazards = judge(problem, *outcome.plan).hazards().size();
  EXPECT_GE(num_hazards, fewest.num_hazards);
  // Hazards first: the cap is kept exactly where a plan of as few hazards keeps it.
  if (num_hazards == fewest.num_hazards) {
    EXPECT_EQ(is_dropped, capped.num_hazards > fewest.num_hazards);
  }
  const Best& best = is_dropped ? fewest : capped;
  EXPECT_LE(outcome.certificate.lower_bound.value_or(0), best.value * (1 + 1e-9));
  if (outcome.status == SolveStatus::kOptimal) {
    EXPECT_LE(result.times.time, best.value * (1 + 1e-6));
    EXPECT_EQ(num_hazards, best.num_hazards);
  }
  ++(is_dropped ? tally.num_dropped : tally.num_kept);
}

TEST(RatingCap, IsKeptUnlessSaidDropped) {
  CapTally tally;
  for (std::uint64_t seed = 0; seed < 150; ++seed) {
    SCOPED_TRACE(seed);
    compare_cap(random_problem(seed), tally);
  }
  EXPECT_GT(tally.num_kept, 50);
  EXPECT_GT(tally.num_dropped, 5);
}

TEST(RatingCap, IsKeptWhereTheReferencePlanOfATowerKeepsIt) {
  CapTally tally;
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(seed);
    compare_cap(tower_problem(seed), tally);
  }
  EXPECT_GT(tally.num_kept, 50);
  EXPECT_EQ(tally.num_dropped, 0);
}

// A plan worse in every figure than a reference's plan has a reason, and names it.
TEST(WorseThanReference, IsSaidAndExplained) {
  int num_said = 0, num_legal = 0;
  for (std::uint64_t seed = 0; seed < 150; ++seed) {
    SCOPED_TRACE(seed);
    const PlanningProblem problem = random_problem(seed);
    auto options = BalancedOptions::minimizing(BalanceObjective::kRating);
    options.bridge.objective = seed % 2 == 0 ? BalanceObjective::kRating : BalanceObjective::kTime;
    const BalancedResult result = plan(problem, options);
    const auto& outcome = result.planning.outcome;
    if (!result.reference || !outcome.plan) continue;
    const PlanTimes& theirs = *result.reference;
    const std::vector<Warning> said = warnings_of(result, "worse_than_reference");
    const bool is_worse = result.times.rating > theirs.rating * (1 + 1e-9) &&
                          result.times.step > theirs.step * (1 + 1e-9) &&
                          result.times.time > theirs.time * (1 + 1e-9);
    EXPECT_EQ(said.size(), is_worse ? 1U : 0U);
    const Result<PlanningResult> reference = plan_like_torchrec(problem, {}, {}, {});
    ASSERT_TRUE(reference && reference->outcome.plan);
    const check::ShardingReport report = judge(problem, *reference->outcome.plan);
    const check::ShardingReport ours = judge(problem, *outcome.plan);
    if (report.is_right() && report.hazards().size() <= ours.hazards().size()) {
      ++num_legal;
      EXPECT_FALSE(is_worse);
      EXPECT_LE(outcome.certificate.objective,
                value_of(theirs, options.bridge.objective) * (1 + 1e-12));
    }
    if (!is_worse) continue;
    ++num_said;
    EXPECT_EQ(outcome.warnings.front().code, "worse_than_reference");
    ASSERT_FALSE(report.hazards().empty());
    EXPECT_THAT(said[0].message,
                testing::HasSubstr(std::string(to_string(report.hazards()[0].code)) + " of " +
                                   report.hazards()[0].place));
  }
  EXPECT_GT(num_said, 5);
  EXPECT_GT(num_legal, 50);
}

// Two mean-pooled tables and one that cannot be cut by rows, so that b is a hazard in any plan; a
// need not be one. On two hosts with a slow link the other tables are best whole, on a rank each.
PlanningProblem unavoidable_problem() {
  PlanningProblem problem;
  Module module;
  module.path = "m";
  using enum ShardingType;
  const std::vector<ShardingType> types[] = {{kRowWise, kTableWise}, {kRowWise}, {kTableWise}};
  for (const char* name : {"a", "b", "c"}) {
    module.tables.push_back(
        make_table(name, 1000000, 128, name[0] == 'c' ? Pooling::kSum : Pooling::kMean));
    problem.model.constraints[name].compute_kernels = {ComputeKernel::kFused};
    problem.model.constraints[name].sharding_types = types[name[0] - 'a'];
  }
  problem.model.modules.push_back(std::move(module));
  set_room(problem, 2, 1, 40 * kGiB, 1 << 20);
  return problem;
}

TEST(FewestHazards, KeepTheOtherTablesFree) {
  const PlanningProblem problem = unavoidable_problem();
  for (const auto objective : {BalanceObjective::kRating, BalanceObjective::kTime}) {
    auto options = BalancedOptions::minimizing(BalanceObjective::kRating);
    options.bridge.objective = objective;
    const BalancedResult result = plan(problem, options);
    ASSERT_TRUE(result.planning.outcome.plan);
    const check::ShardingReport report = judge(problem, *result.planning.outcome.plan);
    ASSERT_EQ(report.hazards().size(), 1U);
    EXPECT_EQ(report.hazards()[0].place, "m.b");
    const std::vector<Warning> warnings = warnings_of(result, "hazard_unavoidable");
    ASSERT_EQ(warnings.size(), 1U);
    EXPECT_EQ(warnings[0].place, "m.b");
    EXPECT_THAT(warnings[0].message, testing::HasSubstr("mean_pooling_mixed_rows"));
    EXPECT_EQ(result.planning.outcome.status, SolveStatus::kOptimal);
    EXPECT_FALSE(result.keeps_hazards);
    EXPECT_TRUE(warnings_of(result, "worse_than_reference").empty());
  }
}

// What few widths cannot avoid is not said where more widths avoid it: a's halves are too large for
// a rank, and its quarters are not.
TEST(FewestHazards, AreThoseOfEveryWidth) {
  PlanningProblem problem;
  Module module;
  module.path = "m";
  module.tables = {make_table("a", 2500000, 256, Pooling::kMean),
                   make_table("b", 1000, 64, Pooling::kSum)};
  using enum ShardingType;
  problem.model.constraints["a"].sharding_types = {kRowWise, kColumnWise};
  problem.model.constraints["b"].sharding_types = {kTableWise};
  for (auto& [name, constraints] : problem.model.constraints) {
    constraints.compute_kernels = {ComputeKernel::kFused};
  }
  problem.model.modules.push_back(std::move(module));
  set_room(problem, 4, 4, kGiB, 1e7);
  EXPECT_EQ(warnings_of(plan(problem, BalancedOptions::minimizing(BalanceObjective::kRating)),
                        "hazard_unavoidable")
                .size(),
            1U);
  auto options = BalancedOptions::minimizing(BalanceObjective::kRating);
  options.max_column_blocks = 8;
  const BalancedResult wide = plan(problem, options);
  ASSERT_TRUE(wide.planning.outcome.plan);
  EXPECT_TRUE(judge(problem, *wide.planning.outcome.plan).hazards().empty());
  EXPECT_TRUE(warnings_of(wide, "hazard_unavoidable").empty());
}

// A proposer that scales caches makes options that no list has; of every width neither.
TEST(ReferencePlan, IsTakenWhereTheOptionsLackIt) {
  PlanningProblem problem;
  Module module;
  module.path = "m";
  for (const char* name : {"a", "b"}) {
    module.tables.push_back(make_table(name, 1000000, 128, Pooling::kSum));
    ParameterConstraints& constraints = problem.model.constraints[name];
    constraints.compute_kernels = {ComputeKernel::kFusedUvmCaching};
    CacheParams& cache = constraints.cache_params.emplace();
    cache.load_factor = .1;
    cache.stats.emplace();
    cache.stats->expected_lookups = 1 << 18;
    cache.stats->cacheability = .2;
    cache.stats->constant_miss_rate = .05;
  }
  problem.model.modules.push_back(std::move(module));
  set_room(problem, 2, 2, 40 * kGiB, 1e7);
  for (const int max_column_blocks : {0, 8}) {
    auto options = BalancedOptions::minimizing(BalanceObjective::kRating);
    options.reference.proposers = "embedding_offload_scaleup";
    options.max_column_blocks = max_column_blocks;
    const BalancedResult result = plan(problem, options);
    ASSERT_TRUE(result.reference && result.planning.outcome.plan);
    const OptionSet& set = result.planning.enumeration.options;
    const TableOptions& last = set.tables.back();
    EXPECT_GE(result.planning.best.options[0], last.first_option + last.num_options);
    EXPECT_LE(result.times.rating, result.reference->rating * (1 + 1e-12));
    EXPECT_TRUE(judge(problem, *result.planning.outcome.plan).is_right());
    // What is proved of the listed options is not said of this plan.
    EXPECT_NE(result.planning.outcome.status, SolveStatus::kOptimal);
    EXPECT_FALSE(result.bound);
  }
}

// Columns of one host may stand on any of its ranks, also a single one of each of several tables
// that a rule holds together: on one host the rule asks for nothing.
TEST(PlacementRules, LeaveSingleColumnsToAnyRankOfTheHost) {
  PlanningProblem problem;
  Module module;
  module.path = "m";
  std::vector<std::string> fqns;
  for (const double pooling_factor : {30, 30, 20, 20, 20}) {
    const std::string name(1, static_cast<char>('a' + fqns.size()));
    fqns.push_back("m." + name);
    module.tables.push_back(make_table(name, 100000, 64, Pooling::kSum));
    ParameterConstraints& constraints = problem.model.constraints[name];
    constraints.compute_kernels = {ComputeKernel::kFused};
    constraints.sharding_types = {ShardingType::kTableColumnWise};
    constraints.pooling_factors = {pooling_factor};
  }
  problem.model.modules.push_back(std::move(module));
  set_room(problem, 2, 2, 40 * kGiB, 1e7);
  const BalancedResult free = plan(problem, BalancedOptions::minimizing(BalanceObjective::kRating));
  ASSERT_EQ(free.planning.outcome.status, SolveStatus::kOptimal);
  auto options = BalancedOptions::minimizing(BalanceObjective::kRating);
  options.bridge.together = {fqns};
  const BalancedResult held = plan(problem, options);
  ASSERT_TRUE(held.planning.outcome.plan);
  EXPECT_LE(held.planning.outcome.certificate.lower_bound.value_or(0),
            free.times.rating * (1 + 1e-9));
  ASSERT_TRUE(held.bound);
  EXPECT_LE(held.bound->value * (1 - 1e-9), free.times.rating);
  EXPECT_LE(held.times.rating, held.reference->rating * (1 + 1e-12));
}

// A rule that the reference's plan breaks is the reason; one that it keeps is none.
TEST(WorseThanReference, NamesTheRule) {
  PlanningProblem problem = unavoidable_problem();
  for (Table& table : problem.model.modules[0].tables) table.pooling = Pooling::kSum;
  for (auto& [name, constraints] : problem.model.constraints) {
    constraints.sharding_types = {ShardingType::kTableWise};
  }
  auto options = BalancedOptions::minimizing(BalanceObjective::kRating);
  options.bridge.allowed_ranks = {{"m.a", {0}}, {"m.b", {0}}, {"m.c", {0}}};
  const BalancedResult held = plan(problem, options);
  const std::vector<Warning> said = warnings_of(held, "worse_than_reference");
  ASSERT_EQ(said.size(), 1U);
  EXPECT_THAT(said[0].message, testing::HasSubstr("on a rank that a rule does not allow"));
  options.bridge.allowed_ranks = {{"m.a", {0, 1}}};
  EXPECT_TRUE(warnings_of(plan(problem, options), "worse_than_reference").empty());
}

}  // namespace
}  // namespace plimsoll::embedding::fewest_hazards
