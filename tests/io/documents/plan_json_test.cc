#include "plimsoll/io/plan_json.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "io/expect_error.h"
#include "io/random_documents.h"

namespace plimsoll::io {
namespace {

using embedding::ShardingPlan;

std::string with_shards(const std::string& ranks, const std::string& shards) {
  return R"({"world_size": 4, "local_world_size": 4, "tables": [
            {"table": "t", "sharding_type": "row_wise", "compute_kernel": "fused",
             "ranks": )" +
         ranks + R"(, "shards": )" + shards + "}]}";
}

TEST(PlanJson, ReadsBackABarePlan) {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    const ShardingPlan plan = random_plan(random);
    const std::string text = write_plan(plan);
    const auto read = read_plan(text, "p.json");
    ASSERT_TRUE(read.has_value()) << format_error(read.error()) << "\n" << text;
    ASSERT_TRUE(read->plan.has_value());
    EXPECT_EQ(*read->plan, plan) << text;
    EXPECT_FALSE(read->status.has_value());
    EXPECT_EQ(write_answer(*read), text);
  }
}

TEST(PlanJson, ReadsBackAWholeAnswer) {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    const ShardingAnswer answer = random_answer(random);
    const std::string text = write_answer(answer);
    const auto read = read_plan(text, "p.json");
    ASSERT_TRUE(read.has_value()) << format_error(read.error()) << "\n" << text;
    EXPECT_EQ(read->status, answer.status);
    EXPECT_EQ(read->stop, answer.stop);
    EXPECT_EQ(read->rating, answer.rating);
    EXPECT_EQ(read->plan, answer.plan);
    EXPECT_EQ(read->bill, answer.bill);
    EXPECT_EQ(read->certificate, answer.certificate);
    EXPECT_EQ(read->provenance, answer.provenance);
    EXPECT_EQ(read->warnings, answer.warnings);
    EXPECT_EQ(read->explanation, answer.explanation);
    EXPECT_EQ(read->objective, answer.objective);
    EXPECT_EQ(read->times, answer.times);
    EXPECT_EQ(read->reference, answer.reference);
    EXPECT_EQ(read->options, answer.options);
    EXPECT_EQ(read->bound, answer.bound);
    EXPECT_EQ(read->frontier, answer.frontier);
    EXPECT_EQ(read->frontier_bound, answer.frontier_bound);
    EXPECT_EQ(read->frontier_plans, answer.frontier_plans);
    EXPECT_EQ(read->frontier_proofs, answer.frontier_proofs);
    EXPECT_EQ(write_answer(*read), text);
  }
}

TEST(PlanJson, WritesNumbersThatAreNotFiniteAsNull) {
  ShardingAnswer answer;
  answer.status = SolveStatus::kInfeasible;
  answer.rating = std::numeric_limits<double>::infinity();
  answer.certificate = Certificate{std::nan(""), {}, parse_proof("storage")};
  const std::string text = write_answer(answer);
  EXPECT_THAT(text, ::testing::HasSubstr(R"("rating": null)"));
  EXPECT_THAT(text, ::testing::HasSubstr(R"("objective": null)"));
  const auto read = read_plan(text, "p.json");
  ASSERT_TRUE(read.has_value()) << format_error(read.error());
  EXPECT_FALSE(read->rating.has_value());
  ASSERT_TRUE(read->certificate.has_value());
  EXPECT_TRUE(std::isnan(read->certificate->objective));
}

TEST(PlanJson, RefusesListsOfRanksAndShardsThatDiffer) {
  expect_error(read_plan(with_shards(R"([{"first": 0, "count": 3}])",
                                     R"([{"count": 4, "rows": 1, "columns": 4}])"),
                         "p.json"),
               ErrorCode::kValue, "p.json#/tables/0/ranks", "3 rank(s) for 4 shard(s)");
}

TEST(PlanJson, RefusesRunsThatDoNotFit) {
  const std::string rank = R"([{"first": 0}])";
  expect_error(
      read_plan(with_shards(rank, R"([{"rows": 9223372036854775808, "columns": 4}])"), "p.json"),
      ErrorCode::kOverflow, "p.json#/tables/0/shards/0/rows", "does not fit");
  expect_error(read_plan(with_shards(rank, R"([{"rows": 9223372036854775807, "columns": 4,
                                                "row": 1}])"),
                         "p.json"),
               ErrorCode::kOverflow, "p.json#/tables/0/shards/0");
  expect_error(read_plan(with_shards(R"([{"first": 0, "count": 3}])",
                                     R"([{"count": 3, "rows": 1, "columns": 4,
                                 "row_stride": 4611686018427387904}])"),
                         "p.json"),
               ErrorCode::kOverflow, "p.json#/tables/0/shards/0");
  expect_error(
      read_plan(with_shards(rank, R"([{"count": 1000000000000, "rows": 0, "columns": 4}])"),
                "p.json"),
      ErrorCode::kValue, "p.json#/tables/0/shards/0/count");
  expect_error(read_plan(with_shards(rank, R"([{"count": 10000000, "rows": 0, "columns": 4},
                                               {"count": 10000000, "rows": 0, "columns": 4}])"),
                         "p.json"),
               ErrorCode::kValue, "p.json#/tables/0/shards/1/count");
  expect_error(
      read_plan(with_shards(R"([{"first": -1}])", R"([{"rows": 1, "columns": 4}])"), "p.json"),
      ErrorCode::kValue, "p.json#/tables/0/ranks/0/first");
}

TEST(PlanJson, RefusesAGapThatObjectiveAndBoundContradict) {
  const std::string text =
      R"({"status": "feasible",
          "certificate": {"objective": 3, "lower_bound": 2, "gap": GAP, "proof": ""}})";
  const auto with_gap = [&](const std::string& gap) {
    std::string result = text;
    result.replace(result.find("GAP"), 3, gap);
    return read_plan(result, "p.json");
  };
  EXPECT_TRUE(with_gap("0.5").has_value());
  EXPECT_TRUE(with_gap("null").has_value());
  expect_error(with_gap("0.4"), ErrorCode::kConflict, "p.json#/certificate/gap");
}

TEST(PlanJson, PlacesErrors) {
  expect_error(read_plan(R"({"plan": {}})", "p.json"), ErrorCode::kSchema, "p.json#",
               "'status' is missing");
  expect_error(read_plan(R"({"status": "optimum"})", "p.json"), ErrorCode::kValue, "p.json#/status",
               "did you mean 'optimal'");
  expect_error(read_plan(R"({"status": "optimal", "plan": {"world_size": 1}})", "p.json"),
               ErrorCode::kSchema, "p.json#/plan", "local_world_size");
  expect_error(read_plan(R"({"schema": "plimsoll.model/1", "tables": []})", "p.json"),
               ErrorCode::kSchema, "p.json#/schema");
  expect_error(read_plan("[]", "p.json"), ErrorCode::kSchema, "p.json#", "an object");
  expect_error(read_plan(R"({"status": "limit", "bill": {"bytes": {"hbm": [1, 1.5]}}})", "p.json"),
               ErrorCode::kSchema, "p.json#/bill/bytes/hbm/1", "an integer");
}

}  // namespace
}  // namespace plimsoll::io
