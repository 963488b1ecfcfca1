#include "io/import/plan_file.h"

#include <gtest/gtest.h>

namespace plimsoll::io {
namespace {

TEST(PlanFile, EveryPlanIsToldByItsTree) {
  const std::pair<const char*, PlanFormat> cases[] = {
      {R"({"schema": "plimsoll.checkpoint_policy/1"})", PlanFormat::kCheckpointPolicy},
      {R"({"units": []})", PlanFormat::kCheckpointPolicy},
      {R"({"schema": "plimsoll.pipeline_plan/1", "stages": []})", PlanFormat::kPipelinePlan},
      {R"({"stages": [{"TMPCids": []}]})", PlanFormat::kPiperPlan},
      {R"({"schema": "plimsoll.placement/1"})", PlanFormat::kPlacement},
      {R"({"stages": []})", PlanFormat::kPlacement},
      {R"({"maxLoad": 1, "fpgas": []})", PlanFormat::kPlacementSplit},
      {R"({"partitions": []})", PlanFormat::kFxPartition},
      {R"({"schema": "plimsoll.plan/1", "partitions": []})", PlanFormat::kShardingPlan},
      {R"({"tables": []})", PlanFormat::kShardingPlan},
      {R"({"ebc": {"t": {"sharding_type": "row_wise"}}})", PlanFormat::kShardingPlan},
      {"node1 -- Embedding -- forward_compute_time=1.0\n", PlanFormat::kStagedProfile},
  };
  for (const auto& [text, format] : cases) {
    SCOPED_TRACE(text);
    const auto plan = open_plan(text, "p.json");
    ASSERT_TRUE(plan) << format_error(plan.error());
    EXPECT_EQ(plan->format, format);
    EXPECT_EQ(plan->name, "p.json");
    EXPECT_EQ(is_of_graph(format) && is_of_profile(format), false);
  }
}

TEST(PlanFile, WhatIsNoJsonIsRefusedWhereItEnds) {
  const auto plan = open_plan("{\"units\": [", "p.json");
  ASSERT_FALSE(plan);
  EXPECT_EQ(plan.error().code, ErrorCode::kSyntax);
  EXPECT_EQ(plan.error().place, "p.json#/units/0");
}

}  // namespace
}  // namespace plimsoll::io
