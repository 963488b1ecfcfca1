// What the balanced search and its bound may use, against every plan of small models and the
// checker's word on each: what it calls right and free of hazards is a placement of the bound's
// problem; what is left out is a hazard; and the best of them is neither missed nor undercut.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <limits>

#include "balance/problem/placement_judge.h"
#include "embedding/every_plan.h"
#include "embedding/problem/option_hazards.h"
#include "plimsoll/check/sharding_check.h"
#include "plimsoll/embedding/balanced_search.h"

namespace plimsoll::embedding {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr int kMaxPlans = 2000;  // of a model

PlanningProblem empty_problem(Random& random) {
  PlanningProblem problem;
  problem.cost_model =
      cost_models()[static_cast<std::size_t>(random.below(static_cast<int>(cost_models().size())))];
  problem.reservation.percentage = 0;
  topology::TopologySpec spec;
  spec.local_world_size = 1 + random.below(3);
  spec.world_size = random.below(3) == 0 ? 2 * *spec.local_world_size : *spec.local_world_size;
  problem.topology = *topology::make_topology(spec, problem.cost_model.zero_cap_is_default,
                                              problem.cost_model.ssd_tier);
  return problem;
}

// Tables in key-value stores, most of them cut by columns, under caps that may bind.
PlanningProblem key_value_problem(std::uint64_t seed) {
  Random random(seed);
  PlanningProblem problem = empty_problem(random);
  Module module;
  module.path = "m";
  const int num_tables = 1 + random.below(3);
  for (int t = 0; t < num_tables; ++t) {
    Table table;
    table.name = "t" + std::to_string(t);
    table.num_embeddings = 60000 * (1 + random.below(20));
    table.embedding_dim = random.one_of({64, 96, 128});
    ParameterConstraints& constraints = problem.model.constraints[table.name];
    constraints.sharding_types = random.some_of<ShardingType>(
        {ShardingType::kColumnWise, ShardingType::kTableWise, ShardingType::kTableColumnWise});
    if (random.below(2) == 0) constraints.sharding_types = {ShardingType::kColumnWise};
    constraints.compute_kernels = {
        random.one_of({ComputeKernel::kKeyValue, ComputeKernel::kKeyValue,
                       ComputeKernel::kSsdVirtualTable, ComputeKernel::kFused})};
    constraints.min_partition = random.one_of({32, 64});
    constraints.pooling_factors = {static_cast<double>(1 + random.below(9))};
    module.tables.push_back(table);
  }
  problem.model.modules.push_back(module);
  const Bytes cap = random.below(3) == 0 ? kGiB / 8 * (2 + random.below(6)) : 100 * kGiB;
  for (topology::Storage& device : problem.topology.devices) device.ssd = device.hbm = cap;
  return problem;
}

// Tables of every module and kernel that hazards tell apart.
PlanningProblem hazardous_problem(std::uint64_t seed) {
  Random random(seed + 1000);
  PlanningProblem problem = empty_problem(random);
  problem.model.optimizer = random.one_of({Optimizer::kNone, Optimizer::kSgd, Optimizer::kAdam});
  if (random.below(3) == 0) problem.topology.has_custom_hbm = true;
  Module module;
  module.path = "m";
  module.kind = random.one_of(
      {ModuleKind::kEmbeddingBagCollection, ModuleKind::kEmbeddingBagCollection,
       ModuleKind::kEmbeddingBagCollection, ModuleKind::kEmbeddingCollection,
       ModuleKind::kManagedCollisionEmbeddingBagCollection, ModuleKind::kEmbeddingTower});
  const int num_tables = 1 + random.below(2);
  for (int t = 0; t < num_tables; ++t) {
    Table table;
    table.name = "t" + std::to_string(t);
    table.num_embeddings = random.one_of({1, 5, 12, 60, 61, 1000, 1200});
    table.embedding_dim =
        module.kind == ModuleKind::kEmbeddingCollection ? 64 : random.one_of({62, 64, 96});
    if (random.below(3) == 0) table.pooling = Pooling::kMean;
    if (random.below(3) == 0) {
      table.use_virtual_table = true;
      table.total_num_buckets = random.one_of({4, 6, 12});
    }
    ParameterConstraints& constraints = problem.model.constraints[table.name];
    constraints.sharding_types = random.some_of<ShardingType>(
        {ShardingType::kColumnWise, ShardingType::kTableWise, ShardingType::kTableColumnWise,
         ShardingType::kRowWise, ShardingType::kTableRowWise, ShardingType::kGridShard,
         ShardingType::kDataParallel});
    constraints.compute_kernels = random.some_of<ComputeKernel>(
        {ComputeKernel::kFused, ComputeKernel::kFusedUvmCaching, ComputeKernel::kKeyValue,
         ComputeKernel::kDramVirtualTable, ComputeKernel::kDense});
    constraints.min_partition = 32;
    module.tables.push_back(table);
  }
  problem.model.modules.push_back(module);
  return problem;
}

struct Space {
  Estimator estimator;
  PlanningResult prepared;

  const OptionSet& options() const { return prepared.enumeration.options; }
  BridgeInput input(const PlanningProblem& problem) const {
    return {&options(), &prepared.reservation->topology, &problem.model, &estimator,
            prepared.enumeration.profiles};
  }
};

std::optional<Space> space_of(const PlanningProblem& problem) {
  auto prepared = prepare_like_torchrec(problem, {}, {});
  if (!prepared || !prepared->reservation || prepared->enumeration.options.tables.empty()) {
    return std::nullopt;
  }
  return Space{Estimator(problem.cost_model, problem.topology, problem.mode), *std::move(prepared)};
}

using Visit = std::function<void(const PlacedProposal&, const check::ShardingReport&)>;

// False, and nothing visited, where there are too many.
bool for_each_plan(const PlanningProblem& problem, const OptionSet& set, const Visit& visit) {
  std::vector<PlacedProposal> plans(1);
  plans[0].first_rank.push_back(0);
  for (const TableOptions& table : set.tables) {
    std::vector<PlacedProposal> longer;
    for (std::int32_t o = table.first_option; o < table.first_option + table.num_options; ++o) {
      for (const auto& ranks :
           placements_of(set, set.options[static_cast<std::size_t>(o)], HostColumns::kOnOneHost)) {
        for (const PlacedProposal& plan : plans) {
          PlacedProposal& more = longer.emplace_back(plan);
          more.options.push_back(o);
          more.ranks.insert(more.ranks.end(), ranks.begin(), ranks.end());
          more.first_rank.push_back(static_cast<std::int64_t>(more.ranks.size()));
        }
        if (longer.size() > kMaxPlans) return false;
      }
    }
    plans = std::move(longer);
  }
  check::CheckOptions options;
  options.reservation = problem.reservation;
  for (const PlacedProposal& plan : plans) {
    const ShardingPlan made =
        make_sharding_plan(set, plan, problem.model, problem.topology, problem.enumeration);
    const auto report = check::check_sharding(problem.model, made, problem.topology,
                                              problem.cost_model, problem.mode, options);
    if (!report) ADD_FAILURE() << format_error(report.error());
    if (!report) return true;
    visit(plan, *report);
  }
  return true;
}

bool has(const check::ShardingReport& report, check::FindingCode code) {
  return std::any_of(report.findings.begin(), report.findings.end(),
                     [code](const check::Finding& violation) { return violation.code == code; });
}

// A width that the runtime refuses is a violation where the plan has chosen it.
bool holds_hazard(const check::ShardingReport& report) {
  return !report.hazards().empty() || has(report, check::FindingCode::kWidthNotDivisible);
}

TEST(PlanSpace, LeavesOutWhatTheCheckerCallsAHazardAndNothingElse) {
  int num_hazards = 0, num_clean = 0;
  for (std::uint64_t seed = 0; seed < 400; ++seed) {
    SCOPED_TRACE(seed);
    const PlanningProblem problem =
        seed % 4 == 0 ? key_value_problem(seed) : hazardous_problem(seed);
    const auto space = space_of(problem);
    if (!space) continue;
    for_each_plan(problem, space->options(),
                  [&](const PlacedProposal& plan, const check::ShardingReport& report) {
                    const bool is_hazard = holds_hazard(report);
                    EXPECT_EQ(find_plan_hazards(space->options(), problem.topology, problem.model,
                                                plan.options)
                                  .empty(),
                              !is_hazard);
                    (is_hazard ? num_hazards : num_clean) += 1;
                  });
    if (HasFailure()) return;
  }
  EXPECT_GT(num_hazards, 1000);
  EXPECT_GT(num_clean, 1000);
}

// Rows over the only host there is: left out beside rows over all ranks that cost no more.
bool takes_host_rows(const OptionSet& set, const PlacedProposal& plan) {
  return set.group_size == set.world_size &&
         std::any_of(plan.options.begin(), plan.options.end(), [&set](std::int32_t o) {
           return set.options[static_cast<std::size_t>(o)].partition_by != PartitionBy::kUniform &&
                  is_row_cut(set.options[static_cast<std::size_t>(o)].sharding_type);
         });
}

TEST(PlanSpace, HoldsEveryRightPlanWithoutHazards) {
  int num_plans = 0, num_apart = 0;
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(seed);
    const PlanningProblem problem =
        seed % 2 == 0 ? key_value_problem(seed) : hazardous_problem(seed);
    const auto space = space_of(problem);
    if (!space) continue;
    const auto bridge = make_bounded_bridge(space->input(problem), {});
    if (!bridge) continue;
    for_each_plan(problem, space->options(),
                  [&](const PlacedProposal& plan, const check::ShardingReport& report) {
                    if (!report.is_right() || holds_hazard(report)) return;
                    ++num_plans;
                    const auto placements = find_placements(*bridge, space->options(), plan);
                    if (!placements && takes_host_rows(space->options(), plan)) return;
                    ASSERT_TRUE(placements);
                    const balance::PlacementValue value =
                        balance::evaluate(bridge->problem, *placements);
                    EXPECT_THAT(value.faults, testing::IsEmpty());
                    EXPECT_LE(value.objective, report.rating * (1 + 1e-9));
                    for (const std::int32_t o : plan.options) {
                      num_apart += space->options().wants_distinct_ranks(
                          space->options().options[static_cast<std::size_t>(o)]);
                    }
                  });
    if (HasFailure()) return;
  }
  EXPECT_GT(num_plans, 3000);
  EXPECT_GT(num_apart, 300);
}

struct Best {
  double rating = kInfinity;  // of the right plans without hazards
  int num_sharing = 0;        // plans whose only fault is that columns share a rank
};

Best best_of(const PlanningProblem& problem, const OptionSet& options) {
  Best best;
  const bool is_all = for_each_plan(
      problem, options, [&](const PlacedProposal&, const check::ShardingReport& report) {
        const bool is_clean = !holds_hazard(report);
        if (is_clean && report.is_right()) best.rating = std::min(best.rating, report.rating);
        best.num_sharing += is_clean && report.violations().size() == 1 &&
                            has(report, check::FindingCode::kColumnsShareRank);
      });
  if (!is_all) best.rating = -1;
  return best;
}

// Column-cut tables in key-value stores, in every release: the best plan that the checker accepts
// is found, mostly proved, and never undercut by a bound.
TEST(PlanSpace, SearchesKeyValueColumns) {
  int num_feasible = 0, num_best = 0, num_optimal = 0, num_refused = 0, num_sharing = 0;
  for (std::uint64_t seed = 0; seed < 250; ++seed) {
    SCOPED_TRACE(seed);
    const PlanningProblem problem = key_value_problem(seed);
    const auto space = space_of(problem);
    if (!space) continue;
    const Best best = best_of(problem, space->options());
    if (best.rating < 0) continue;
    num_sharing += best.num_sharing > 0;
    auto options = BalancedOptions::minimizing(BalanceObjective::kRating);
    SearchOptions search;
    search.effort = 20000;
    const auto found = plan_balanced(problem, options, search, {});
    ASSERT_TRUE(found) << format_error(found.error());
    const Outcome<ShardingPlan>& outcome = found->planning.outcome;
    EXPECT_THAT(outcome.warnings, testing::IsEmpty());
    EXPECT_LE(outcome.certificate.lower_bound.value_or(0), best.rating * (1 + 1e-9));
    num_feasible += best.rating < kInfinity;
    num_refused += outcome.status == SolveStatus::kInfeasible;
    if (best.rating == kInfinity) {
      EXPECT_FALSE(outcome.plan);
      continue;
    }
    ASSERT_NE(outcome.status, SolveStatus::kInfeasible);
    if (!outcome.plan) continue;
    check::CheckOptions judging;
    judging.reservation = problem.reservation;
    const auto report = check::check_sharding(problem.model, *outcome.plan, problem.topology,
                                              problem.cost_model, problem.mode, judging);
    ASSERT_TRUE(report);
    EXPECT_THAT(report->violations(), testing::IsEmpty());
    EXPECT_THAT(report->hazards(), testing::IsEmpty());
    EXPECT_NEAR(report->rating, outcome.certificate.objective, 1e-9 * report->rating);
    EXPECT_GE(report->rating, best.rating * (1 - 1e-9));
    const bool is_best = report->rating <= best.rating * (1 + 1e-6);
    const bool is_optimal = outcome.status == SolveStatus::kOptimal;
    EXPECT_TRUE(is_best || !is_optimal);
    num_best += is_best;
    num_optimal += is_optimal;
  }
  EXPECT_GT(num_feasible, 100);
  EXPECT_EQ(num_best, num_feasible);
  EXPECT_GE(num_optimal * 100, num_feasible * 95);
  EXPECT_GT(num_refused, 10);
  EXPECT_GT(num_sharing, 30);
}

PlanningProblem one_table(int num_ranks, std::vector<ShardingType> types,
                          ComputeKernel kernel = ComputeKernel::kKeyValue) {
  PlanningProblem problem;
  topology::TopologySpec spec;
  spec.world_size = num_ranks;
  spec.local_world_size = num_ranks;
  problem.topology = *topology::make_topology(spec, false, true);
  Table table;
  table.name = "a";
  table.num_embeddings = 1000000;
  table.embedding_dim = 128;
  ParameterConstraints& constraints = problem.model.constraints["a"];
  constraints.sharding_types = std::move(types);
  constraints.compute_kernels = {kernel};
  constraints.min_partition = 64;
  problem.model.modules.push_back({});
  problem.model.modules[0].path = "m";
  problem.model.modules[0].tables.push_back(table);
  return problem;
}

Outcome<ShardingPlan> outcome_of(const PlanningProblem& problem) {
  const auto found =
      plan_balanced(problem, BalancedOptions::minimizing(BalanceObjective::kRating), {}, {});
  EXPECT_TRUE(found);
  return found->planning.outcome;
}

TEST(PlanSpace, RefusesMoreKeyValueColumnsThanRanks) {
  const Outcome<ShardingPlan> refused = outcome_of(one_table(1, {ShardingType::kColumnWise}));
  EXPECT_EQ(refused.status, SolveStatus::kInfeasible);
  EXPECT_THAT(refused.explanation.lines,
              testing::Contains(testing::AllOf(testing::HasSubstr("2 pieces need a rank each"),
                                               testing::HasSubstr("columns_share_rank"))));
  const auto type = [](const PlanningProblem& problem) {
    const Outcome<ShardingPlan> outcome = outcome_of(problem);
    EXPECT_EQ(outcome.status, SolveStatus::kOptimal);
    return outcome.plan->tables[0].sharding_type;
  };
  EXPECT_EQ(type(one_table(1, {ShardingType::kColumnWise, ShardingType::kTableWise})),
            ShardingType::kTableWise);
  EXPECT_EQ(type(one_table(2, {ShardingType::kColumnWise, ShardingType::kTableWise})),
            ShardingType::kColumnWise);
  // Neither columns of a host nor virtual tables, nor any in older releases, want ranks each.
  EXPECT_EQ(type(one_table(1, {ShardingType::kTableColumnWise})), ShardingType::kTableColumnWise);
  EXPECT_EQ(type(one_table(1, {ShardingType::kColumnWise}, ComputeKernel::kSsdVirtualTable)),
            ShardingType::kColumnWise);
  PlanningProblem older = one_table(1, {ShardingType::kColumnWise});
  older.cost_model = *find_cost_model("torchrec-1.4");
  EXPECT_EQ(type(older), ShardingType::kColumnWise);
}

// Caps that are given by hand are a hazard where they make uneven cuts, not where they are equal.
TEST(PlanSpace, TakesBucketsThatAreCutAsTheRuntimeCutsThem) {
  PlanningProblem problem = one_table(2, {ShardingType::kRowWise}, ComputeKernel::kFused);
  Table& table = problem.model.modules[0].tables[0];
  table.use_virtual_table = true;
  table.total_num_buckets = 1000;
  problem.topology.has_custom_hbm = true;
  EXPECT_THAT(outcome_of(problem).warnings, testing::IsEmpty());
  problem.topology.devices[0].hbm *= 2;
  EXPECT_THAT(outcome_of(problem).warnings,
              testing::Contains(testing::Field(&Warning::code, "hazard_unavoidable")));
}

// The bound of a table in one piece is not above what two pieces take.
TEST(PlanSpace, IsNoWorseThanTheReferenceOnKeyValueColumns) {
  const PlanningProblem problem =
      one_table(2, {ShardingType::kColumnWise, ShardingType::kTableWise});
  const auto found =
      plan_balanced(problem, BalancedOptions::minimizing(BalanceObjective::kRating), {}, {});
  ASSERT_TRUE(found);
  ASSERT_TRUE(found->reference);
  EXPECT_EQ(found->planning.outcome.status, SolveStatus::kOptimal);
  EXPECT_LE(found->times.rating, found->reference->rating * (1 + 1e-12));
}

}  // namespace
}  // namespace plimsoll::embedding
