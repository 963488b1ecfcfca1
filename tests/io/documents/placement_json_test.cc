#include "plimsoll/io/placement_json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "io/expect_error.h"
#include "io/random_documents.h"

namespace plimsoll::io {
namespace {

using partition::CostGraph;
using partition::DeviceAssignment;
using partition::kUnlimited;
using ::testing::ElementsAre;

// a → b → c on two accelerators (0, 1) and a CPU (2).
CostGraph chain() {
  CostGraph graph;
  graph.classes = {{"accelerator", 2, 100, 1}, {"cpu", 1, {}, kUnlimited}};
  graph.nodes = {{"", {1, 10}, 5, {}, false, {}, {}},
                 {"", {2, 20}, 6, {}, false, {}, {}},
                 {"", {3, 30}, 7, {}, false, {}, {}}};
  graph.nets = {{0, {1}, 0.5}, {1, {2}, 4}};
  return graph;
}
const std::vector<std::string> kNames = {"a", "b", "c"};

PlacementAnswer placed(const std::vector<int>& device) {
  PlacementAnswer answer;
  put_assignment(chain(), kNames, {device}, answer);
  return answer;
}

TEST(PlacementJson, WritesStagesInTheLinesOrder) {
  const PlacementAnswer answer = placed({2, 0, 0});
  EXPECT_EQ(answer.is_contiguous, true);
  EXPECT_EQ(answer.classes, chain().classes);
  EXPECT_THAT(
      *answer.plan,
      ElementsAre(PlacedStage{{}, {2}, "cpu", 10, 0, 10, {}, {}, 5, {}, {"a"}},
                  PlacedStage{{}, {0}, "accelerator", 5, 0.5, 5.5, {}, {}, 13, 100, {"b", "c"}}));
  EXPECT_THAT(answer.cuts, ElementsAre(PlacedCut{"a", 2, {0}, 0.5, 0.5}));
  EXPECT_EQ(placed({0, 1, 0}).is_contiguous, false);
}

TEST(PlacementJson, TakesBackStagesOfReplicas) {
  const partition::ReplicatedStages placement{{{{0}, {2}}, {{1, 2}, {0, 1}}}};
  PlacementAnswer answer;
  answer.objective = partition::Objective::kPipeline;
  put_pipeline(chain(), {4, 2, {}}, kNames, placement, answer);
  const PlacedStage& replicas = (*answer.plan)[1];
  EXPECT_EQ(replicas.load_ms, 5.5 / 2);
  EXPECT_EQ(replicas.sync_ms, 0);
  EXPECT_EQ(replicas.in_flight, 1);
  EXPECT_THAT(answer.cuts, ElementsAre(PlacedCut{"a", 2, {0}, 0.5, 0.5}));
  const auto again = read_placement(write_placement(answer), "p.json");
  EXPECT_EQ(again.value(), answer);
  EXPECT_EQ(take_pipeline(*again, kNames, "p.json").value(), placement);
  answer.plan->front().nodes = {"nobody"};
  EXPECT_EQ(take_pipeline(answer, kNames, "p.json").error().code, ErrorCode::kValue);
}

TEST(PlacementJson, TakesBackWhatItPut) {
  for (const std::vector<int>& device :
       std::vector<std::vector<int>>{{0, 0, 0}, {2, 1, 0}, {0, 1, 0}, {2, 2, 1}}) {
    EXPECT_EQ(take_assignment(placed(device), kNames, "p.json").value(), DeviceAssignment{device});
  }
}

TEST(PlacementJson, RefusesPlacementsOfAnotherGraph) {
  PlacementAnswer answer = placed({0, 0, 1});
  answer.plan->front().nodes.push_back("d");
  expect_error(take_assignment(answer, kNames, "p.json"), ErrorCode::kValue,
               "p.json#/stages/0/nodes/2", "no node 'd'");
  answer = placed({0, 0, 1});
  answer.plan->pop_back();
  expect_error(take_assignment(answer, kNames, "p.json"), ErrorCode::kValue, "p.json#/stages",
               "node 'c' has no device");
  answer = placed({0, 0, 1});
  answer.plan->front().devices = {0, 2};
  expect_error(take_assignment(answer, kNames, "p.json"), ErrorCode::kConflict,
               "p.json#/stages/0/devices", "2 devices");
  answer.plan.reset();
  expect_error(take_assignment(answer, kNames, "p.json"), ErrorCode::kValue, "p.json",
               "holds no placement");
}

TEST(PlacementJson, ReadsWhatItWrites) {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    const PlacementAnswer answer = random_placement(random);
    const std::string text = write_placement(answer);
    EXPECT_TRUE(is_placement(text));
    const auto read = read_placement(text, "p.json");
    ASSERT_TRUE(read.has_value()) << format_error(read.error());
    EXPECT_EQ(*read, answer);
    EXPECT_EQ(write_placement(*read), text);
  }
}

TEST(PlacementJson, ReadsAPlacementAlone) {
  const std::string text =
      R"({"objective": "throughput", "stages": [{"devices": [1], "memory_bytes": "1 KiB",
                                                 "nodes": ["a"]}]})";
  EXPECT_TRUE(is_placement(text));
  const PlacementAnswer answer = read_placement(text, "p.json").value();
  EXPECT_FALSE(answer.status.has_value());
  EXPECT_EQ(answer.plan->front().memory, 1024);
}

TEST(PlacementJson, PlacesErrors) {
  const auto read = [](const std::string& rest) {
    return read_placement(R"({"objective": "throughput", )" + rest + "}", "p.json");
  };
  expect_error(read_placement("{}", "p.json"), ErrorCode::kSchema, "p.json#", "'objective'");
  expect_error(read(R"("cuts": [])"), ErrorCode::kSchema, "p.json#", "'stages' is missing");
  expect_error(read_placement(R"({"objective": "speed", "stages": []})", "p.json"),
               ErrorCode::kValue, "p.json#/objective", "throughput");
  const std::string stage = R"({"devices": [0], "memory_bytes": 0, "nodes": ["a"]})";
  EXPECT_TRUE(read(R"("stages": [)" + stage + "]").has_value());
  expect_error(read(R"("stages": [)" + stage + "," + stage + "]"), ErrorCode::kConflict,
               "p.json#/stages/1/nodes/0", "'a' is in a stage already");
  expect_error(read(R"("stages": [{"devices": [3, 3], "memory_bytes": 0, "nodes": []}])"),
               ErrorCode::kConflict, "p.json#/stages/0/devices/1", "device 3 occurs twice");
  for (const char* ids : {"[3, 4, 4]", "[4]", "[5, 3, 4]", "[4, 3, 5, 4]"}) {
    expect_error(read(R"("stages": [{"devices": [4, 3], "memory_bytes": 0, "nodes": [],)"
                      R"("logical_device_ids": )" +
                      std::string(ids) + "}]"),
                 ErrorCode::kConflict, "p.json#/stages/0/logical_device_ids", "in another order");
  }
  expect_error(read(R"("stages": [{"devices": [], "memory_bytes": -1, "nodes": []}])"),
               ErrorCode::kValue, "p.json#/stages/0/memory_bytes");
  expect_error(read(R"("stages": [], "classes": [{"name": "x", "count": 1, "link_rate": 0}])"),
               ErrorCode::kValue, "p.json#/classes/0/link_rate", "more than 0");
  expect_error(read(R"("stages": [], "certificate": {"objective": 3, "lower_bound": 2, "gap": 1})"),
               ErrorCode::kConflict, "p.json#/certificate/gap");
  EXPECT_FALSE(is_placement("{"));
  EXPECT_FALSE(is_placement(R"({"schema": "plimsoll.plan/1", "stages": []})"));
}

TEST(PlacementJson, KeepsHowOftenTorchNamesADevice) {
  PlacementAnswer answer;
  answer.objective = partition::Objective::kFx;
  answer.plan.emplace(2);
  put_logical_devices({1, 0, 2, 2, 0}, answer.plan->front());
  put_logical_devices({1, 0}, answer.plan->back());
  EXPECT_EQ(answer.plan->front().devices, (std::vector<int>{1, 0, 2}));
  EXPECT_TRUE(answer.plan->back().logical_device_ids.empty());
  const auto again = read_placement(write_placement(answer), "p.json");
  ASSERT_TRUE(again.has_value());
  EXPECT_EQ(*again, answer);
  EXPECT_EQ(again->plan->front().logical_device_ids, (std::vector<int>{1, 0, 2, 2, 0}));
}

}  // namespace
}  // namespace plimsoll::io
