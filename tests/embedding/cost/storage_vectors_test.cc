// Bytes of shards: the numbers that the reference's own unit tests assert, and numbers printed by
// executing it (pytorch/torchrec a48cef79 and the released packages torchrec 1.4.0, 1.8.0, 1.9.2).

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "embedding/vectors.h"

namespace plimsoll::embedding::storage_vectors {
namespace {

// A table without ids: what is left is what tables, optimizers and caches take.
TableProfile silent_table(std::int64_t rows, std::int64_t columns, Bytes bytes,
                          Optimizer optimizer) {
  TableProfile table = table_of(rows, columns);
  table.shape.bytes = bytes;
  table.optimizer = optimizer;
  table.batch_sizes = {0};
  return table;
}

// The reference's test (docs/mathematics/torchrec-planner.md#sources) of its inner function, seen
// from outside: 100 bytes over two shards. Its third case, a load factor of 0, cannot be had from
// outside, where 0 means the default of 0.2.
TEST(StorageVectors, SplitBytesOptimizersAndCacheStates) {
  const CostModel cost_model = cost_model_named("torchrec-ref");
  const Estimator estimator(cost_model, build(cluster(2, 2), cost_model), {});
  const auto hbm = [&](const TableProfile& table, ShardingType type, ComputeKernel kernel,
                       std::int64_t rows) {
    const auto storage = estimator.shard_storage(table, type, kernel, rows, table.shape.columns);
    return storage ? storage->hbm : -1;
  };
  TableProfile table = silent_table(10, 3, 100, Optimizer::kSgd);
  EXPECT_EQ(hbm(table, ShardingType::kTableRowWise, ComputeKernel::kFused, 5), 50);

  table = silent_table(10, 3, 200, Optimizer::kAdam);  // half of it cached
  table.cache_params.emplace();
  table.cache_params->load_factor = 0.5;
  EXPECT_EQ(hbm(table, ShardingType::kColumnWise, ComputeKernel::kFusedUvmCaching, 5), 210);

  table = silent_table(10, 3, 100, Optimizer::kRowWiseAdagrad);
  table.cache_params.emplace();
  table.cache_params->load_factor = 1.0;
  EXPECT_EQ(hbm(table, ShardingType::kDataParallel, ComputeKernel::kFusedUvmCaching, 5), 234);

  table = silent_table(10, 3, 100, Optimizer::kNone);
  EXPECT_EQ(hbm(table, ShardingType::kTableRowWise, ComputeKernel::kFused, 5), 50);
}

// 1024 bytes in, 3333 bytes out, and 100 bytes of table, or 12 of cache state and 88 of cache.
TEST(StorageVectors, HoldPipelinesInFlight) {
  const CostModel cost_model = cost_model_named("torchrec-ref");
  const Topology topology = build(cluster(1, 1), cost_model);
  struct Case {
    PipelineType pipeline;
    bool is_cached;
    std::optional<int> passes;
    Bytes expected;
    bool peak_matters;
  };
  const Case cases[] = {
      {PipelineType::kTrainSparseDist, false, {}, 2148, true},
      {PipelineType::kTrainSparseDist, true, {}, 2148, true},
      {PipelineType::kTrainPrefetchSparseDist, true, {}, 10340, true},
      {PipelineType::kTrainPrefetchSparseDist, false, {}, 3172, true},
      {PipelineType::kTrainPrefetchSparseDist, true, 10, 4810, true},
      {PipelineType::kNone, false, {}, 4457, false},
      {PipelineType::kTrainBase, true, {}, 4457, false},
  };
  for (const Case& c : cases) {
    for (const bool peak : {false, true}) {
      SCOPED_TRACE(std::string(to_string(c.pipeline)) + (c.is_cached ? " cached" : " plain") +
                   (peak ? " at peak" : ""));
      TableProfile table = table_of(1, 1);
      table.shape.bytes = c.is_cached ? 176 : 100;
      table.batch_sizes = {128};
      table.output_element_size = 3333.0 / 128;
      if (c.is_cached) {
        table.cache_params.emplace();
        table.cache_params->load_factor = 0.5;
        table.cache_params->multipass_num_passes = c.passes;
      }
      const Estimator estimator(cost_model, topology, {false, c.pipeline, peak});
      const auto storage = estimator.shard_storage(
          table, ShardingType::kTableWise,
          c.is_cached ? ComputeKernel::kFusedUvmCaching : ComputeKernel::kFused, 1, 1);
      ASSERT_TRUE(storage.has_value());
      EXPECT_EQ(storage->hbm, c.expected + (peak && c.peak_matters ? 3333 : 0));
      EXPECT_EQ(storage->ddr, c.is_cached ? 176 : 0);
    }
  }
}

TEST(StorageVectors, CountOutputsInTheirOwnType) {
  const CostModel cost_model = cost_model_named("torchrec-ref");
  const Estimator estimator(cost_model, build(cluster(2, 2), cost_model), {});
  TableProfile half = table_of(100, 10, 2);
  half.output_element_size = 4;
  for (const TableProfile& table : {table_of(50, 10), half}) {
    const auto runs =
        costed_runs(estimator, table, ShardingType::kTableWise, ComputeKernel::kFused);
    ASSERT_EQ(runs.size(), 1u);
    EXPECT_EQ(runs[0].storage, (Storage{51152, 0, 0}));
  }
}

// ---------------------------------------------------------------------------------------------

constexpr auto kTW = ShardingType::kTableWise;
constexpr auto kRW = ShardingType::kRowWise;
constexpr auto kTWRW = ShardingType::kTableRowWise;
constexpr auto kFused = ComputeKernel::kFused;
constexpr auto kCaching = ComputeKernel::kFusedUvmCaching;
constexpr auto kRWA = Optimizer::kRowWiseAdagrad;

// Every row starts from 1000003 x 64 fp32, 10 ids a sample, batch 512, 16 ranks on two hosts.
struct Row {
  const char* name;
  ShardingType type;
  ComputeKernel kernel;
  Optimizer optimizer;
  std::vector<Storage> runs;  // of one column block, equal neighbours joined
  std::optional<double> load_factor = {};
  std::optional<int> passes = {};
  PipelineType pipeline = PipelineType::kNone;
  bool peak = false;
  bool inference = false;
  std::optional<double> output_element_size = {};
  std::optional<std::int64_t> l1_megabytes = {};
};

const std::vector<Row>& rows() {
  constexpr auto kDist = PipelineType::kTrainSparseDist;
  constexpr auto kPrefetch = PipelineType::kTrainPrefetchSparseDist;
  static const std::vector<Row> kRows = {
      {"none", kTW, kFused, Optimizer::kNone, {{258753280, 0, 0}}},
      {"sgd", kTW, kFused, Optimizer::kSgd, {{258753280, 0, 0}}},
      {"adam", kTW, kFused, Optimizer::kAdam, {{770754816, 0, 0}}},
      {"rowwise adagrad", kTW, kFused, kRWA, {{262753292, 0, 0}}},
      {"other", kTW, kFused, Optimizer::kOther, {{514754048, 0, 0}}},
      {"rw adam", kRW, kFused, Optimizer::kAdam, {{50138880, 0, 0}, {50128896, 0, 0}}},
      {"twrw adam", kTWRW, kFused, Optimizer::kAdam, {{98179840, 0, 0}, {98176000, 0, 0}}},
      {"dp adam",
       ShardingType::kDataParallel,
       ComputeKernel::kDense,
       Optimizer::kAdam,
       {{768174336, 0, 0}}},
      {"rw caching", kRW, kCaching, kRWA, {{6700685, 16250260, 0}, {6699736, 16246880, 0}}, 0.25},
      {"uvm adam", kTW, ComputeKernel::kFusedUvm, Optimizer::kAdam, {{2752512, 768002304, 0}}},
      {"passes", kTW, kCaching, kRWA, {{75752731, 260000780, 0}}, 0.25, 4},
      {"passes, base",
       kTW,
       kCaching,
       kRWA,
       {{75752731, 260000780, 0}},
       0.25,
       4,
       PipelineType::kTrainBase},
      {"passes, dist", kTW, kCaching, kRWA, {{74310939, 260000780, 0}}, 0.25, 4, kDist},
      {"passes, dist, peak", kTW, kCaching, kRWA, {{76408091, 260000780, 0}}, 0.25, 4, kDist, true},
      {"passes, prefetch", kTW, kCaching, kRWA, {{76604699, 260000780, 0}}, 0.25, 4, kPrefetch},
      {"passes, prefetch, peak",
       kTW,
       kCaching,
       kRWA,
       {{78701851, 260000780, 0}},
       0.25,
       4,
       kPrefetch,
       true},
      {"prefetch", kTW, kFused, kRWA, {{261966860, 0, 0}}, {}, {}, kPrefetch},
      {"rw caching, prefetch",
       kRW,
       kCaching,
       kRWA,
       {{4972173, 16250260, 0}, {4971224, 16246880, 0}},
       0.25,
       {},
       kPrefetch},
      {"inference adam",
       kTW,
       kFused,
       Optimizer::kAdam,
       {{256000768, 0, 0}},
       {},
       {},
       PipelineType::kNone,
       false,
       true},
      {"inference caching",
       kTW,
       kCaching,
       Optimizer::kNone,
       {{64000192, 256000768, 0}},
       0.25,
       {},
       PipelineType::kNone,
       false,
       true},
      {"fp16 output",
       kTW,
       kFused,
       Optimizer::kAdam,
       {{769706240, 0, 0}},
       {},
       {},
       PipelineType::kNone,
       false,
       false,
       2.0},
      {"int8 output",
       kTW,
       kFused,
       Optimizer::kNone,
       {{257180416, 0, 0}},
       {},
       {},
       PipelineType::kNone,
       false,
       false,
       1.0},
      {"virtual table",
       kRW,
       ComputeKernel::kDramVirtualTable,
       Optimizer::kNone,
       {{53338266, 0, 0}},
       {},
       {},
       PipelineType::kNone,
       false,
       false,
       {},
       128},
  };
  return kRows;
}

TableProfile large_table() {
  TableProfile table = table_of(1000003, 64);
  set_features(table, {10}, 512);
  return table;
}

// Equal neighbours joined, so that runs which differ in rows alone count once.
std::vector<Storage> distinct(const std::vector<ShardRun>& runs) {
  std::vector<Storage> result;
  for (const ShardRun& run : runs) {
    if (result.empty() || result.back() != run.storage) result.push_back(run.storage);
  }
  return result;
}

TEST(StorageVectors, CountTheTablesOfTheReference) {
  for (const std::string_view release : kReleases) {
    const CostModel cost_model = cost_model_named(release);
    const Topology topology = build(cluster(16, 8), cost_model);
    for (const Row& row : rows()) {
      SCOPED_TRACE(std::string(release) + " " + row.name);
      TableProfile table = large_table();
      table.optimizer = row.optimizer;
      table.output_element_size = row.output_element_size;
      if (row.load_factor || row.passes) {
        table.cache_params.emplace();
        table.cache_params->load_factor = row.load_factor;
        table.cache_params->multipass_num_passes = row.passes;
      }
      if (row.l1_megabytes) {
        table.key_value_params.emplace();
        table.key_value_params->max_l1_cache_size = row.l1_megabytes;
      }
      const Estimator estimator(cost_model, topology, {row.inference, row.pipeline, row.peak});
      EXPECT_EQ(distinct(costed_runs(estimator, table, row.type, row.kernel)), row.runs);
    }
  }
}

TEST(StorageVectors, CountSpecialTables) {
  for (const std::string_view release : kReleases) {
    SCOPED_TRACE(release);
    const CostModel cost_model = cost_model_named(release);
    const auto storage = [&](const TopologySpec& spec, const TableProfile& table, ShardingType type,
                             ComputeKernel kernel, bool inference = false) {
      const Estimator estimator(cost_model, build(spec, cost_model),
                                {inference, PipelineType::kNone, false});
      return costed_runs(estimator, table, type, kernel);
    };

    // Two column blocks of 128: rows 0 to 6 and 7 of the host differ.
    TableProfile wide = table_of(1000003, 256);
    set_features(wide, {10}, 512);
    wide.optimizer = Optimizer::kAdam;
    auto runs = storage(cluster(16, 8), wide, ShardingType::kGridShard, kFused);
    ASSERT_EQ(runs.size(), 2u);
    EXPECT_EQ(runs[0].count, 7);
    EXPECT_EQ(runs[0].rows, 125001);
    EXPECT_EQ(runs[0].storage.hbm, 196277760);
    EXPECT_EQ(runs[1].rows, 124996);
    EXPECT_EQ(runs[1].storage.hbm, 196270080);

    TableProfile by_sharder = large_table();
    by_sharder.optimizer = kRWA;
    by_sharder.sharder.cache_load_factor = 0.5;
    runs = storage(cluster(16, 8), by_sharder, kTW, kCaching);
    EXPECT_EQ(runs[0].storage, (Storage{144752938, 260000780, 0}));

    // Hbm of key_value is the cache alone, of the whole table, beside ids and outputs.
    TableProfile key_value = large_table();
    runs = storage(cluster(16, 8), key_value, kRW, ComputeKernel::kKeyValue);
    EXPECT_EQ(runs[0].storage.hbm, 2138112);
    EXPECT_EQ(runs[0].storage.ddr, 0);
    key_value.key_value_params.emplace();
    key_value.key_value_params->max_l1_cache_size = 1;
    runs = storage(cluster(16, 8), key_value, kRW, ComputeKernel::kKeyValue);
    EXPECT_EQ(runs[0].storage.hbm, 3186688);
    key_value.sharder.cache_load_factor =
        0;  // a cache of no rows, unlike that of fused_uvm_caching
    runs = storage(cluster(16, 8), key_value, kRW, ComputeKernel::kKeyValue);
    EXPECT_EQ(runs[0].storage.hbm, 2138112);

    TableProfile forced = large_table();
    forced.use_virtual_table = true;
    runs = storage(cluster(16, 8), forced, kTW, kFused);
    EXPECT_EQ(runs[0].storage.hbm, 2752512);

    TableProfile on_cpu = large_table();
    on_cpu.optimizer = Optimizer::kAdam;
    const TopologySpec cpu = cluster(4, 4, ComputeDevice::kCpu);
    EXPECT_EQ(storage(cpu, on_cpu, kTW, kFused)[0].storage, (Storage{0, 768690432, 0}));
    EXPECT_EQ(storage(cpu, on_cpu, kTW, kFused, true)[0].storage, (Storage{0, 256000768, 0}));

    TableProfile tiny = table_of(5, 16);
    set_features(tiny, {10}, 512);
    tiny.optimizer = Optimizer::kAdam;
    runs = storage(cluster(16, 8), tiny, kRW, kFused);
    ASSERT_EQ(runs.size(), 2u);
    EXPECT_EQ(runs[0].count, 5);
    EXPECT_EQ(runs[0].storage.hbm, 565440);
    EXPECT_EQ(runs[1].count, 11);
    EXPECT_EQ(runs[1].storage, Storage{});

    TopologySpec uneven = cluster(4, 4);
    uneven.hbm_caps = {40 * kGiB, 40 * kGiB, 80 * kGiB, 80 * kGiB};
    TableProfile table = table_of(1000, 16);
    set_features(table, {10}, 512);
    runs = storage(uneven, table, kRW, kFused);
    ASSERT_EQ(runs.size(), 3u);
    const std::int64_t counts[] = {2, 1, 1}, heights[] = {166, 333, 335};
    const Bytes hbm[] = {182656, 193344, 193472};
    for (std::size_t i = 0; i < 3; ++i) {
      EXPECT_EQ(runs[i].count, counts[i]);
      EXPECT_EQ(runs[i].rows, heights[i]);
      EXPECT_EQ(runs[i].storage.hbm, hbm[i]);
    }
  }
}

}  // namespace
}  // namespace plimsoll::embedding::storage_vectors
