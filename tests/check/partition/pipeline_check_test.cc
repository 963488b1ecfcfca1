#include "plimsoll/check/pipeline_check.h"

#include <gtest/gtest.h>

#include <functional>

namespace plimsoll::check::pipeline_check {
namespace {

using partition::PipelineModel;
using partition::PipelinePlan;

//   a(4) --3 bytes--> b(6) --1--> c(2), b also on 2 devices in 4 ms, gathering 1 byte an edge.
PipelineModel make_model() {
  PipelineModel model;
  model.operators = {
      {"a", {{1, {{"vanilla", 4, 0, 10, 5, {}}, {"recompute", 5, 0, 2, 6, {}}}}}},
      {"b", {{1, {{"vanilla", 6, 8, 10, 0, {}}}}, {2, {{"vanilla", 4, 4, 5, 0, {1, 1}}}}}},
      {"c", {{1, {{"vanilla", 2, 0, 1, 0, {}}}}}}};
  model.edges = {{0, 1, 3}, {1, 2, 1}};
  model.num_devices = 5;
  model.memory_cap = 45;
  model.bandwidth = 2;
  model.num_microbatches = 8;
  return model;
}

// {a}; {b} on two devices that share it; {c} twice.
PipelinePlan make_plan() { return {{{{0}, {0}, 1, 1}, {{1}, {0}, 1, 2}, {{2}, {0}, 2, 1}}}; }

TEST(PipelineCheck, AddsUpByHand) {
  const auto report = check_pipeline(make_model(), make_plan());
  ASSERT_TRUE(report.has_value());
  EXPECT_TRUE(report->is_right());
  EXPECT_EQ(report->compute_ms, (std::vector<double>{4, 4, 1}));
  // a: 2 * 3 / 2. b: 2 * ((3 + 1) + (1 + 1)) / 2. c: 2 * 1 / 2 / 2.
  EXPECT_EQ(report->transfer_ms, (std::vector<double>{3, 6, 0.5}));
  EXPECT_EQ(report->sync_ms, (std::vector<double>{0, 0, 0}));
  EXPECT_EQ(report->in_flight, (std::vector<int>{4, 3, 1}));
  EXPECT_EQ(report->memory, (std::vector<Bytes>{45, 15, 1}));
  EXPECT_EQ(report->slowest_ms, 10);
  EXPECT_EQ(report->sum_ms, 18.5);
  EXPECT_EQ(report->num_devices, 5);
}

TEST(PipelineCheck, NamesEveryFault) {
  using Code = FindingCode;
  const auto expect_found = [](Code code,
                               const std::function<void(PipelineModel&, PipelinePlan&)>& change) {
    PipelineModel model = make_model();
    PipelinePlan plan = make_plan();
    ASSERT_TRUE(check_pipeline(model, plan)->is_right());
    change(model, plan);
    const auto report = check_pipeline(model, plan);
    ASSERT_TRUE(report.has_value());
    ASSERT_FALSE(report->violations().empty()) << to_string(code);
    EXPECT_EQ(to_string(report->violations().front().code), to_string(code));
    EXPECT_FALSE(report->violations().front().message.empty());
  };
  expect_found(Code::kUnknownOperator, [](auto&, auto& p) { p.stages[0].operators = {0, 3}; });
  expect_found(Code::kUnknownOperator, [](auto&, auto& p) { p.stages[0].operators = {-1, 0}; });
  expect_found(Code::kOperatorTwice, [](auto&, auto& p) { p.stages[2].operators = {1, 2}; });
  expect_found(Code::kOperatorMissing, [](auto&, auto& p) { p.stages.pop_back(); });
  expect_found(Code::kEmptyStage, [](auto&, auto& p) { p.stages.push_back({{}, {}, 1, 1}); });
  expect_found(Code::kBadDegree, [](auto&, auto& p) { p.stages[0].data_parallel = 0; });
  expect_found(Code::kUnknownChoice, [](auto&, auto& p) { p.stages[0].choices = {2}; });
  expect_found(Code::kUnknownChoice, [](auto&, auto& p) { p.stages[0].choices = {}; });
  expect_found(Code::kUnknownChoice, [](auto&, auto& p) { p.stages[2].tensor_parallel = 2; });
  expect_found(Code::kBackwardEdge, [](auto& m, auto& p) {
    m.memory_cap.reset();
    std::swap(p.stages[0], p.stages[2]);
  });
  expect_found(Code::kTooManyDevices, [](auto& m, auto&) { m.num_devices = 4; });
  expect_found(Code::kUnevenMicrobatches, [](auto& m, auto&) { m.num_microbatches = 9; });
  expect_found(Code::kTooManyMicrobatches, [](auto& m, auto&) { m.num_microbatches = 2; });
  expect_found(Code::kOverMemory, [](auto& m, auto&) { m.memory_cap = 44; });
}

TEST(PipelineCheck, ComparesWhatWasStated) {
  PipelineModel model = make_model();
  model.memory_cap.reset();
  EXPECT_TRUE(check_pipeline(model, make_plan(), {10.0})->is_right());
  EXPECT_FALSE(check_pipeline(model, make_plan(), {10.001})->is_right());
}

// 3 replicas of b alone hold 8 bytes of parameters each: 4 * 8 * 2 / 3 / 6 / 2 with 6 microbatches.
TEST(PipelineCheck, CountsWhatReplicasAgreeOn) {
  PipelineModel model = make_model();
  model.memory_cap.reset();
  model.num_microbatches = 6;
  PipelinePlan plan = {{{{0}, {0}, 1, 1}, {{1, 2}, {0, 0}, 3, 1}}};
  EXPECT_NEAR(check_pipeline(model, plan)->sync_ms[1], 4 * 8 * 2 / 3.0 / 6 / 2, 1e-12);
  model.num_microbatches.reset();
  EXPECT_NEAR(check_pipeline(model, plan)->sync_ms[1], 4 * 8 * 2 / 3.0 / 3 / 2, 1e-12);
}

TEST(PipelineCheck, RefusesABadModel) {
  PipelineModel model = make_model();
  model.bandwidth = 0;
  EXPECT_FALSE(check_pipeline(model, make_plan()).has_value());
}

}  // namespace
}  // namespace plimsoll::check::pipeline_check
