// Whole planning runs: what the reference's own unit tests assert, and what executing it prints
// (pytorch/torchrec a48cef79 and the released packages torchrec 1.4.0, 1.8.0 and 1.9.2, which agree
// on every one of these).

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "embedding/option_set_builder.h"
#include "embedding/vectors.h"
#include "plimsoll/embedding/planner.h"
#include "plimsoll/embedding/reservation.h"

namespace plimsoll::embedding::planner_vectors {
namespace {

using Ranks = std::vector<int>;

constexpr auto kDP = ShardingType::kDataParallel;
constexpr auto kTW = ShardingType::kTableWise;
constexpr auto kCW = ShardingType::kColumnWise;
constexpr auto kRW = ShardingType::kRowWise;
constexpr auto kTWRW = ShardingType::kTableRowWise;
constexpr auto kGrid = ShardingType::kGridShard;

struct TableSpec {
  std::string name;
  std::int64_t rows, columns;
  std::vector<double> pooling_factors;
};

Model model_of(const std::vector<TableSpec>& tables, const std::string& path = "") {
  Model model;
  model.modules.emplace_back().path = path;
  for (const TableSpec& spec : tables) {
    Table& table = model.modules[0].tables.emplace_back();
    table.name = spec.name;
    table.num_embeddings = spec.rows;
    table.embedding_dim = spec.columns;
    model.constraints[spec.name].pooling_factors = spec.pooling_factors;
  }
  return model;
}

struct Case {
  TopologySpec spec;
  Model model;
  std::int64_t batch_size = 512;
  ReservationOptions reservation = {};
  ReferenceOptions options = {};
};

// Where one table ought to be.
struct Placement {
  std::string table;
  ShardingType type;
  Ranks ranks;
};

struct Planned {
  PlanningResult result;

  const TableSharding* find(const std::string& table) const {
    if (!result.outcome.plan) return nullptr;
    for (const TableSharding& sharding : result.outcome.plan->tables) {
      if (sharding.table == table) return &sharding;
    }
    return nullptr;
  }
  Ranks ranks(const std::string& table) const {
    Ranks ranks;
    if (const TableSharding* sharding = find(table)) {
      for (const PlacedShard& shard : expand_shards(*sharding)) ranks.push_back(shard.rank);
    }
    return ranks;
  }
  Bytes max_hbm() const {
    Bytes largest = 0;
    for (const Storage& used : rank_storage(result.enumeration.options, result.best)) {
      largest = std::max(largest, used.hbm);
    }
    return largest;
  }
  void expect(const std::vector<Placement>& placements) const {
    for (const Placement& placement : placements) {
      SCOPED_TRACE(placement.table);
      const TableSharding* sharding = find(placement.table);
      ASSERT_NE(sharding, nullptr);
      EXPECT_EQ(to_string(sharding->sharding_type), to_string(placement.type));
      EXPECT_EQ(ranks(placement.table), placement.ranks);
    }
  }
};

Planned plan(const Case& setup, std::string_view release = "torchrec-ref") {
  PlanningProblem problem;
  problem.cost_model = cost_model_named(release);
  problem.topology = build(setup.spec, problem.cost_model);
  problem.model = setup.model;
  problem.batch_size = setup.batch_size;
  problem.reservation = setup.reservation;
  auto result = plan_like_torchrec(problem, setup.options, {}, {});
  EXPECT_TRUE(result.has_value()) << (result ? "" : format_error(result.error()));
  return result ? Planned{*std::move(result)} : Planned{};
}

// What a run ought to give; absent numbers are not looked at.
struct Expected {
  double rating;
  std::optional<Bytes> max_hbm;
  std::optional<std::int64_t> num_proposals, num_plans;
  std::vector<Placement> placements = {};
};

// Every release gives the same plan.
void expect_plan(const char* name, const Case& setup, const Expected& expected) {
  for (const std::string_view release : kReleases) {
    SCOPED_TRACE(std::string(name) + " " + std::string(release));
    const Planned run = plan(setup, release);
    EXPECT_EQ(run.result.rating, expected.rating);
    if (expected.max_hbm) {
      EXPECT_EQ(run.max_hbm(), *expected.max_hbm);
    }
    if (expected.num_proposals) {
      EXPECT_EQ(run.result.num_proposals, *expected.num_proposals);
    }
    if (expected.num_plans) {
      EXPECT_EQ(run.result.num_plans, *expected.num_plans);
    }
    run.expect(expected.placements);
  }
}

ReferenceOptions with(std::string proposers, std::string partitioner = "greedy_perf") {
  ReferenceOptions options;
  options.proposers = std::move(proposers);
  options.partitioner = std::move(partitioner);
  return options;
}

Ranks range(int first, int last) {
  Ranks ranks;
  for (int rank = first; rank <= last; ++rank) ranks.push_back(rank);
  return ranks;
}

TopologySpec capped(TopologySpec spec, Bytes hbm_cap) {
  spec.hbm_cap = hbm_cap;
  return spec;
}

// ---------------------------------------------------------------------------------------------

// The reference's planner test: a dense part around tables of 100 x 64 on two ranks of 2 MiB.
Model sparse_model(const std::vector<TableSpec>& tables, std::vector<ShardingType> types) {
  Model model = model_of(tables, "sparse.ebc");
  std::int64_t width = 0;
  for (const TableSpec& table : tables) {
    width += table.columns;
    model.constraints[table.name].sharding_types = types;
    model.constraints[table.name].compute_kernels = {ComputeKernel::kFused};
  }
  const std::int64_t parameters = (10 * 8 + 8) + 2 + ((8 + width) * 16 + 16) + (16 * 16 + 16);
  model.dense_parameter_bytes = 4 * parameters;
  model.dense_buffer_bytes = 4 * 2;
  return model;
}

std::vector<TableSpec> hundreds(int count) {
  std::vector<TableSpec> tables;
  for (int i = 0; i < count; ++i) tables.push_back({"table_" + std::to_string(i), 100, 64, {}});
  return tables;
}

TEST(PlannerVectors, ReservesForTheDensePart) {
  const CostModel cost_model = cost_model_named("torchrec-ref");
  const Topology topology = build(capped(cluster(2, 2), 2 * kMiB), cost_model);
  const auto reservation =
      reserve(cost_model, {}, topology, sparse_model(hundreds(4), {kRW, kTW}), 512);
  ASSERT_TRUE(reservation.has_value());
  EXPECT_EQ(reservation->dense, (Storage{110456, 0, 0}));
  EXPECT_EQ(reservation->kjt, (Storage{327680, 0, 0}));
  EXPECT_EQ(reservation->topology.devices[0].hbm, 1782579 - 110456 - 327680);

  ReservationOptions estimated;
  estimated.dense_tensor_estimate = 1000000;
  const auto estimate =
      reserve(cost_model, estimated, topology, sparse_model(hundreds(4), {kRW, kTW}), 512);
  ASSERT_TRUE(estimate.has_value());
  EXPECT_EQ(estimate->dense, (Storage{1000000, 0, 0}));
}

TEST(PlannerVectors, PlansTheModelsOfTheReferencesTests) {
  Case setup{capped(cluster(2, 2), 2 * kMiB), sparse_model(hundreds(4), {kRW, kTW})};
  expect_plan("four tables", setup,
              {0.005442301432291666,
               {},
               16,
               16,
               {{"table_0", kTW, {0}},
                {"table_1", kTW, {1}},
                {"table_2", kTW, {0}},
                {"table_3", kTW, {1}}}});

  setup.model = sparse_model(hundreds(3), {kRW, kTW});
  expect_plan("three tables", setup,
              {0.005440685395545917,
               {},
               8,
               8,
               {{"table_0", kRW, {0, 1}}, {"table_1", kTW, {0}}, {"table_2", kTW, {1}}}});

  setup.model = sparse_model({{"table_0", 4096, 128, {}}}, {kRW, kTW});
  expect_plan("one large table", setup,
              {0.005426311173965301, {}, 2, 1, {{"table_0", kRW, {0, 1}}}});
}

TEST(PlannerVectors, FailsOnTheModelsOfTheReferencesTests) {
  for (const std::string_view release : kReleases) {
    SCOPED_TRACE(release);
    Case setup{capped(cluster(2, 2), 2 * kMiB), sparse_model({{"table_0", 4096, 128, {}}}, {kTW})};
    Planned run = plan(setup, release);
    EXPECT_EQ(run.result.num_proposals, 1);
    EXPECT_EQ(run.result.num_plans, 0);
    EXPECT_FALSE(run.result.outcome.plan.has_value());
    ASSERT_TRUE(run.result.failure.has_value());
    EXPECT_EQ(run.result.failure->kind, "strict_constraints");

    setup.model = sparse_model(
        {{"table_0", 10000000, 10000000, {}}, {"table_1", 10000000, 10000000, {}}}, {kRW, kTW});
    run = plan(setup, release);
    EXPECT_EQ(run.result.num_proposals, 0);
    ASSERT_TRUE(run.result.failure.has_value());
    EXPECT_EQ(run.result.failure->code, ErrorCode::kPlanner);
    EXPECT_EQ(run.result.failure->kind, "insufficient_storage");
  }
}

TEST(PlannerVectors, ScalesCachesUp) {
  Case setup{capped(cluster(2, 2), 2 * kMiB), sparse_model(hundreds(4), {})};
  for (auto& [name, constraints] : setup.model.constraints) {
    constraints.compute_kernels.clear();
    constraints.sharding_types = {kRW, kTW};
    constraints.cache_params.emplace();
    constraints.cache_params->algorithm = CacheAlgorithm::kLru;
  }
  setup.options = with("embedding_offload_scaleup");
  const Planned run = plan(setup);
  EXPECT_EQ(run.result.rating, 0.33680489392784546);
  EXPECT_EQ(run.result.num_proposals, 1);
  EXPECT_EQ(run.result.num_plans, 1);
  for (int i = 0; i < 4; ++i) {
    const TableSharding* sharding = run.find("table_" + std::to_string(i));
    ASSERT_NE(sharding, nullptr);
    EXPECT_EQ(sharding->sharding_type, kRW);
    EXPECT_EQ(sharding->compute_kernel, ComputeKernel::kFusedUvmCaching);
  }
}

// Two virtual tables and two cached ones in a sequence collection.
TEST(PlannerVectors, PlansVirtualTables) {
  const auto hbm_and_ddr =
      [](std::int64_t rows, std::int64_t buckets, std::optional<std::int64_t> l1_megabytes,
         std::optional<double> load_factor, std::string_view release, Storage& cached) {
        Case setup;
        setup.spec = capped(cluster(2, 2), 2 * kGiB);
        setup.spec.ddr_cap = 256 * kGiB;
        setup.model = model_of({{"table_0", rows, 64, {}},
                                {"table_1", rows, 64, {}},
                                {"table_2", 100000, 64, {}},
                                {"table_3", 100000, 64, {}}},
                               "sparse.ec");
        Module& module = setup.model.modules[0];
        module.kind = ModuleKind::kEmbeddingCollection;
        module.sharder.cache_load_factor = load_factor;
        for (std::size_t i = 0; i < 4; ++i) {
          ParameterConstraints& constraints = setup.model.constraints[module.tables[i].name];
          constraints.sharding_types = {kRW};
          if (i < 2) {
            module.tables[i].use_virtual_table = true;
            module.tables[i].total_num_buckets = buckets;
            constraints.compute_kernels = {ComputeKernel::kDramVirtualTable};
            if (l1_megabytes) {
              constraints.key_value_params.emplace();
              constraints.key_value_params->max_l1_cache_size = l1_megabytes;
            }
          } else {
            constraints.cache_params.emplace();
            constraints.cache_params->algorithm = CacheAlgorithm::kLru;
          }
        }
        setup.options = with("embedding_offload_scaleup");
        const Planned run = plan(setup, release);
        const TableSharding* first = run.find("table_0");
        EXPECT_NE(first, nullptr);
        if (first == nullptr) return Storage{};
        EXPECT_EQ(first->shards.front().rows, rows / 2);
        EXPECT_EQ(run.find("table_2")->shards.front().rows, 50000);
        Storage virtual_table;
        for (const std::int32_t option : run.result.best.options) {
          const OptionSet& options = run.result.enumeration.options;
          const Option& chosen = options.options[static_cast<std::size_t>(option)];
          const Storage storage = options.shards(chosen).runs.front().storage;
          (is_key_value(chosen.compute_kernel) ? virtual_table : cached) = storage;
        }
        return virtual_table;
      };
  for (const std::string_view release : {"torchrec-ref", "torchrec-1.8", "torchrec-1.9"}) {
    SCOPED_TRACE(release);
    const std::int64_t huge = 1125899902955520, buckets = 3991680;
    Storage cached;
    EXPECT_EQ(hbm_and_ddr(huge, buckets, {}, {}, release, cached), (Storage{135168, 0, 0}));
    EXPECT_EQ(cached, (Storage{3055168, 12800000, 0}));
    EXPECT_EQ(hbm_and_ddr(huge, buckets, 128, {}, release, cached), (Storage{134352896, 0, 0}));
    EXPECT_EQ(hbm_and_ddr(10000, 10, 128, {}, release, cached), (Storage{647168, 0, 0}));
    EXPECT_EQ(hbm_and_ddr(10000, 10, 128, 0.5, release, cached), (Storage{1415168, 0, 0}));
    EXPECT_EQ(cached.hbm, 7135168);
  }
}

// ---------------------------------------------------------------------------------------------

TEST(PlannerVectors, PlansTheTutorial) {
  const auto constrained = [](ShardingType type) {
    Case setup{cluster(2, 2), model_of({{"large_table_0", 4096, 64, {}},
                                        {"large_table_1", 4096, 64, {}},
                                        {"small_table_0", 1024, 64, {}},
                                        {"small_table_1", 1024, 64, {}}})};
    for (auto& [name, constraints] : setup.model.constraints) constraints.sharding_types = {type};
    return setup;
  };
  const auto all = [](ShardingType type, const std::vector<Ranks>& ranks) {
    return std::vector<Placement>{{"large_table_0", type, ranks[0]},
                                  {"large_table_1", type, ranks[1]},
                                  {"small_table_0", type, ranks[2]},
                                  {"small_table_1", type, ranks[3]}};
  };
  const Ranks both = {0, 1};
  expect_plan("table wise", constrained(kTW),
              {0.005442301432291666, {}, 81, 81, all(kTW, {{0}, {1}, {0}, {1}})});
  expect_plan("row wise", constrained(kRW),
              {0.010878138717600336, {}, {}, {}, all(kRW, {both, both, both, both})});
  expect_plan("column wise", constrained(kCW),
              {0.005442301432291666, {}, {}, {}, all(kCW, {{0}, {1}, {0}, {1}})});
  expect_plan("data parallel", constrained(kDP),
              {0.15447950416318282, {}, 1, {}, all(kDP, {both, both, both, both})});
}

TEST(PlannerVectors, PlansTheIntroduction) {
  Case setup{cluster(1, 1), model_of({{"small_table", 10000000, 64, {}}})};
  expect_plan("one rank", setup,
              {0.0013605753580729165, 2560135168, 16, 16, {{"small_table", kTW, {0}}}});
  setup.spec = cluster(2, 2);
  expect_plan("two ranks", setup,
              {0.002719534679400084, 1280266240, {}, {}, {{"small_table", kRW, {0, 1}}}});
  setup.model = model_of({{"small_table", 10000000, 64, {200}}});
  expect_plan("many ids", setup,
              {0.08650253448996656, 1281081344, {}, {}, {{"small_table", kRW, {0, 1}}}});
  setup.model = model_of({{"huge_table", 50000000, 1024, {}}});
  expect_plan(
      "huge table", setup,
      {0.5826227451727642, 21922129920, 16, 8, {{"huge_table", kCW, {0, 1, 0, 1, 0, 1, 0, 1}}}});
  const Planned run = plan(setup);
  EXPECT_EQ(run.find("huge_table")->compute_kernel, ComputeKernel::kFusedUvmCaching);
  EXPECT_EQ(rank_storage(run.result.enumeration.options, run.result.best)[0].ddr, 4 * 25600000000);
}

const std::vector<TableSpec>& eight_tables() {
  static const std::vector<TableSpec> kTables = {
      {"t0", 5000000, 64, {30}}, {"t1", 2000000, 128, {1}}, {"t2", 1000000, 256, {12}},
      {"t3", 300000, 32, {5}},   {"t4", 50000, 512, {80}},  {"t5", 10000, 16, {2}},
      {"t6", 100, 8, {1}},       {"t7", 20000000, 96, {20}}};
  return kTables;
}

TEST(PlannerVectors, PlansEightTablesWithRoom) {
  Case setup{capped(cluster(4, 4), 16 * kGiB), model_of(eight_tables()), 1024};
  const std::vector<Placement> columns = {
      {"t0", kCW, {1}},          {"t1", kCW, {2}}, {"t2", kCW, {2, 3}}, {"t3", kCW, {3}},
      {"t4", kCW, {3, 2, 1, 0}}, {"t5", kCW, {3}}, {"t6", kCW, {2}},    {"t7", kCW, {0}}};
  expect_plan("default", setup, {0.6693277178267837, 7712546816, 248, 248, columns});
  setup.options = with("uniform");
  expect_plan("uniform", setup, {0.6693277178267837, 7712546816, 6, 6, columns});
  setup.options = with("dynamic_programming");
  expect_plan("dynamic programming", setup, {2.170893699429107, {}, 187, 187});
  EXPECT_EQ(plan(setup).find("t4")->sharding_type, kTW);

  setup.options = with("default", "memory_balanced");
  setup.reservation.kind = ReservationKind::kFixedPercentage;
  setup.reservation.percentage = 0.1;
  expect_plan("memory balanced", setup,
              {0.6693277178267837,
               {},
               {},
               {},
               {{"t0", kCW, {3}},
                {"t1", kCW, {0}},
                {"t2", kCW, {0, 1}},
                {"t3", kCW, {1}},
                {"t4", kCW, {0, 1, 2, 3}},
                {"t5", kCW, {1}},
                {"t6", kCW, {0}},
                {"t7", kCW, {2}}}});
}

TEST(PlannerVectors, PlansEightTablesInTightMemory) {
  Case setup{capped(cluster(4, 4), 4 * kGiB), model_of(eight_tables()), 1024};
  const Ranks all = range(0, 3);
  expect_plan("default", setup,
              {0.7230918224041278,
               3570420096,
               248,
               159,
               {{"t0", kRW, all},
                {"t1", kTW, {0}},
                {"t2", kRW, all},
                {"t3", kRW, all},
                {"t4", kCW, {1, 2, 3, 0}},
                {"t5", kRW, all},
                {"t6", kDP, all},
                {"t7", kRW, all}}});
  setup.options = with("uniform");
  expect_plan("uniform", setup, {0.7785442441602214, {}, 6, 2, {{"t4", kRW, all}}});
  setup.options = with("dynamic_programming");
  expect_plan("dynamic programming", setup, {5.285152859525345, {}, 383, 212});
  const Planned run = plan(setup);
  EXPECT_EQ(run.find("t7")->sharding_type, kTW);
  EXPECT_EQ(run.find("t7")->compute_kernel, ComputeKernel::kFusedUvmCaching);

  setup.options = with("default", "memory_balanced");
  setup.reservation.kind = ReservationKind::kFixedPercentage;
  setup.reservation.percentage = 0.1;
  expect_plan("memory balanced", setup, {0.7230918224041278, {}, {}, {}});
}

TEST(PlannerVectors, PlansEightTablesOnTwoHosts) {
  const Case setup{capped(cluster(4, 2), 8 * kGiB), model_of(eight_tables()), 1024};
  expect_plan("two hosts", setup,
              {1.3869567884915115,
               4406797952,
               248,
               156,
               {{"t0", kTWRW, {2, 3}},
                {"t1", kTWRW, {0, 1}},
                {"t2", kCW, {2, 3}},
                {"t3", kTWRW, {0, 1}},
                {"t4", kCW, {0, 1, 2, 3}},
                {"t5", kTWRW, {0, 1}},
                {"t6", kDP, range(0, 3)},
                {"t7", kTWRW, {0, 1}}}});
}

TEST(PlannerVectors, PlansOnCpus) {
  std::vector<TableSpec> tables = eight_tables();
  tables.resize(3);
  Case setup{cluster(2, 2, ComputeDevice::kCpu), model_of(tables), 128};
  setup.spec.ddr_cap = 8 * kGiB;
  expect_plan(
      "cpu", setup,
      {0.18885593788296567, 0, 64, 64, {{"t0", kTW, {0}}, {"t1", kTW, {0}}, {"t2", kTW, {1}}}});
}

TEST(PlannerVectors, PlansGrids) {
  Case setup{capped(cluster(8, 4), 8 * kGiB),
             model_of({{"big", 8000000, 512, {10}}, {"s0", 100000, 64, {4}}, {"s1", 2000, 64, {}}}),
             256};
  setup.model.constraints["big"].sharding_types = {kGrid};
  setup.model.constraints["big"].min_partition = 256;
  expect_plan(
      "grid", setup,
      {0.13878353463367474,
       2057078784,
       768,
       768,
       {{"big", kGrid, range(0, 7)}, {"s0", kTWRW, range(0, 3)}, {"s1", kTWRW, range(4, 7)}}});
}

TEST(PlannerVectors, PlansUnevenMemory) {
  Case setup{cluster(4, 4),
             model_of({{"A", 10000000, 128, {10}},
                       {"B", 5000000, 128, {20}},
                       {"C", 5000000, 64, {5}},
                       {"D", 100, 16, {}}}),
             256};
  setup.spec.hbm_caps = {4 * kGiB, 4 * kGiB, 8 * kGiB, 8 * kGiB};
  const Ranks all = range(0, 3);
  expect_plan("uneven", setup,
              {0.02544298352738022,
               2988075776,
               110,
               84,
               {{"A", kRW, all}, {"B", kRW, all}, {"C", kRW, all}, {"D", kDP, all}}});
}

// ---------------------------------------------------------------------------------------------

// The 26 tables of MLPerf's DLRM-DCNv2 with the number of ids of each.
Model dlrm(bool with_pooling_factors) {
  const std::int64_t rows[] = {40000000, 39060,  17295,    7424,    20265,  3,        7122,
                               1543,     63,     40000000, 3067956, 405282, 10,       2209,
                               11938,    155,    4,        976,     14,     40000000, 40000000,
                               40000000, 590152, 12973,    108,     36};
  const double factors[] = {3, 2, 1, 2, 6, 1, 1,  1,   1,  7,  3, 8, 1,
                            6, 9, 5, 1, 1, 1, 12, 100, 27, 10, 3, 1, 1};
  std::vector<TableSpec> tables;
  for (std::size_t i = 0; i < 26; ++i) {
    tables.push_back({"t_cat_" + std::to_string(i), rows[i], 128, {}});
    if (with_pooling_factors) tables.back().pooling_factors = {factors[i]};
  }
  Model model = model_of(tables);
  model.optimizer = Optimizer::kOther;
  return model;
}

// Ranks of tables that lie whole on one rank; -1 for cat_i that are cut by rows over all ranks.
void expect_whole_or_rows(const Case& setup, const std::vector<int>& ranks) {
  const Planned run = plan(setup);
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    const std::string name = "t_cat_" + std::to_string(i);
    SCOPED_TRACE(name);
    ASSERT_NE(run.find(name), nullptr);
    EXPECT_EQ(run.find(name)->sharding_type, ranks[i] < 0 ? kRW : kTW);
    EXPECT_EQ(run.ranks(name),
              ranks[i] < 0 ? range(0, setup.spec.world_size - 1) : Ranks{ranks[i]});
  }
}

// The reference's bound ignores memory; in memory as it is ours can only be higher.
void expect_bound(const Planned& run, double expected) {
  const OptionSet& options = run.result.enumeration.options;
  TopologySpec spacious = cluster(options.world_size, options.local_world_size);
  spacious.hbm_cap = kTiB * 1024;
  spacious.ddr_cap = kTiB * 1024;
  const double bound =
      simple_bound(options, build(spacious, cost_model_named("torchrec-ref"))).lower_bound;
  EXPECT_NEAR(bound, expected, 1e-11);
  ASSERT_TRUE(run.result.reservation.has_value());
  const SimpleBound in_memory = simple_bound(options, run.result.reservation->topology);
  EXPECT_FALSE(in_memory.is_infeasible);
  EXPECT_GE(in_memory.lower_bound, bound);
  EXPECT_LE(in_memory.lower_bound, run.result.rating);
}

TEST(PlannerVectors, PlansDlrmOnEightLargeRanks) {
  Case setup{capped(cluster(8, 8), 80 * kGiB), dlrm(true), 8192};
  expect_plan("storage", setup, {4.173343109845318, 51361056768, 787, 274});
  expect_whole_or_rows(
      setup, {2, 6, 6, 6, 7, 4, 7, 5, 4, 1, 3, 5, 7, 1, 2, 3, 0, 6, 6, 0, -1, -1, 4, 3, 7, 5});
  const Planned run = plan(setup);
  const double per_rank[] = {4.0708, 4.0708, 3.9647, 4.0672, 4.1733, 3.9610, 4.0600, 4.0636};
  const auto perf = rank_perf(run.result.enumeration.options, run.result.best);
  ASSERT_EQ(perf.size(), 8u);
  for (std::size_t i = 0; i < 8; ++i) EXPECT_NEAR(perf[i], per_rank[i], 5e-5);
  ASSERT_TRUE(run.result.reservation.has_value());
  EXPECT_EQ(run.result.reservation->kjt, (Storage{280494080, 0, 0}));

  expect_bound(run, 3.5176771965579707);

  setup.options = with("default", "greedy_perf_by_perf");
  expect_plan("perf", setup, {4.173343109845317, {}, {}, {}});
  setup.options = with("default", "memory_balanced");
  expect_plan("memory balanced", setup, {4.173343109845317, {}, {}, {}});
  setup.options = with("dynamic_programming");
  expect_plan("dynamic programming", setup, {4.695741447185061, {}, 482, 343});
}

TEST(PlannerVectors, PlansDlrmOnTwoHosts) {
  Case setup{capped(cluster(16, 8), 40 * kGiB), dlrm(true), 4096};
  std::vector<Placement> placements;
  for (int i = 0; i < 26; ++i) {
    placements.push_back({"t_cat_" + std::to_string(i), kDP, range(0, 15)});
  }
  for (const std::size_t i : {0, 19, 21, 22}) {
    placements[i].type = kTWRW;
    placements[i].ranks = range(8, 15);
  }
  for (const std::size_t i : {9, 10, 11, 20}) {
    placements[i].type = kTWRW;
    placements[i].ranks = range(0, 7);
  }
  expect_plan("storage", setup, {8.116421040351042, 15736462336, 788, 190, placements});
  const Planned run = plan(setup);
  expect_bound(run, 6.1069786934018016);

  setup.options = with("default", "greedy_perf_by_perf");
  expect_plan("perf", setup, {8.142958064807564, {}, {}, {}});
  setup.options = with("default", "memory_balanced");
  expect_plan("memory balanced", setup, {8.142958064807564, {}, {}, {}});
  setup.options = with("dynamic_programming");
  expect_plan("dynamic programming", setup, {25.442200683343565, {}, 745, 263});
}

TEST(PlannerVectors, PlansDlrmOnEightSmallRanks) {
  Case setup{capped(cluster(8, 8), 40 * kGiB), dlrm(true), 8192};
  expect_plan("storage", setup, {5.029435684051004, 28993213440, 787, 194});
  expect_bound(plan(setup), 3.5176771965579707);
  expect_whole_or_rows(
      setup, {-1, 3, 5, 5, 4, 7, 3, 3, 3, -1, 0, 2, 4, 0, 6, 7, 6, 5, 2, -1, -1, -1, 1, 7, 4, 5});
  setup.options = with("default", "greedy_perf_by_perf");
  expect_plan("perf", setup, {5.02582120523272, {}, {}, {}});
  setup.options = with("default", "memory_balanced");
  expect_plan("memory balanced", setup, {5.033050162869286, {}, {}, {}});
  setup.options = with("dynamic_programming");
  expect_plan("dynamic programming", setup, {42.28132071229132, {}, 622, 237});
}

// As the MLPerf trainer calls the planner: no pooling factors, a reservation of 5 %.
TEST(PlannerVectors, PlansDlrmAsItsTrainerDoes) {
  Case setup{cluster(8, 8), dlrm(false), 8192};
  setup.reservation.percentage = 0.05;
  expect_plan("32 GiB", setup, {2.4818813362249164, {}, 773, 248});
  setup.spec.hbm_cap = 80 * kGiB;
  expect_plan("80 GiB", setup, {1.2593192586399107, {}, 773, 285});
  const Planned run = plan(setup);
  for (const TableSharding& sharding : run.result.outcome.plan->tables) {
    EXPECT_EQ(sharding.sharding_type, kTW) << sharding.table;
  }
}

// ---------------------------------------------------------------------------------------------

TEST(PlannerVectors, HashOptionsAndTopologies) {
  OptionSetBuilder builder(2, 2);
  builder.table("table_0", "sparse.ebc").option(kTW, 1, {1, 0, 0}, 1);
  EXPECT_EQ(storage_hash(builder.set(), 0), 30179082479762471u);

  const CostModel cost_model = cost_model_named("torchrec-ref");
  const Topology topology = build(capped(cluster(2, 2), 2 * kMiB), cost_model);
  EXPECT_EQ(topology::topology_hash(topology, cost_model.ssd_tier),
            "d9a9714f221132e6a7103614af4fbc7214b852f0bb681a2c25f159883ee89503");
}

}  // namespace
}  // namespace plimsoll::embedding::planner_vectors
