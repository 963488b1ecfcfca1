// Options and cuts that the reference's own unit tests assert, and numbers made by executing it
// (pytorch/torchrec a48cef79).

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "embedding/vectors.h"
#include "plimsoll/embedding/model.h"

namespace plimsoll::embedding::enumerator_vectors {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Heights = std::vector<std::int64_t>;

constexpr auto kRW = ShardingType::kRowWise;
constexpr auto kFused = ComputeKernel::kFused;

// Four tables on 8 ranks of two hosts, batch 256: R = 100 + 10 i, D = 20 + 20 i.
Model four_tables(ShardingType type, ComputeKernel kernel) {
  Model model;
  model.modules.emplace_back().path = "sparse.ebc";
  const std::vector<std::vector<double>> pooling_factors = {{1}, {1, 3, 5}, {8, 2}, {2, 1, 3, 7}};
  const std::int64_t min_partitions[] = {20, 20, 20, 40};
  for (std::size_t i = 0; i < 4; ++i) {
    Table table;
    table.name = "table_" + std::to_string(i);
    table.num_embeddings = 100 + 10 * static_cast<std::int64_t>(i);
    table.embedding_dim = 20 + 20 * static_cast<std::int64_t>(i);
    ParameterConstraints& constraints = model.constraints[table.name];
    constraints.sharding_types = {type};
    constraints.compute_kernels = {kernel};
    constraints.min_partition = min_partitions[i];
    constraints.pooling_factors = pooling_factors[i];
    model.modules[0].tables.push_back(table);
  }
  return model;
}

struct Listed {
  Enumeration enumeration;
  // Shards of the i-th option, in order.
  Heights rows(std::size_t i) const {
    return collect(i, [](const ShardRun& run) { return run.rows; });
  }
  Heights hbm(std::size_t i) const {
    return collect(i, [](const ShardRun& run) { return run.storage.hbm; });
  }
  Heights ddr(std::size_t i) const {
    return collect(i, [](const ShardRun& run) { return run.storage.ddr; });
  }
  std::int64_t columns(std::size_t i) const {
    return enumeration.options.shards(option(i)).runs.front().columns;
  }
  const Option& option(std::size_t i) const { return enumeration.options.options[i]; }

 private:
  template <class Field>
  Heights collect(std::size_t i, Field field) const {
    Heights values;
    for (std::int32_t block = 0; block < option(i).column_blocks; ++block) {
      for (const ShardRun& run : enumeration.options.shards(option(i)).runs) {
        values.insert(values.end(), static_cast<std::size_t>(run.count), field(run));
      }
    }
    return values;
  }
};

Listed list_options(const Model& model, std::string_view release = "torchrec-ref",
                    ComputeDevice device = ComputeDevice::kCuda) {
  const CostModel cost_model = cost_model_named(release);
  const Estimator estimator(cost_model, build(cluster(8, 4, device), cost_model), {});
  EnumerationOptions options;
  options.batch_size = 256;
  auto enumeration = enumerate(estimator, model, options);
  EXPECT_TRUE(enumeration.has_value()) << (enumeration ? "" : format_error(enumeration.error()));
  return {enumeration.value_or(Enumeration{})};
}

// `count` shards of one value, then one of another.
Heights then(std::size_t count, std::int64_t value, std::int64_t last) {
  Heights values(count, value);
  values.push_back(last);
  return values;
}
// Two of one value, then six of another.
Heights two_six(std::int64_t first, std::int64_t rest) {
  return {first, first, rest, rest, rest, rest, rest, rest};
}
Heights same(std::size_t count, std::int64_t value) { return Heights(count, value); }

TEST(EnumeratorVectors, RowWise) {
  const Listed fused = list_options(four_tables(kRW, kFused));
  const Listed cached = list_options(four_tables(kRW, ComputeKernel::kFusedUvmCaching));
  ASSERT_EQ(fused.enumeration.options.options.size(), 4u);
  ASSERT_EQ(cached.enumeration.options.options.size(), 4u);
  const Heights rows[] = {then(7, 13, 9), then(7, 14, 12), same(8, 15), then(7, 17, 11)};
  const Heights hbm[] = {then(7, 166928, 166608), then(7, 1003712, 1003392), same(8, 1007120),
                         then(7, 2653504, 2651584)};
  const Heights cached_hbm[] = {then(7, 166190, 166097), then(7, 1002021, 1001943),
                                same(8, 1004348), then(7, 2649275, 2648848)};
  const Heights cached_ddr[] = {then(7, 1040, 720), then(7, 2240, 1920), same(8, 3600),
                                then(7, 5440, 3520)};
  for (std::size_t i = 0; i < 4; ++i) {
    SCOPED_TRACE(i);
    EXPECT_EQ(fused.rows(i), rows[i]);
    EXPECT_EQ(fused.hbm(i), hbm[i]);
    EXPECT_EQ(fused.ddr(i), same(8, 0));
    EXPECT_EQ(fused.option(i).partition_by, PartitionBy::kUniform);
    EXPECT_EQ(cached.rows(i), rows[i]);
    EXPECT_EQ(cached.hbm(i), cached_hbm[i]);
    EXPECT_EQ(cached.ddr(i), cached_ddr[i]);
  }
  const auto runs = fused.enumeration.options.shards(fused.option(0)).runs;
  ASSERT_EQ(runs.size(), 2u);
  EXPECT_EQ(runs[0].first_row, 0);
  EXPECT_EQ(runs[0].row_stride, 13);
  EXPECT_EQ(runs[1].first_row, 91);
}

TEST(EnumeratorVectors, TableRowWise) {
  const Listed listed = list_options(four_tables(ShardingType::kTableRowWise, kFused));
  ASSERT_EQ(listed.enumeration.options.options.size(), 4u);
  const Heights rows[] = {same(4, 25), then(3, 28, 26), same(4, 30), then(3, 33, 31)};
  const Heights hbm[] = {same(4, 169936), then(3, 1024384, 1024064), same(4, 1031200),
                         then(3, 2685248, 2684608)};
  for (std::size_t i = 0; i < 4; ++i) {
    SCOPED_TRACE(i);
    EXPECT_EQ(listed.rows(i), rows[i]);
    EXPECT_EQ(listed.hbm(i), hbm[i]);
    EXPECT_EQ(listed.option(i).partition_by, PartitionBy::kHost);
  }
}

TEST(EnumeratorVectors, ColumnWise) {
  const std::int64_t widths[] = {20, 20, 20, 40};
  const Heights hbm[] = {same(1, 188224), same(2, 647776), same(3, 501120), same(2, 1544512)};
  for (const ShardingType type : {ShardingType::kColumnWise, ShardingType::kTableColumnWise}) {
    const Listed listed = list_options(four_tables(type, kFused));
    ASSERT_EQ(listed.enumeration.options.options.size(), 4u);
    for (std::size_t i = 0; i < 4; ++i) {
      SCOPED_TRACE(std::string(to_string(type)) + " " + std::to_string(i));
      EXPECT_EQ(listed.columns(i), widths[i]);
      EXPECT_EQ(listed.hbm(i), hbm[i]);
      EXPECT_EQ(listed.rows(i), same(hbm[i].size(), 100 + 10 * static_cast<std::int64_t>(i)));
    }
  }
}

TEST(EnumeratorVectors, WholeTables) {
  const Listed whole = list_options(four_tables(ShardingType::kTableWise, kFused));
  const Listed copies =
      list_options(four_tables(ShardingType::kDataParallel, ComputeKernel::kDense));
  const std::int64_t whole_hbm[] = {188224, 1148096, 1175680, 2876032};
  const std::int64_t copies_hbm[] = {30528, 158912, 172160, 395904};
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(whole.hbm(i), same(1, whole_hbm[i]));
    EXPECT_EQ(copies.hbm(i), same(8, copies_hbm[i]));
  }
}

// Virtual tables of ten buckets; release 1.4 cuts them like any other.
TEST(EnumeratorVectors, RowWiseByBuckets) {
  const auto with_buckets = [](ComputeKernel kernel) {
    Model model = four_tables(kRW, kernel);
    for (Table& table : model.modules[0].tables) {
      table.use_virtual_table = true;
      table.total_num_buckets = 10;
    }
    return model;
  };
  const Heights rows[] = {two_six(20, 10), two_six(22, 11), two_six(24, 12), two_six(26, 13)};
  const Heights hbm[] = {two_six(166352, 166120), two_six(1002335, 1001904),
                         two_six(1004845, 1004183), two_six(2649916, 2648990)};
  const Heights ddr[] = {two_six(1600, 800), two_six(3520, 1760), two_six(5760, 2880),
                         two_six(8320, 4160)};
  const std::int64_t virtual_hbm[] = {165888, 1001472, 1003520, 2648064};
  for (const std::string_view release : {"torchrec-ref", "torchrec-1.8", "torchrec-1.9"}) {
    const Listed cached = list_options(with_buckets(ComputeKernel::kFusedUvmCaching), release);
    const Listed virtually = list_options(with_buckets(ComputeKernel::kDramVirtualTable), release);
    ASSERT_EQ(cached.enumeration.options.options.size(), 4u);
    ASSERT_EQ(virtually.enumeration.options.options.size(), 4u);
    for (std::size_t i = 0; i < 4; ++i) {
      SCOPED_TRACE(std::string(release) + " " + std::to_string(i));
      EXPECT_EQ(cached.rows(i), rows[i]);
      EXPECT_EQ(cached.hbm(i), hbm[i]);
      EXPECT_EQ(cached.ddr(i), ddr[i]);
      EXPECT_EQ(virtually.rows(i), rows[i]);
      EXPECT_EQ(virtually.hbm(i), same(8, virtual_hbm[i]));
      EXPECT_EQ(virtually.ddr(i), same(8, 0));
    }
  }
  const Listed old = list_options(with_buckets(ComputeKernel::kFusedUvmCaching), "torchrec-1.4");
  EXPECT_EQ(old.rows(0), then(7, 13, 9));
}

// ---------------------------------------------------------------------------------------------

std::vector<std::string> names(const Listed& listed) {
  std::vector<std::string> result;
  for (const Option& option : listed.enumeration.options.options) {
    result.push_back(std::string(abbreviation(option.sharding_type)) + " " +
                     std::string(to_string(option.compute_kernel)));
  }
  return result;
}

// The reference's own test uses a sharder that offers dense beside row cuts; none of the real ones
// does, so fused_uvm alone is left here.
TEST(EnumeratorVectors, ConstraintsFilterTypesAndKernels) {
  Model model = four_tables(kRW, kFused);
  for (auto& [name, constraints] : model.constraints) {
    constraints.sharding_types = {ShardingType::kTableRowWise, ShardingType::kColumnWise};
    constraints.compute_kernels = {ComputeKernel::kFusedUvm, ComputeKernel::kDense};
  }
  const Listed listed = list_options(model);
  EXPECT_EQ(listed.enumeration.options.options.size(), 4u * 2 * 1);
  // In the sharder's declared order, not the constraint's.
  EXPECT_EQ(names(listed)[0], "CW fused_uvm");
  EXPECT_EQ(names(listed)[1], "TWRW fused_uvm");
}

TEST(EnumeratorVectors, FusedDrivesOutDense) {
  Model model = four_tables(kRW, kFused);
  for (auto& [name, constraints] : model.constraints) {
    constraints.sharding_types = {ShardingType::kRowWise};
    constraints.compute_kernels = {ComputeKernel::kDense, kFused, ComputeKernel::kFusedUvm};
  }
  const std::vector<std::string> listed = names(list_options(model));
  ASSERT_EQ(listed.size(), 8u);
  EXPECT_EQ(listed[0], "RW fused");
  EXPECT_EQ(listed[1], "RW fused_uvm");
}

TEST(EnumeratorVectors, ManagedCollisionKeepsRowWiseAlone) {
  Model model = four_tables(kRW, kFused);
  model.modules[0].kind = ModuleKind::kManagedCollisionEmbeddingBagCollection;
  for (auto& [name, constraints] : model.constraints) {
    constraints.sharding_types = {ShardingType::kRowWise, ShardingType::kTableRowWise,
                                  ShardingType::kColumnWise};
  }
  EXPECT_THAT(names(list_options(model)),
              ElementsAre("RW fused", "RW fused", "RW fused", "RW fused"));

  for (auto& [name, constraints] : model.constraints) {
    constraints.sharding_types = {ShardingType::kTableRowWise, ShardingType::kColumnWise};
  }
  const CostModel cost_model = cost_model_named("torchrec-ref");
  const Estimator estimator(cost_model, build(cluster(8, 4), cost_model), {});
  const auto enumeration = enumerate(estimator, model, {});
  ASSERT_FALSE(enumeration.has_value());
  EXPECT_EQ(enumeration.error().code, ErrorCode::kRuntime);
  EXPECT_THAT(enumeration.error().message,
              HasSubstr("No available sharding type and compute kernel combination after applying "
                        "user provided constraints for table_0."));
}

TEST(EnumeratorVectors, CountsOptionsByDefault) {
  const auto count = [](ModuleKind kind, ComputeDevice device, bool with_grid) {
    Model model = four_tables(kRW, kFused);
    model.modules[0].kind = kind;
    model.modules[0].tables.resize(1);
    model.constraints.clear();
    if (with_grid) {
      model.constraints["table_0"].sharding_types = {
          ShardingType::kDataParallel, ShardingType::kTableWise,    ShardingType::kColumnWise,
          ShardingType::kRowWise,      ShardingType::kTableRowWise, ShardingType::kTableColumnWise,
          ShardingType::kGridShard};
    }
    return list_options(model, "torchrec-ref", device).enumeration.options.options.size();
  };
  EXPECT_EQ(count(ModuleKind::kEmbeddingBagCollection, ComputeDevice::kCuda, false), 16u);
  EXPECT_EQ(count(ModuleKind::kEmbeddingBagCollection, ComputeDevice::kCuda, true), 19u);
  EXPECT_EQ(count(ModuleKind::kEmbeddingBagCollection, ComputeDevice::kCpu, false), 4u);
  EXPECT_EQ(count(ModuleKind::kEmbeddingCollection, ComputeDevice::kCuda, false), 10u);
  EXPECT_EQ(count(ModuleKind::kQuantEmbeddingBagCollection, ComputeDevice::kCuda, false), 9u);
}

// Modules are visited last in, first out; tables within a module in order.
TEST(EnumeratorVectors, VisitsTheTreeFromItsEnd) {
  Model model;
  const auto add = [&](const char* path, ModuleKind kind,
                       std::initializer_list<const char*> tables) {
    Module& module = model.modules.emplace_back();
    module.path = path;
    module.kind = kind;
    for (const char* name : tables) {
      Table& table = module.tables.emplace_back();
      table.name = name;
      table.num_embeddings = 100;
      table.embedding_dim = 16;
    }
  };
  add("tower_0", ModuleKind::kEmbeddingTower, {"t0", "t1"});
  add("tower_1", ModuleKind::kEmbeddingTower, {"t2"});
  add("sparse_arch.ebc", ModuleKind::kEmbeddingBagCollection, {"t3"});
  add("sparse_arch.weighted_ebc", ModuleKind::kEmbeddingBagCollection, {"t4"});
  std::vector<std::string> fqns, dependencies;
  const Listed listed = list_options(model);
  for (const TableOptions& table : listed.enumeration.options.tables) {
    fqns.push_back(table.fqn);
    dependencies.push_back(table.dependency);
  }
  EXPECT_THAT(fqns, ElementsAre("sparse_arch.weighted_ebc.t4", "sparse_arch.ebc.t3", "tower_1.t2",
                                "tower_0.t0", "tower_0.t1"));
  EXPECT_THAT(dependencies, ElementsAre("", "", "tower_1", "tower_0", "tower_0"));
}

// ---------------------------------------------------------------------------------------------

TEST(EnumeratorVectors, ColumnWidths) {
  struct Case {
    std::int64_t columns;
    std::optional<std::int64_t> min_partition;
    std::int64_t width;
  };
  const Case cases[] = {{256, {}, 128}, {300, {}, 300}, {192, {}, 192},   {384, {}, 128},
                        {100, 20, 20},  {96, 40, 48},   {512, 100, 128},  {1000, 128, 200},
                        {130, {}, 130}, {256, 0, 128},  {4000, 128, 160}, {64, 128, 64}};
  for (const Case& c : cases) {
    EXPECT_EQ(column_width(c.columns, c.min_partition), c.width) << c.columns;
  }
}

TEST(EnumeratorVectors, ColumnWidthsAreWhatAScanFinds) {
  const auto scan = [](std::int64_t columns, std::int64_t smallest) {
    for (std::int64_t width = smallest; width < columns; ++width) {
      if (columns % width == 0 && width % 4 == 0) return width;
    }
    return columns;
  };
  for (std::int64_t columns = 1; columns <= 720; ++columns) {
    for (std::int64_t smallest = 1; smallest <= columns + 1; ++smallest) {
      EXPECT_EQ(column_width(columns, smallest), scan(columns, smallest))
          << columns << " " << smallest;
    }
  }
}

// A scan would take hours.
TEST(EnumeratorVectors, HugeColumnWidths) {
  constexpr std::int64_t kPrime = 1000000000039;
  constexpr std::int64_t kMost = std::int64_t{1} << 62;
  EXPECT_EQ(column_width(kPrime, {}), kPrime);
  EXPECT_EQ(column_width(4 * kPrime, {}), 4 * kPrime);
  EXPECT_EQ(column_width(12 * kPrime, {}), 4 * kPrime);
  EXPECT_EQ(column_width(12 * kPrime, 4 * kPrime + 1), 12 * kPrime);
  EXPECT_EQ(column_width(kMost, kMost / 2), kMost / 2);
  EXPECT_EQ(column_width(kMost, kMost / 2 + 1), kMost);
}

TEST(EnumeratorVectors, RefusesMoreColumnShardsThanCanBeCounted) {
  const CostModel cost_model = cost_model_named("torchrec-ref");
  const auto cut = [&](std::int64_t columns) {
    return cut_table(cost_model, build(cluster(4, 4), cost_model), ShardingType::kColumnWise,
                     {1, columns, 4, columns * 4}, 4, std::nullopt);
  };
  constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();
  ASSERT_TRUE(cut(4 * kMost));
  EXPECT_EQ(cut(4 * kMost)->column_blocks, kMost);
  ASSERT_FALSE(cut(4 * (kMost + 1)));
  EXPECT_EQ(cut(4 * (kMost + 1)).error().code, ErrorCode::kOverflow);
}

TEST(EnumeratorVectors, RowCuts) {
  const CostModel cost_model = cost_model_named("torchrec-ref");
  const auto rows = [&](const TopologySpec& spec, std::int64_t height,
                        std::optional<std::int64_t> num_buckets) {
    const TableShape shape = {height, 16, 4, height * 64};
    const auto cut =
        cut_table(cost_model, build(spec, cost_model), kRW, shape, std::nullopt, num_buckets);
    EXPECT_TRUE(cut.has_value());
    Heights result;
    if (!cut) return result;
    for (const ShardRun& run : cut->runs) {
      result.insert(result.end(), static_cast<std::size_t>(run.count), run.rows);
    }
    return result;
  };
  EXPECT_THAT(rows(cluster(4, 4), 10, {}), ElementsAre(3, 3, 3, 1));
  EXPECT_THAT(rows(cluster(4, 4), 5, {}), ElementsAre(2, 2, 1, 0));
  EXPECT_THAT(rows(cluster(8, 4), 3, {}), ElementsAre(1, 1, 1, 0, 0, 0, 0, 0));
  EXPECT_THAT(rows(cluster(4, 4), 10, 5), ElementsAre(4, 2, 2, 2));
  TopologySpec uneven = cluster(4, 4);
  uneven.hbm_caps = {40, 40, 80, 81};
  EXPECT_THAT(rows(uneven, 1000, {}), ElementsAre(165, 165, 331, 339));
  EXPECT_THAT(rows(uneven, 1000, 100), ElementsAre(160, 160, 330, 350));
}

// Packed, aligned rows of quantised tables: columns as the planner sees them, bytes of a row.
TEST(EnumeratorVectors, QuantisedRowWidths) {
  struct Case {
    DataType type;
    std::int64_t dim, columns;
    Bytes row_bytes;
  };
  const Case cases[] = {{DataType::kInt8, 10, 16, 16},
                        {DataType::kInt4, 64, 96, 48},
                        {DataType::kFp16, 64, 128, 128},
                        {DataType::kInt2, 64, 128, 32}};
  for (const Case& c : cases) {
    SCOPED_TRACE(to_string(c.type));
    Module module;
    module.kind = ModuleKind::kQuantEmbeddingBagCollection;
    Table table;
    table.num_embeddings = 100;
    table.embedding_dim = c.dim;
    table.data_type = c.type;
    const auto shape = table_shape(module, table);
    ASSERT_TRUE(shape.has_value());
    EXPECT_EQ(shape->columns, c.columns);
    EXPECT_EQ(shape->element_size, 1);
    EXPECT_EQ(shape->bytes, 100 * c.row_bytes);
  }
}

}  // namespace
}  // namespace plimsoll::embedding::enumerator_vectors
