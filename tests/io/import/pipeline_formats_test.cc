// PipeDream's graph.txt, Piper's JSON, and our own pipeline plans.
#include <gtest/gtest.h>

#include "io/documents/pipeline_plan_json.h"
#include "io/expect_error.h"
#include "io/import/pipedream_graph.h"
#include "io/import/piper_json.h"
#include "io/import/plan_file.h"
#include "io/random_pipeline_documents.h"

namespace plimsoll::io {
namespace {

using partition::PipelinePlan;

const std::string kGraph =
    "node2 -- Conv2d(3, 64, bias) -- forward_compute_time=1.500, backward_compute_time=2.250, "
    "activation_size=16.0, parameter_size=8.000 -- stage_id=1\n"
    "node1 -- Input0 -- forward_compute_time=0.000, backward_compute_time=0.000, "
    "activation_size=[4.0; 2.0], parameter_size=0.000\n"
    "\tnode1 -- node2";

TEST(PipeDreamGraph, IsReadInItsOrder) {
  const auto profile = read_pipedream_graph(kGraph, "graph.txt");
  ASSERT_TRUE(profile.has_value()) << format_error(profile.error());
  ASSERT_EQ(profile->nodes.size(), 2U);
  EXPECT_EQ(profile->nodes[0].id, "node2");
  EXPECT_EQ(profile->nodes[0].description, "Conv2d(3, 64, bias)");
  EXPECT_EQ(profile->nodes[0].backward_ms, 2.25);
  EXPECT_EQ(profile->nodes[0].stage, 1);
  EXPECT_EQ(profile->nodes[1].activations, (std::vector<Bytes>{4, 2}));
  EXPECT_FALSE(profile->nodes[1].stage.has_value());
  EXPECT_EQ(profile->edges, (std::vector<std::pair<int, int>>{{1, 0}}));
  EXPECT_EQ(write_pipedream_graph(*profile), kGraph + "\n");
}

TEST(PipeDreamGraph, ComesBackAsItWas) {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    const auto profile = random_pipedream_profile(random);
    const auto back = read_pipedream_graph(write_pipedream_graph(profile), "graph.txt");
    ASSERT_TRUE(back.has_value()) << format_error(back.error());
    EXPECT_EQ(*back, profile);
  }
}

TEST(PipeDreamGraph, RefusesBadLines) {
  const auto expect_refused = [](const std::string& from, const std::string& to, ErrorCode code,
                                 const std::string& place) {
    SCOPED_TRACE(to);
    std::string text = kGraph;
    text.replace(text.find(from), from.size(), to);
    expect_error(read_pipedream_graph(text, "g.txt"), code, place);
  };
  expect_refused("node2 -- Conv", "Conv", ErrorCode::kSyntax, "g.txt:1");
  expect_refused("=1.500,", "=-1.500,", ErrorCode::kValue, "g.txt:1");
  expect_refused("=1.500,", "=nan,", ErrorCode::kSyntax, "g.txt:1");
  expect_refused("=1.500,", "=1.5x,", ErrorCode::kSyntax, "g.txt:1");
  expect_refused("=1.500,", "=,", ErrorCode::kSyntax, "g.txt:1");
  expect_refused("forward", "foreward", ErrorCode::kSyntax, "g.txt:1");
  expect_refused("=8.000", "=9223372036854775808", ErrorCode::kOverflow, "g.txt:1");
  expect_refused("=8.000", "=1e999", ErrorCode::kOverflow, "g.txt:1");
  expect_refused("=8.000", "=8.5", ErrorCode::kValue, "g.txt:1");
  expect_refused("stage_id=1", "stage_id=-1", ErrorCode::kValue, "g.txt:1");
  expect_refused("stage_id=1", "stage=1", ErrorCode::kSyntax, "g.txt:1");
  expect_refused("stage_id=1", "stage_id=1 -- x", ErrorCode::kSyntax, "g.txt:1");
  expect_refused("[4.0; 2.0]", "[4.0; 2.0", ErrorCode::kSyntax, "g.txt:2");
  expect_refused("[4.0; 2.0]", "[]", ErrorCode::kSyntax, "g.txt:2");
  expect_refused("node1 -- Input0", "node2 -- Input0", ErrorCode::kConflict, "g.txt:2");
  expect_refused("\tnode1 -- node2", "\tnode1 -- node3", ErrorCode::kValue, "g.txt:3");
  expect_refused("\tnode1 -- node2", "\tnode1", ErrorCode::kSyntax, "g.txt:3");
  expect_refused("\tnode1 -- node2", "\tnode1 -- node2\n\tnode1 -- node2", ErrorCode::kConflict,
                 "g.txt");
  expect_refused("\tnode1 -- node2", "\tnode1 -- node2\n\tnode2 -- node1", ErrorCode::kConflict,
                 "g.txt");
  expect_refused("\tnode1 -- node2", "\n", ErrorCode::kSyntax, "g.txt:3");
  expect_error(read_pipedream_graph("", "g.txt"), ErrorCode::kValue, "g.txt");
}

const std::string kPiper = R"({
  "maxDevices": 4, "maxMemoryPerDevice": 1000.5, "bandwidth": 2000.0, "mbsInBatch": 8,
  "nodes": [
    {"id": 5, "name": "a", "TMPCs": {"1": [{"id": "vanilla", "timePerSample": 0.5,
      "parameterSize": 3.0, "memoryUsageA": 7.25, "memoryUsageB": 0.0,
      "syncTimeFw": {}, "syncTimeBw": {"9": 0.0}}]}},
    {"id": 9, "TMPCs": {"1": [{"id": "vanilla", "timePerSample": 1.0,
      "parameterSize": 0, "memoryUsageA": 1, "memoryUsageB": 2,
      "syncTimeFw": {"5": 6.0}, "syncTimeBw": {}}]}}],
  "edges": [{"sourceId": 5, "destId": 9, "communicationCost": 10.0}]})";

TEST(PiperJson, IsReadInMsAndWholeBytes) {
  const auto input = read_piper(kPiper, "piper.json");
  ASSERT_TRUE(input.has_value()) << format_error(input.error());
  EXPECT_EQ(input->ids, (std::vector<std::int64_t>{5, 9}));
  EXPECT_EQ(input->model.memory_cap, 1001);
  EXPECT_EQ(input->model.bandwidth, 2);
  EXPECT_EQ(input->model.num_microbatches, 8);
  const auto& a = input->model.operators[0].degrees[0].choices[0];
  EXPECT_EQ(a.time_ms, 500);
  EXPECT_EQ(a.per_microbatch, 8);
  EXPECT_TRUE(a.sync.empty());
  EXPECT_EQ(input->model.operators[1].degrees[0].choices[0].sync, (std::vector<double>{6}));
}

TEST(PiperJson, ComesBackAsItWas) {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    const auto input = random_piper_input(random);
    const auto text = write_piper(input);
    ASSERT_TRUE(text.has_value()) << format_error(text.error());
    const auto back = read_piper(*text, "piper.json");
    ASSERT_TRUE(back.has_value()) << format_error(back.error());
    EXPECT_EQ(*back, input);
  }
}

TEST(PiperJson, RefusesWhatContradictsItself) {
  const auto expect_refused = [](const std::string& from, const std::string& to, ErrorCode code,
                                 const std::string& place) {
    SCOPED_TRACE(to);
    std::string text = kPiper;
    text.replace(text.find(from), from.size(), to);
    expect_error(read_piper(text, "p.json"), code, "p.json#" + place);
  };
  expect_refused("\"maxDevices\": 4", "\"maxDevices\": 0", ErrorCode::kValue, "/maxDevices");
  expect_refused("2000.0", "0", ErrorCode::kValue, "/bandwidth");
  expect_refused("\"mbsInBatch\": 8", "\"maxBatchSize\": 8", ErrorCode::kSchema, "/maxBatchSize");
  expect_refused("1000.5", "-1", ErrorCode::kValue, "/maxMemoryPerDevice");
  expect_refused("1000.5", "1e30", ErrorCode::kOverflow, "/maxMemoryPerDevice");
  expect_refused("\"id\": 9,", "\"id\": 5,", ErrorCode::kConflict, "/nodes/1/id");
  expect_refused("\"destId\": 9", "\"destId\": 8", ErrorCode::kValue, "/edges/0/destId");
  expect_refused("\"sourceId\": 5", "\"sourceId\": 9", ErrorCode::kConflict, "/edges");
  expect_refused("10.0}", "10.0}, {\"sourceId\": 9, \"destId\": 5, \"communicationCost\": 1}",
                 ErrorCode::kConflict, "/edges");
  expect_refused("10.0}", "10.0}, {\"sourceId\": 5, \"destId\": 9, \"communicationCost\": 1}",
                 ErrorCode::kConflict, "/edges/1");
  expect_refused("\"edges\": [{\"sourceId\": 5, \"destId\": 9, \"communicationCost\": 10.0}]",
                 "\"edges\": []", ErrorCode::kConflict, "/nodes/0/TMPCs/1/0/syncTimeBw");
  expect_refused("{\"1\": [{\"id\": \"vanilla\", \"timePerSample\": 0.5",
                 "{\"x\": [{\"id\": \"vanilla\", \"timePerSample\": 0.5", ErrorCode::kValue,
                 "/nodes/0/TMPCs/x");
  expect_refused("{\"9\": 0.0}", "{}", ErrorCode::kSchema, "/nodes/0/TMPCs/1/0/syncTimeBw");
  expect_refused("\"syncTimeFw\": {}", "\"syncTimeFw\": {\"9\": 1}", ErrorCode::kConflict,
                 "/nodes/0/TMPCs/1/0/syncTimeFw");
  expect_refused("{\"5\": 6.0}", "{\"5\": -6.0}", ErrorCode::kValue,
                 "/nodes/1/TMPCs/1/0/syncTimeFw/5");
  expect_refused("\"timePerSample\": 0.5", "\"timePerSample\": -0.5", ErrorCode::kValue,
                 "/nodes/0/TMPCs/1/0/timePerSample");
}

TEST(PiperJson, SaysWhatItCannotWrite) {
  auto input = *read_piper(kPiper, "p.json");
  input.model.memory_cap.reset();
  expect_error(write_piper(input), ErrorCode::kUsage, "memory_cap");
  input = *read_piper(kPiper, "p.json");
  input.ids = {1, 1};
  expect_error(write_piper(input), ErrorCode::kUsage, "ids");
  input = *read_piper(kPiper, "p.json");
  input.model.num_microbatches.reset();
  expect_error(write_piper(input), ErrorCode::kUsage, "num_microbatches");
}

TEST(PiperJson, ReadsAndWritesPlans) {
  const auto input = *read_piper(kPiper, "p.json");
  const PipelinePlan plan = {{{{0}, {0}, 2, 1}, {{1}, {0}, 1, 1}}};
  const std::string text = write_piper_plan(input, plan);
  EXPECT_EQ(open_plan(text, "p.json")->format, PlanFormat::kPiperPlan);
  EXPECT_NE(open_plan(kPiper, "p.json")->format, PlanFormat::kPiperPlan);
  EXPECT_NE(open_plan("{\"stages\": []}", "p.json")->format, PlanFormat::kPiperPlan);
  EXPECT_NE(open_plan("{\"stages\": [7]}", "p.json")->format, PlanFormat::kPiperPlan);
  const auto back = read_piper_plan(text, "plan.json", input);
  ASSERT_TRUE(back.has_value()) << format_error(back.error());
  EXPECT_EQ(*back, plan);
  const auto expect_refused = [&](const std::string& from, const std::string& to,
                                  const std::string& place) {
    SCOPED_TRACE(to);
    std::string bad = text;
    bad.replace(bad.find(from), from.size(), to);
    expect_error(read_piper_plan(bad, "plan.json", input), ErrorCode::kValue, place);
  };
  expect_refused("[5]", "[6]", "plan.json#/stages/0/nodes/0");
  expect_refused("vanilla", "other", "plan.json#/stages/0/TMPCids/5");
  expect_refused("\"5\"", "\"7\"", "plan.json#/stages/0/nodes/0");
}

TEST(PipelinePlanJson, ComesBackAsItWas) {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    const auto answer = random_pipeline_answer(random);
    const auto back = read_pipeline_answer(write_pipeline_answer(answer), "plan.json");
    ASSERT_TRUE(back.has_value()) << format_error(back.error());
    EXPECT_EQ(*back, answer);
  }
}

TEST(PipelinePlanJson, HoldsAPlanOfAModel) {
  const auto input = *read_piper(kPiper, "p.json");
  const PipelinePlan plan = {{{{0}, {0}, 2, 1}, {{1}, {0}, 1, 1}}};
  PipelineAnswer answer;
  answer.plan = make_stage_entries(input.model, plan);
  EXPECT_EQ(answer.plan->front().choices, (std::vector<std::string>{"vanilla"}));
  EXPECT_EQ(answer.plan->front().in_flight, 2);
  EXPECT_EQ(answer.plan->front().memory, 16);
  const auto read = read_pipeline_answer(write_pipeline_answer(answer), "plan.json");
  EXPECT_EQ(*make_pipeline_plan(input.model, *read), plan);
  answer.plan->front().choices = {"other"};
  expect_error(make_pipeline_plan(input.model, answer), ErrorCode::kValue, "stage 0");
  answer.plan->front().operators = {2};
  expect_error(make_pipeline_plan(input.model, answer), ErrorCode::kValue, "stage 0");
  answer.plan->back().tensor_parallel = 2;
  answer.plan->erase(answer.plan->begin());
  expect_error(make_pipeline_plan(input.model, answer), ErrorCode::kValue, "stage 0");
  answer.plan.reset();
  expect_error(make_pipeline_plan(input.model, answer), ErrorCode::kUsage, "stages");
}

TEST(PipelinePlanJson, RefusesWhatIsNoPlan) {
  const auto read = [](const std::string& text) { return read_pipeline_answer(text, "p.json"); };
  expect_error(read("{}"), ErrorCode::kSchema, "p.json#");
  expect_error(read(R"({"schema": "plimsoll.plan/1", "stages": []})"), ErrorCode::kSchema,
               "p.json#/schema");
  const std::string head = R"({"stages": [{"data_parallel": 1, "tensor_parallel": 1, )";
  expect_error(read(head + R"("operators": [], "choices": []}]})"), ErrorCode::kConflict,
               "p.json#/stages/0");
  expect_error(read(head + R"("operators": [1], "choices": []}]})"), ErrorCode::kConflict,
               "p.json#/stages/0");
  expect_error(read(head + R"("operators": [-1], "choices": ["x"]}]})"), ErrorCode::kValue,
               "p.json#/stages/0/operators/0");
  EXPECT_TRUE(read(R"({"status": "infeasible"})").has_value());
}

}  // namespace
}  // namespace plimsoll::io
