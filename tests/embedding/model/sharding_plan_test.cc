#include "plimsoll/embedding/sharding_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "embedding/report_records.h"

namespace plimsoll::embedding {
namespace {

TableSharding sharding(const std::string& module, const std::string& table, ShardingType type,
                       std::vector<RankRun> ranks, std::vector<ShardSizeRun> shards) {
  TableSharding result;
  result.module_path = module;
  result.table = table;
  result.sharding_type = type;
  result.compute_kernel =
      type == ShardingType::kDataParallel ? ComputeKernel::kDense : ComputeKernel::kFused;
  result.ranks = std::move(ranks);
  result.shards = std::move(shards);
  return result;
}

ShardingPlan two_rank_plan(std::vector<TableSharding> tables) {
  ShardingPlan plan;
  plan.world_size = 2;
  plan.local_world_size = 2;
  plan.tables = std::move(tables);
  return plan;
}

TableSharding row_wise(const std::string& module, const std::string& table) {
  return sharding(module, table, ShardingType::kRowWise, {{0, 2}}, {{2, 50, 64, 0, 0, 50}});
}

TableSharding replicas(const std::string& module, const std::string& table) {
  return sharding(module, table, ShardingType::kDataParallel, {{0, 2}}, {{2, 8, 4, 0, 0, 0}});
}

TEST(ShardingPlan, KnowsTheTablesOfAModule) {
  const ShardingPlan plan =
      two_rank_plan({row_wise("b", "t1"), row_wise("", "t"), row_wise("b", "t0")});
  EXPECT_EQ(plan.plan_for_module("b"), (std::vector{plan.tables[0], plan.tables[2]}));
  EXPECT_EQ(plan.plan_for_module(""), std::vector{plan.tables[1]});
  EXPECT_TRUE(plan.plan_for_module("b.t1").empty());
}

TEST(ShardingPlan, UnfoldsRunsInShardOrder) {
  // Two column blocks of 5 rows, cut by rows into 2 + 2 + 1 on ranks 4..6 and 0..2.
  const TableSharding grid =
      sharding("", "t", ShardingType::kGridShard, {{4, 3}, {0, 3}},
               {{2, 2, 8, 0, 0, 2}, {1, 1, 8, 4, 0, 2}, {2, 2, 8, 0, 8, 2}, {1, 1, 8, 4, 8, 2}});
  EXPECT_EQ(grid.num_shards(), 6);
  const std::vector<PlacedShard> shards = expand_shards(grid);
  ASSERT_EQ(shards.size(), 6);
  const std::int64_t rows[] = {2, 2, 1, 2, 2, 1};
  const std::int64_t row[] = {0, 2, 4, 0, 2, 4};
  const std::int64_t column[] = {0, 0, 0, 8, 8, 8};
  const std::int32_t rank[] = {4, 5, 6, 0, 1, 2};
  for (std::size_t i = 0; i < shards.size(); ++i) {
    SCOPED_TRACE(i);
    EXPECT_EQ(shards[i].rows, rows[i]);
    EXPECT_EQ(shards[i].columns, 8);
    EXPECT_EQ(shards[i].row, row[i]);
    EXPECT_EQ(shards[i].column, column[i]);
    EXPECT_EQ(shards[i].rank, rank[i]);
  }
}

TEST(ShardingPlan, LeavesShardsWithoutRankUnplaced) {
  TableSharding table = row_wise("", "t");
  table.ranks = {{1, 1}};
  const std::vector<PlacedShard> shards = expand_shards(table);
  ASSERT_EQ(shards.size(), 2);
  EXPECT_EQ(shards[0].rank, 1);
  EXPECT_EQ(shards[1].rank, -1);
}

TEST(ShardingPlan, NamesDevicesWithinTheirHost) {
  ShardingPlan plan;
  plan.world_size = 8;
  plan.local_world_size = 4;
  EXPECT_EQ(placement_text(plan, 7), "rank:7/cuda:3");
  plan.compute_device = topology::ComputeDevice::kMtia;
  EXPECT_EQ(placement_text(plan, 4), "rank:4/mtia:0");
  plan.compute_device = topology::ComputeDevice::kCpu;
  EXPECT_EQ(placement_text(plan, 7), "rank:7/cpu");
}

// Made by executing the reference.
TEST(PrintPlan, PrintsParametersAndShardsOfAModule) {
  const ShardingPlan plan =
      two_rank_plan({row_wise("sparse.ebc", "table_0"),
                     sharding("sparse.ebc", "table_1", ShardingType::kTableWise, {{0, 1}},
                              {{1, 100, 64, 0, 0, 0}})});
  EXPECT_EQ(print_plan(plan),
            "module: sparse.ebc\n"
            "\n"
            " param  | sharding type | compute kernel | ranks \n"
            "------- | ------------- | -------------- | ------\n"
            "table_0 | row_wise      | fused          | [0, 1]\n"
            "table_1 | table_wise    | fused          | [0]   \n"
            "\n"
            " param  | shard offsets | shard sizes |   placement  \n"
            "------- | ------------- | ----------- | -------------\n"
            "table_0 | [0, 0]        | [50, 64]    | rank:0/cuda:0\n"
            "table_0 | [50, 0]       | [50, 64]    | rank:1/cuda:1\n"
            "table_1 | [0, 0]        | [100, 64]   | rank:0/cuda:0");
}

// An odd blank goes to the right in a column of even width, to the left in one of odd width.
TEST(PrintPlan, CentresHeadersAsPythonDoes) {
  const auto header = [](const std::string& name) {
    const std::string text = print_plan(two_rank_plan({row_wise("m", name)}));
    return text.substr(text.find("\n\n") + 2, name.size());
  };
  EXPECT_EQ(header("ab"), "pa");            // the header is the widest cell
  EXPECT_EQ(header("abcdef"), "param ");    // 1 blank, even width: right
  EXPECT_EQ(header("abcdefg"), " param ");  // 2 blanks
  EXPECT_EQ(header("abcdefgh"), " param  ");
  EXPECT_EQ(header("abcdefghi"), "  param  ");
}

TEST(PrintPlan, LeavesTheShardTableOfReplicasEmpty) {
  const std::string parameters =
      "module: m\n"
      "\n"
      "param | sharding type | compute kernel | ranks \n"
      "----- | ------------- | -------------- | ------\n"
      "t     | data_parallel | dense          | [0, 1]\n"
      "\n";
  EXPECT_EQ(print_plan(two_rank_plan({replicas("m", "t")})), parameters + "\n");
  EXPECT_EQ(print_plan(two_rank_plan({replicas("m", "t"), replicas("n", "t")}))
                .substr(0, parameters.size() + 13),
            parameters + "\n\n\nmodule: n\n");
}

TEST(PrintPlan, SkipsReplicasAmongShards) {
  const std::string text =
      print_plan(two_rank_plan({replicas("m", "replica"), row_wise("m", "rows")}));
  EXPECT_THAT(text, testing::HasSubstr("replica | data_parallel"));
  const std::string shards = text.substr(text.find("shard offsets"));
  EXPECT_THAT(shards, testing::Not(testing::HasSubstr("replica")));
  // The column is as wide as its own cells, not as those of the first table.
  EXPECT_THAT(shards, testing::HasSubstr("\nrows  | [0, 0]"));
}

TEST(PrintPlan, GathersModulesInOrderOfFirstAppearance) {
  const std::string text =
      print_plan(two_rank_plan({row_wise("b", "t0"), row_wise("a", "t1"), row_wise("b", "t2")}));
  const std::size_t b = text.find("module: b");
  const std::size_t a = text.find("\n\nmodule: a");
  EXPECT_EQ(b, 0);
  EXPECT_LT(text.find("t2"), a);
  EXPECT_LT(a, text.find("t1"));
  EXPECT_EQ(text.find("module: b", 1), std::string::npos);
}

TEST(PrintPlan, CountsLettersAndNotBytes) {
  const std::string text = print_plan(two_rank_plan({row_wise("m", "größe_1")}));
  EXPECT_THAT(text, testing::HasSubstr("\n\n param  | sharding type"));
  EXPECT_THAT(text, testing::HasSubstr("\ngröße_1 | row_wise"));
}

TEST(PrintPlan, IsEmptyForAnEmptyPlan) { EXPECT_EQ(print_plan(ShardingPlan{}), ""); }

TEST(PrintPlan, EqualsThePackages) {
  int num_compared = 0;
  for (const Json& record : report_records()) {
    const auto printed = given<std::string>(record, "printed");
    if (!printed) continue;
    SCOPED_TRACE(record.at("release").get<std::string>() + " " + record.at("input").dump());
    const auto result = plan_like_torchrec(problem_of(record), {}, {}, {});
    ASSERT_TRUE(result.has_value()) << format_error(result.error());
    ASSERT_TRUE(result->outcome.plan.has_value());
    EXPECT_EQ(print_plan(*result->outcome.plan), *printed);
    ++num_compared;
  }
  EXPECT_GE(num_compared, 20);
}

}  // namespace
}  // namespace plimsoll::embedding
