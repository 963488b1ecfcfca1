#include "io/import/foreign_plan.h"

#include <gtest/gtest.h>

#include <map>

#include "io/expect_error.h"
#include "io/random_documents.h"
#include "plimsoll/embedding/enumerator.h"
#include "plimsoll/io/model_json.h"

namespace plimsoll::io {
namespace {

using embedding::ShardingPlan;
using embedding::ShardingType;
using embedding::TableSharding;

topology::Topology two_hosts_of_two() {
  topology::Topology topology;
  topology.world_size = 4;
  topology.local_world_size = 2;
  topology.devices.resize(4);
  return topology;
}

embedding::Model small_model() {
  return read_model(R"({"modules": [{"path": "sparse.ebc", "tables": [
      {"name": "t0", "num_embeddings": 10, "embedding_dim": 256},
      {"name": "t1", "num_embeddings": 100, "embedding_dim": 64,
       "constraints": {"min_partition": 16}}]}]})",
                    "m.json")
      .value();
}

class ForeignPlan : public ::testing::Test {
 protected:
  Result<ShardingPlan> read(const std::string& text) const {
    return read_foreign_plan(text, "p.json", {model_, topology_, cost_model_});
  }
  // The cut of `table` on the ranks from `first_rank` on.
  TableSharding cut(const std::string& table, ShardingType type, std::int32_t first_rank) const {
    TableSharding sharding;
    sharding.module_path = "sparse.ebc";
    sharding.table = table;
    sharding.sharding_type = type;
    sharding.compute_kernel = embedding::ComputeKernel::kFused;
    const auto& module = model_.modules[0];
    const auto shape = embedding::table_shape(module, module.tables[table == "t0" ? 0 : 1]).value();
    const std::int64_t min_partition = table == "t0" ? 0 : 16;
    const auto result =
        embedding::cut_table(cost_model_, topology_, type, shape, min_partition, {}).value();
    for (std::int64_t block = 0; block < result.column_blocks; ++block) {
      for (const auto& run : result.runs) {
        sharding.shards.push_back(
            {run.count, run.rows, run.columns, run.first_row, block * run.columns, run.row_stride});
      }
    }
    sharding.ranks = {{first_rank, static_cast<std::int32_t>(sharding.num_shards())}};
    return sharding;
  }

  embedding::Model model_ = small_model();
  topology::Topology topology_ = two_hosts_of_two();
  embedding::CostModel cost_model_ = embedding::default_cost_model();
};

constexpr ShardingType kTypes[] = {ShardingType::kDataParallel, ShardingType::kTableWise,
                                   ShardingType::kColumnWise,   ShardingType::kRowWise,
                                   ShardingType::kTableRowWise, ShardingType::kTableColumnWise,
                                   ShardingType::kGridShard};

TEST_F(ForeignPlan, ReadsBackBothFormsOfEveryShardingType) {
  for (const ShardingType type : kTypes) {
    for (const std::string table : {"t0", "t1"}) {
      SCOPED_TRACE(std::string(to_string(type)) + " " + table);
      ShardingPlan plan{4, 2, topology::ComputeDevice::kCuda, {cut(table, type, 0)}};
      const auto torchrec = read(write_torchrec_plan(plan));
      ASSERT_TRUE(torchrec.has_value()) << format_error(torchrec.error());
      EXPECT_EQ(*torchrec, plan) << write_torchrec_plan(plan);
      const auto easyrec = read(write_easyrec_plan(plan));
      ASSERT_TRUE(easyrec.has_value()) << format_error(easyrec.error());
      EXPECT_EQ(*easyrec, plan) << write_easyrec_plan(plan);
    }
  }
}

TEST_F(ForeignPlan, WritesTorchRecsSerialisedForm) {
  TableSharding replicated = cut("t0", ShardingType::kDataParallel, 0);
  replicated.table = "t2";
  const ShardingPlan plan{
      4,
      2,
      topology::ComputeDevice::kCuda,
      {cut("t0", ShardingType::kRowWise, 0), cut("t1", ShardingType::kTableWise, 3), replicated}};
  EXPECT_EQ(write_torchrec_plan(plan), R"({
 "sparse.ebc": {
  "t0": {
   "sharding_type": "row_wise",
   "compute_kernel": "fused",
   "ranks": [0, 1, 2, 3],
   "shards": [
    {"shard_offsets": [0, 0], "shard_sizes": [3, 256], "placement": "rank:0/cuda:0"},
    {"shard_offsets": [3, 0], "shard_sizes": [3, 256], "placement": "rank:1/cuda:1"},
    {"shard_offsets": [6, 0], "shard_sizes": [3, 256], "placement": "rank:2/cuda:0"},
    {"shard_offsets": [9, 0], "shard_sizes": [1, 256], "placement": "rank:3/cuda:1"}
   ]
  },
  "t1": {
   "sharding_type": "table_wise",
   "compute_kernel": "fused",
   "ranks": [3],
   "shards": [{"shard_offsets": [0, 0], "shard_sizes": [100, 64], "placement": "rank:3/cuda:1"}]
  },
  "t2": {"sharding_type": "data_parallel", "compute_kernel": "fused", "ranks": [0, 1, 2, 3]}
 }
}
)");
}

TEST_F(ForeignPlan, HearsOfTheDeviceFromPlacements) {
  const auto device_of = [this](const std::string& placement) {
    const auto plan = read(R"({"sparse.ebc": {"t1": {"sharding_type": "table_wise",
        "compute_kernel": "fused", "ranks": [1], "shards": [{"shard_offsets": [0, 0],
        "shard_sizes": [100, 64], "placement": ")" +
                           placement + R"("}]}}})");
    return plan->compute_device;
  };
  EXPECT_EQ(device_of("rank:1/cuda:1"), topology::ComputeDevice::kCuda);
  EXPECT_EQ(device_of("rank:1/cpu"), topology::ComputeDevice::kCpu);
  EXPECT_EQ(device_of("rank:1"), topology_.compute_device);
  EXPECT_EQ(device_of("rank:1/meta"), topology_.compute_device);
}

TEST_F(ForeignPlan, CutsAsManyColumnsAsThereAreRanks) {
  const auto plan = read(R"({"sparse.ebc": {"t0": {"sharding_type": "column_wise",
                             "compute_kernel": "fused", "ranks": [0, 1, 2, 0]}}})");
  ASSERT_TRUE(plan.has_value()) << format_error(plan.error());
  ASSERT_EQ(plan->tables[0].shards.size(), 4u);
  EXPECT_EQ(plan->tables[0].shards[3], (embedding::ShardSizeRun{1, 10, 64, 0, 192, 10}));
}

TEST_F(ForeignPlan, TakesNullShardsAsNone) {
  const auto plan = read(R"({"sparse.ebc": {"t0": {"sharding_type": "data_parallel",
                             "compute_kernel": "dense", "ranks": [0, 1, 2, 3],
                             "shards": null}}})");
  ASSERT_TRUE(plan.has_value()) << format_error(plan.error());
  EXPECT_EQ(plan->tables[0].shards[0], (embedding::ShardSizeRun{4, 10, 256, 0, 0, 0}));
}

TEST_F(ForeignPlan, ExpandsToTheSameShardsWhateverTheRuns) {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    ShardingPlan plan = random_plan(random);
    plan.world_size = 4;
    plan.local_world_size = 2;
    plan.compute_device = topology::ComputeDevice::kCuda;
    std::erase_if(plan.tables, [](const TableSharding& sharding) {
      return sharding.shards.empty() || sharding.sharding_type == ShardingType::kDataParallel;
    });
    for (std::size_t i = 0; i < plan.tables.size(); ++i) {  // one module keeps the order
      plan.tables[i].module_path = "m";
      plan.tables[i].table = std::to_string(i);
    }
    const auto read_back = read(write_torchrec_plan(plan));
    ASSERT_TRUE(read_back.has_value()) << format_error(read_back.error());
    ASSERT_EQ(read_back->tables.size(), plan.tables.size());
    for (std::size_t i = 0; i < plan.tables.size(); ++i) {
      const auto expected = expand_shards(plan.tables[i]);
      const auto found = expand_shards(read_back->tables[i]);
      ASSERT_EQ(found.size(), expected.size());
      for (std::size_t k = 0; k < found.size(); ++k) {
        EXPECT_EQ(
            std::tie(found[k].rows, found[k].columns, found[k].row, found[k].column, found[k].rank),
            std::tie(expected[k].rows, expected[k].columns, expected[k].row, expected[k].column,
                     expected[k].rank));
      }
    }
  }
}

TEST_F(ForeignPlan, TellsTheFormsApart) {
  const ForeignPlanContext context{model_, topology_, cost_model_};
  const ShardingPlan plan{
      4, 2, topology::ComputeDevice::kCuda, {cut("t0", ShardingType::kRowWise, 0)}};
  ShardingAnswer answer;
  answer.status = SolveStatus::kFeasible;
  answer.plan = plan;
  for (const std::string& text : {write_plan(plan), write_answer(answer), write_torchrec_plan(plan),
                                  write_easyrec_plan(plan)}) {
    const auto read_back = read_any_plan(text, "p.json", context);
    ASSERT_TRUE(read_back.has_value()) << format_error(read_back.error());
    EXPECT_EQ(read_back->plan, plan) << text;
  }
}

TEST_F(ForeignPlan, PlacesErrors) {
  const auto expect = [this](const std::string& table, ErrorCode code, const std::string& pointer,
                             const std::string& text = "") {
    SCOPED_TRACE(table);
    expect_error(read(R"({"sparse.ebc": {"t0": )" + table + "}}"), code,
                 "p.json#/sparse.ebc/t0" + pointer, text);
  };
  const std::string head = R"({"sharding_type": "table_wise", "compute_kernel": "fused", )";
  expect("[]", ErrorCode::kSchema, "", "an object");
  expect(R"({"sharding_type": "tablewise", "compute_kernel": "fused", "ranks": [0]})",
         ErrorCode::kValue, "/sharding_type", "did you mean 'table_wise'");
  expect(head + R"("rank": [0]})", ErrorCode::kSchema, "/rank", "did you mean 'ranks'");
  expect(head + R"("ranks": [-1]})", ErrorCode::kValue, "/ranks/0");
  expect(head + R"("ranks": [0, 1]})", ErrorCode::kConflict, "/ranks",
         "2 rank(s) for the 1 shard(s)");
  expect(head + R"("ranks": [0, 1], "shards": [{"shard_offsets": [0, 0], "shard_sizes": [10, 256],
                    "placement": "rank:0/cuda:0"}]})",
         ErrorCode::kConflict, "/ranks");
  expect(head + R"("ranks": [1], "shards": [{"shard_offsets": [0, 0], "shard_sizes": [10, 256],
                    "placement": "rank:0/cuda:0"}]})",
         ErrorCode::kConflict, "/shards/0/placement");
  expect(head + R"("ranks": [1], "shards": [{"shard_offsets": [0, 0], "shard_sizes": [10, 256],
                    "placement": "cuda:0"}]})",
         ErrorCode::kValue, "/shards/0/placement", "rank:0/cuda:0");
  expect(head + R"("ranks": [1], "shards": [{"shard_offsets": [0], "shard_sizes": [10, 256],
                    "placement": "rank:1/cuda:1"}]})",
         ErrorCode::kValue, "/shards/0");
  expect(head + R"("ranks": [1], "shards": [{"shard_offsets": [9223372036854775807, 0],
                    "shard_sizes": [10, 256], "placement": "rank:1/cuda:1"}]})",
         ErrorCode::kOverflow, "/shards/0");
  expect_error(read(R"({"sparse.ebc": {"t2": {"sharding_type": "table_wise",
                        "compute_kernel": "fused", "ranks": [0]}}})"),
               ErrorCode::kNotFound, "p.json#/sparse.ebc/t2", "did you mean 'sparse.ebc.t0'");
  expect_error(read(R"({"sparse.ebc": 1})"), ErrorCode::kSchema, "p.json#/sparse.ebc");
  expect_error(read("[]"), ErrorCode::kSchema, "p.json#");
}

TEST_F(ForeignPlan, TellsTheTypesOfEveryFormWhateverTheMachine) {
  const std::map<std::string, ShardingType> expected{{"sparse.ebc.t0", ShardingType::kRowWise},
                                                     {"sparse.ebc.t1", ShardingType::kTableWise}};
  const ShardingPlan plan{
      4,
      2,
      topology::ComputeDevice::kCuda,
      {cut("t0", ShardingType::kRowWise, 0), cut("t1", ShardingType::kTableWise, 3)}};
  ShardingAnswer answer;
  answer.status = SolveStatus::kFeasible;
  answer.plan = plan;
  for (const std::string& text : {write_torchrec_plan(plan), write_easyrec_plan(plan),
                                  write_plan(plan), write_answer(answer)}) {
    EXPECT_EQ(read_sharding_types(text, "p.json").value(), expected) << text;
  }
  // Neither the model nor the number of ranks is asked for.
  EXPECT_EQ(read_sharding_types(R"({"": {"x": {"sharding_type": "row_wise",
                                               "compute_kernel": "customized_kernel",
                                               "ranks": [0, 1, 2, 3, 4]}}})",
                                "p.json")
                .value(),
            (std::map<std::string, ShardingType>{{".x", ShardingType::kRowWise}}));
  EXPECT_TRUE(read_sharding_types("{}", "p.json").value().empty());
}

TEST_F(ForeignPlan, TellsNoTypesOfWhatIsNoPlan) {
  expect_error(read_sharding_types("[]", "p.json"), ErrorCode::kSchema, "p.json#");
  expect_error(read_sharding_types(R"({"ebc": {"t/0": {"sharding_type": "rows"}}})", "p.json"),
               ErrorCode::kValue, "p.json#/ebc/t~10/sharding_type");
  expect_error(read_sharding_types(R"({"status": "infeasible"})", "p.json"), ErrorCode::kValue,
               "p.json", "plan again");
}

}  // namespace
}  // namespace plimsoll::io
