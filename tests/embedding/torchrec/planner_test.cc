// The planner's loop: outcomes, limits, loading, callbacks, determinism, and its bound.

#include "plimsoll/embedding/planner.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <random>

#include "plimsoll/embedding/enumerator.h"

namespace plimsoll::embedding::planner {
namespace {

using topology::TopologySpec;

Table make_table(const std::string& name, std::int64_t rows, std::int64_t columns) {
  Table table;
  table.name = name;
  table.num_embeddings = rows;
  table.embedding_dim = columns;
  return table;
}

PlanningProblem make_problem(std::vector<Table> tables, int world_size, Bytes hbm,
                             std::string_view cost_model = "torchrec-ref") {
  PlanningProblem problem;
  problem.cost_model = *find_cost_model(cost_model);
  Module module;
  module.path = "sparse.ebc";
  module.tables = std::move(tables);
  problem.model.modules.push_back(module);
  TopologySpec spec;
  spec.world_size = world_size;
  spec.hbm_cap = hbm;
  problem.topology = *topology::make_topology(spec, problem.cost_model.zero_cap_is_default,
                                              problem.cost_model.ssd_tier);
  return problem;
}

PlanningResult plan(const PlanningProblem& problem, const ReferenceOptions& options = {},
                    const SearchOptions& search = {}, const RunContext& context = {}) {
  auto result = plan_like_torchrec(problem, options, search, context);
  EXPECT_TRUE(result) << (result ? "" : format_error(result.error()));
  return *std::move(result);
}

TEST(Planner, CertifiesAPlanThatMeetsTheBound) {
  // Two equal tables on two equal ranks: one each is as good as can be.
  const PlanningResult result =
      plan(make_problem({make_table("a", 4096, 64), make_table("b", 4096, 64)}, 2, 32 * kGiB));
  EXPECT_EQ(result.outcome.status, SolveStatus::kOptimal);
  ASSERT_TRUE(result.outcome.certificate.gap());
  EXPECT_LE(*result.outcome.certificate.gap(), 1e-6);
  EXPECT_GE(*result.outcome.certificate.gap(), 0);
}

TEST(Planner, ProvesThatATableFitsNowhere) {
  PlanningProblem problem = make_problem({make_table("big", 40'000'000, 1024)}, 2, 1 * kGiB);
  problem.model.constraints["big"].compute_kernels = {ComputeKernel::kFused};
  problem.model.constraints["big"].sharding_types = {ShardingType::kTableWise};
  const PlanningResult result = plan(problem);
  EXPECT_EQ(result.outcome.status, SolveStatus::kInfeasible);
  EXPECT_EQ(result.outcome.explanation.binding, "table sparse.ebc.big");
  ASSERT_TRUE(result.failure);
  EXPECT_EQ(result.failure->kind, "insufficient_storage");
  EXPECT_EQ(result.failure->place, "table sparse.ebc.big");
}

TEST(Planner, ProvesThatTotalsExceedTheRoomAndSaysByHowMuch) {
  // 8 tables of 1 GiB in HBM on 2 ranks of 3 GiB: 8 against 2 x 0.85 x 3.
  std::vector<Table> tables;
  for (int t = 0; t < 8; ++t) tables.push_back(make_table("t" + std::to_string(t), 4'194'304, 64));
  PlanningProblem problem = make_problem(tables, 2, 3 * kGiB);
  problem.reservation.kind = ReservationKind::kFixedPercentage;
  for (const Table& table : tables) {
    problem.model.constraints[table.name].compute_kernels = {ComputeKernel::kFused};
    problem.model.constraints[table.name].sharding_types = {ShardingType::kTableWise};
  }
  const PlanningResult result = plan(problem);
  EXPECT_EQ(result.outcome.status, SolveStatus::kInfeasible);
  EXPECT_EQ(result.outcome.explanation.binding, "hbm");
  Bytes needed = 0;
  for (const Option& option : result.enumeration.options.options) {
    needed += result.enumeration.options.shards(option).total_storage().hbm;
  }
  const Bytes room = 2 * static_cast<Bytes>(0.85 * static_cast<double>(3 * kGiB));
  EXPECT_EQ(result.outcome.explanation.missing, needed - room);
}

TEST(Planner, SaysLimitWhereNothingWasFoundAndNothingIsProved) {
  // Three tables of 2 units on two ranks of 3: totals fit, whole tables do not.
  std::vector<Table> tables;
  for (int t = 0; t < 3; ++t) tables.push_back(make_table("t" + std::to_string(t), 8'388'608, 64));
  PlanningProblem problem = make_problem(tables, 2, 3 * kGiB + 512 * kMiB);
  problem.reservation.percentage = 0;
  for (const Table& table : tables) {
    problem.model.constraints[table.name].compute_kernels = {ComputeKernel::kFused};
    problem.model.constraints[table.name].sharding_types = {ShardingType::kTableWise};
  }
  const PlanningResult result = plan(problem);
  EXPECT_EQ(result.outcome.status, SolveStatus::kLimit);
  EXPECT_FALSE(result.outcome.plan);
  ASSERT_TRUE(result.failure);
  EXPECT_EQ(result.failure->kind, "strict_constraints");
  EXPECT_EQ(result.best.ranks, std::vector<std::int32_t>(3, -1));
}

TEST(Planner, ProvesInfeasibleWhereReservationsAloneExceedRankZero) {
  const PlanningResult result = plan(make_problem({make_table("a", 100, 64)}, 2, 1000));
  EXPECT_EQ(result.outcome.status, SolveStatus::kInfeasible);
  ASSERT_TRUE(result.failure);
  EXPECT_EQ(result.failure->kind, "insufficient_storage");
  EXPECT_EQ(result.num_proposals, 0);
}

TEST(Planner, PlansNothingForAModelWithoutTables) {
  PlanningProblem problem = make_problem({}, 2, kGiB);
  problem.model.modules.clear();
  const PlanningResult result = plan(problem);
  EXPECT_EQ(result.outcome.status, SolveStatus::kOptimal);
  ASSERT_TRUE(result.outcome.plan);
  EXPECT_TRUE(result.outcome.plan->tables.empty());
}

TEST(Planner, StopsAtItsEffortWithTheBestPlanSoFarAndSaysWhere) {
  std::vector<Table> tables;
  for (int t = 0; t < 6; ++t) tables.push_back(make_table("t" + std::to_string(t), 100'000, 128));
  const PlanningProblem problem = make_problem(tables, 4, 32 * kGiB);
  SearchOptions limits;
  limits.effort = 3;
  const PlanningResult result = plan(problem, {}, limits);
  EXPECT_EQ(result.num_proposals, 3);
  EXPECT_EQ(result.outcome.stop, StopReason::kEffort);
  EXPECT_EQ(result.provenance.stopped_at, "proposal 3");
  EXPECT_TRUE(result.outcome.plan);
}

TEST(Planner, StopsWhenCancelledBeforeItsFirstProposal) {
  const PlanningProblem problem = make_problem({make_table("a", 100, 64)}, 2, 32 * kGiB);
  const std::atomic<bool> cancel{true};
  RunContext context;
  context.cancel = &cancel;
  const PlanningResult result = plan(problem, {}, {}, context);
  EXPECT_EQ(result.outcome.stop, StopReason::kCancelled);
  EXPECT_EQ(result.outcome.status, SolveStatus::kLimit);
  // No proposal was tried: the least storage stays at its maximum, as in the reference.
  EXPECT_EQ(result.failure->kind, "insufficient_storage");
}

TEST(Planner, ReportsEveryImprovementInOrder) {
  std::vector<Table> tables;
  for (int t = 0; t < 5; ++t) {
    tables.push_back(make_table("t" + std::to_string(t), 1'000'000 * (t + 1), 64));
  }
  std::vector<double> ratings;
  RunContext context;
  context.progress = [&](const Progress& progress) { ratings.push_back(*progress.incumbent); };
  const PlanningResult result = plan(make_problem(tables, 4, 2 * kGiB), {}, {}, context);
  ASSERT_FALSE(ratings.empty());
  EXPECT_TRUE(std::is_sorted(ratings.rbegin(), ratings.rend()));
  EXPECT_EQ(ratings.back(), result.rating);
}

TEST(Planner, LoadsAStoredPlanInsteadOfSearching) {
  const PlanningProblem problem =
      make_problem({make_table("a", 4096, 256), make_table("b", 1024, 64)}, 2, 32 * kGiB);
  const PlanningResult first = plan(problem);
  const OptionSet& options = first.enumeration.options;
  StoredPlan stored;
  stored.plan_id = "stored";
  stored.context_hash = context_hash(problem, {});
  for (std::size_t p = 0; p < first.best.options.size(); ++p) {
    LoadedOption loaded;
    const ShardRuns shards = options.shards(first.best.options[p]);
    loaded.runs.assign(shards.runs.begin(), shards.runs.end());
    loaded.column_blocks = static_cast<std::int32_t>(shards.column_blocks);
    for_each_shard(options, first.best, p,
                   [&](const ShardView& shard) { loaded.ranks.push_back(shard.rank); });
    stored.options[storage_hash(options, first.best.options[p])] = loaded;
  }
  ReferenceOptions with_loader;
  with_loader.loader = make_plan_loader(stored);
  const PlanningResult second = plan(problem, with_loader);
  EXPECT_EQ(second.num_proposals, 0);
  EXPECT_EQ(second.rating, first.rating);
  ASSERT_TRUE(second.outcome.plan);
  for (std::size_t p = 0; p < first.best.options.size(); ++p) {
    EXPECT_EQ(expand_shards(second.outcome.plan->tables[p]).size(),
              expand_shards(first.outcome.plan->tables[p]).size());
  }

  stored.context_hash = "another";
  with_loader.loader = make_plan_loader(stored);
  EXPECT_EQ(plan(problem, with_loader).failure->kind, "planner_input_context_mismatch");

  stored.context_hash.reset();
  stored.options[42] = {};
  with_loader.loader = make_plan_loader(stored);
  EXPECT_EQ(plan(problem, with_loader).failure->kind, "plan_loading_failed");
}

TEST(Planner, AppliesCallbacksToTheBestPlanInOrder) {
  const PlanningProblem problem = make_problem({make_table("a", 4096, 64)}, 2, 32 * kGiB);
  ReferenceOptions options;
  std::string calls;
  options.callbacks.push_back([&](const OptionSet&, PlacedProposal placed) {
    calls += "a";
    return placed;
  });
  options.callbacks.push_back([&](const OptionSet&, PlacedProposal placed) {
    calls += "b";
    placed.ranks.assign(placed.ranks.size(), 1);
    return placed;
  });
  const PlanningResult result = plan(problem, options);
  EXPECT_EQ(calls, "ab");
  EXPECT_EQ(result.best.ranks, std::vector<std::int32_t>(result.best.ranks.size(), 1));
}

TEST(Planner, RefusesABestPlanWithARankThatDoesNotExist) {
  PlanningProblem problem = make_problem({make_table("a", 4096, 64)}, 2, 32 * kGiB, "torchrec-1.8");
  problem.model.constraints["a"].sharding_types = {ShardingType::kTableWise};
  ReferenceOptions options;
  options.callbacks.push_back([](const OptionSet&, PlacedProposal placed) {
    placed.ranks.assign(placed.ranks.size(), 7);
    return placed;
  });
  EXPECT_EQ(plan(problem, options).failure->kind, "invalid_rank_assignment");
}

TEST(Planner, PlansAlikeTwice) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    std::vector<Table> tables;
    for (int t = 0; t < 8; ++t) {
      tables.push_back(make_table("t" + std::to_string(t),
                                  1 + static_cast<std::int64_t>(random() % 3'000'000),
                                  4 * (1 + static_cast<std::int64_t>(random() % 64))));
    }
    const PlanningProblem problem = make_problem(tables, 4, kGiB);
    const PlanningResult a = plan(problem);
    const PlanningResult b = plan(problem);
    EXPECT_EQ(a.outcome.plan, b.outcome.plan);
    EXPECT_EQ(a.num_proposals, b.num_proposals);
    EXPECT_EQ(a.context_hash, b.context_hash);
  }
}

TEST(Planner, HashesItsContextByContentAndNothingElse) {
  const PlanningProblem problem = make_problem({make_table("a", 4096, 64)}, 2, 32 * kGiB);
  const std::string hash = context_hash(problem, {});
  EXPECT_EQ(hash, context_hash(problem, {}));
  PlanningProblem changed = problem;
  changed.model.modules[0].tables[0].num_embeddings += 1;
  EXPECT_NE(hash, context_hash(changed, {}));
  changed = problem;
  changed.topology.devices[1].hbm -= 1;
  EXPECT_NE(hash, context_hash(changed, {}));
  changed = problem;
  changed.model.constraints["a"].min_partition = 32;
  EXPECT_NE(hash, context_hash(changed, {}));
  changed = problem;
  changed.topology.comms.inter_host_bw *= 1 + 1e-15;
  EXPECT_NE(hash, context_hash(changed, {}));
  ReferenceOptions other;
  other.proposers = "uniform";
  EXPECT_NE(hash, context_hash(problem, other));
}

TEST(Planner, PlansEachDeviceGroupAlone) {
  HeterogeneousProblem problem;
  problem.cost_model = *find_cost_model("torchrec-1.4");
  Module module;
  module.path = "ebc";
  module.tables = {make_table("on_gpu", 10'000, 64), make_table("on_cpu", 20'000, 64)};
  problem.model.modules.push_back(module);
  problem.model.constraints["on_gpu"].device_group = "cuda";
  problem.model.constraints["on_cpu"].device_group = "cpu";
  TopologySpec spec;
  spec.world_size = 2;
  problem.topologies.push_back({"cuda", *topology::make_topology(spec, true, false)});
  spec.compute_device = topology::ComputeDevice::kCpu;
  problem.topologies.push_back({"cpu", *topology::make_topology(spec, true, false)});
  ReferenceOptions options;
  options.partitioner = "memory_balanced";
  const auto result = plan_heterogeneous(problem, options, {}, {});
  ASSERT_TRUE(result) << format_error(result.error());
  ASSERT_FALSE(result->failure);
  ASSERT_EQ(result->groups.size(), 2U);
  EXPECT_EQ(result->groups[0].second.outcome.plan->tables[0].table, "on_gpu");
  EXPECT_EQ(result->groups[1].second.outcome.plan->tables[0].table, "on_cpu");

  problem.model.constraints.erase("on_cpu");
  EXPECT_EQ(plan_heterogeneous(problem, options, {}, {}).error().code, ErrorCode::kRuntime);
  problem.cost_model = *find_cost_model("torchrec-1.8");
  EXPECT_EQ(plan_heterogeneous(problem, options, {}, {}).error().code, ErrorCode::kUsage);
}

// Least rating of all choices of options and ranks, by plain enumeration; infinity if nothing fits.
class Exhaustive {
 public:
  Exhaustive(const OptionSet& options, const topology::Topology& room)
      : options_(options), group_(room.group_size()), room_(room.devices) {
    load_.assign(room_.size(), 0);
    choose(0);
  }
  double best = std::numeric_limits<double>::infinity();

 private:
  void choose(std::size_t table) {
    if (table == options_.tables.size()) {
      best = std::min(best, *std::max_element(load_.begin(), load_.end()));
      return;
    }
    const TableOptions& t = options_.tables[table];
    for (std::int32_t o = t.first_option; o < t.first_option + t.num_options; ++o) {
      std::vector<ShardRun> shards;
      const ShardRuns runs = options_.shards(o);
      for (std::int64_t b = 0; b < runs.column_blocks; ++b) {
        for (const ShardRun& run : runs.runs) {
          shards.insert(shards.end(), static_cast<std::size_t>(run.count), run);
        }
      }
      const Option& option = options_.options[static_cast<std::size_t>(o)];
      place(table, option.partition_by, shards, 0, 0);
    }
  }
  // `first` is the host's first rank for host options.
  void place(std::size_t table, PartitionBy by, const std::vector<ShardRun>& shards, std::size_t i,
             int first) {
    if (i == shards.size()) return choose(table + 1);
    const int world = static_cast<int>(room_.size());
    for (int r = 0; r < world; ++r) {
      if (by == PartitionBy::kUniform && r != static_cast<int>(i)) continue;
      if (by == PartitionBy::kHost && i > 0 && r / group_ != first / group_) continue;
      const auto rank = static_cast<std::size_t>(r);
      if (!shards[i].storage.fits_in(room_[rank])) continue;
      room_[rank] -= shards[i].storage;
      load_[rank] += shards[i].perf.total();
      place(table, by, shards, i + 1, r);
      room_[rank] += shards[i].storage;
      load_[rank] -= shards[i].perf.total();
    }
  }

  const OptionSet& options_;
  int group_;
  std::vector<topology::Storage> room_;
  std::vector<double> load_;
};

TEST(SimpleBound, NeverExceedsTheBestPlanAndNeverCallsAPlannableModelInfeasible) {
  int num_infeasible = 0;
  int num_plans = 0;
  for (std::uint64_t seed = 0; seed < 150; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    std::vector<Table> tables;
    const int num_tables = 1 + static_cast<int>(random() % 3);
    for (int t = 0; t < num_tables; ++t) {
      tables.push_back(make_table("t" + std::to_string(t),
                                  1 + static_cast<std::int64_t>(random() % 200'000), 64));
    }
    const Bytes hbm = (8 + static_cast<Bytes>(random() % 80)) * kMiB;
    PlanningProblem problem = make_problem(tables, 2, hbm);
    if (random() % 2 == 0) {
      for (const Table& table : tables) {
        problem.model.constraints[table.name].compute_kernels = {ComputeKernel::kFused,
                                                                 ComputeKernel::kDense};
      }
    } else {  // kernels in host memory too, of which there is little
      for (topology::Storage& device : problem.topology.devices) {
        device.ddr = static_cast<Bytes>(random() % 64) * kMiB;
      }
    }
    const PlanningResult result = plan(problem);
    if (!result.reservation) continue;
    const SimpleBound bound =
        simple_bound(result.enumeration.options, result.reservation->topology);
    const double best = Exhaustive(result.enumeration.options, result.reservation->topology).best;
    if (bound.is_infeasible) {
      ++num_infeasible;
      EXPECT_TRUE(std::isinf(best));
      continue;
    }
    EXPECT_LE(bound.lower_bound, best);
    if (result.outcome.plan) {
      ++num_plans;
      EXPECT_LE(best, result.rating * (1 + 1e-12));
    }
  }
  EXPECT_GT(num_infeasible, 5);
  EXPECT_GT(num_plans, 50);
}

TEST(SimpleBound, ScalesWithTheTimes) {
  PlanningProblem problem =
      make_problem({make_table("a", 4096, 64), make_table("b", 9999, 128)}, 2, 32 * kGiB);
  OptionSet options = plan(problem).enumeration.options;
  const double before = simple_bound(options, problem.topology).lower_bound;
  for (ShardRun& run : options.runs) {
    run.perf.fwd_compute *= 4;
    run.perf.fwd_comms *= 4;
    run.perf.bwd_compute *= 4;
    run.perf.bwd_comms *= 4;
    run.perf.prefetch_compute *= 4;
  }
  EXPECT_DOUBLE_EQ(simple_bound(options, problem.topology).lower_bound, 4 * before);
}

}  // namespace
}  // namespace plimsoll::embedding::planner
