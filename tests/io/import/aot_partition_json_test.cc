#include "io/import/aot_partition_json.h"

#include <gtest/gtest.h>

#include "checkpoint/torch/knapsack.h"
#include "io/expect_error.h"
#include "plimsoll/io/files.h"

namespace plimsoll::io {
namespace {

using ::testing::ElementsAre;

std::string payload(const std::string& from = "", const std::string& to = "") {
  std::string text = R"({"Joint Graph Size": 3,
 "Joint Graph Edges": {"Total": 2, "Edges": [["x", "mm"], ["mm", "output"]]},
 "Joint Graph Node Information": {"x": {"index": 0}, "output": {"index": 2}, "mm": {"index": 1}},
 "Recomputable Banned Nodes Order": ["mm"],
 "Knapsack Saved Nodes": [], "Knapsack Recomputed Nodes": [0], "Absolute Memories": [4096],
 "Knapsack Input Memories": [0.25], "Knapsack Input Runtimes": [32768], "Memory Budget": 0.3})";
  if (from.empty()) return text;
  const std::size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(std::min(at, text.size()), from.size(), to);
}

TEST(AotPartitionJson, ReadsWhatTorchLogs) {
  const auto text = read_text_file(PLIMSOLL_TEST_DATA "/checkpointing/min_cut_information.json");
  ASSERT_TRUE(text.has_value());
  const auto read = read_aot_partition(*text, "log.json");
  ASSERT_TRUE(read.has_value()) << format_error(read.error());
  EXPECT_EQ(read->graph.nodes.size(), 79u);
  EXPECT_EQ(read->graph.edges.size(), 114u);
  EXPECT_EQ(read->graph.nodes[0], "primals_1");
  ASSERT_EQ(read->graph.candidates.size(), 3u);
  EXPECT_EQ(read->graph.nodes[static_cast<std::size_t>(read->graph.candidates[1])], "addmm_2");
  EXPECT_THAT(read->graph.memory,
              ElementsAre(0.1807909604519774, 0.1807909604519774, 0.0903954802259887));
  EXPECT_THAT(read->graph.runtimes, ElementsAre(32768, 32768, 32768));
  EXPECT_THAT(read->absolute_memory, ElementsAre(4096, 4096, 2048));
  EXPECT_EQ(read->memory_budget, 0.3);
  EXPECT_EQ(read->expected_runtime, 65536);
  EXPECT_THAT(read->saved, ElementsAre(0, 2));
  EXPECT_THAT(read->recomputed, ElementsAre(1));
  EXPECT_EQ(read->saved_values.size(), 12u);
}

TEST(AotPartitionJson, GivesTheKnapsackThatTorchSolved) {
  const auto text = read_text_file(PLIMSOLL_TEST_DATA "/checkpointing/min_cut_information.json");
  const auto read = read_aot_partition(text.value_or(""), "log.json");
  ASSERT_TRUE(read.has_value()) << format_error(read.error());
  const auto choice = checkpoint::dp_knapsack(
      {read->graph.memory, read->graph.runtimes, read->memory_budget.value_or(-1)});
  ASSERT_TRUE(choice.has_value()) << format_error(choice.error());
  EXPECT_EQ(choice->saved_runtime, read->expected_runtime);
  EXPECT_EQ(choice->saved, read->saved);
  EXPECT_EQ(choice->recomputed, read->recomputed);
}

TEST(AotPartitionJson, PassesOverKeysOfOtherReleases) {
  const auto plain = read_aot_partition(payload(), "log.json");
  ASSERT_TRUE(plain.has_value()) << format_error(plain.error());
  EXPECT_THAT(plain->graph.nodes, ElementsAre("x", "mm", "output"));
  const auto newer = read_aot_partition(
      payload(R"({"index": 0}, )", R"({"index": 0, "colour": "red"}, )"), "log.json");
  ASSERT_TRUE(newer.has_value()) << format_error(newer.error());
  EXPECT_EQ(*newer, *plain);
  const auto more =
      read_aot_partition(payload(R"("Total": 2,)", R"("Total": 2, "Kind": "data",)"), "l");
  ASSERT_TRUE(more.has_value()) << format_error(more.error());
  EXPECT_EQ(*more, *plain);
  const auto older = read_aot_partition(
      payload(R"("Absolute Memories": [4096],)", R"("Solver": [1, {}],)"), "log.json");
  ASSERT_TRUE(older.has_value()) << format_error(older.error());
  EXPECT_TRUE(older->absolute_memory.empty());
}

TEST(AotPartitionJson, PlacesErrors) {
  using enum ErrorCode;
  const auto expect = [](const std::string& from, const std::string& to, ErrorCode code,
                         const std::string& pointer, const std::string& text = "") {
    SCOPED_TRACE(to);
    expect_error(read_aot_partition(payload(from, to), "l.json"), code, "l.json#" + pointer, text);
  };
  expect(R"("Knapsack Input Memories": [0.25],)", "", kSchema, "", "Knapsack Input Memories");
  expect(R"(["x", "mm"])", R"(["x", "nm"])", kSchema, "/Joint Graph Edges/Edges/0/1",
         "did you mean");
  expect(R"(["x", "mm"])", R"(["mm", "x"])", kValue, "/Joint Graph Edges/Edges", "back");
  expect(R"(["x", "mm"])", R"(["x"])", kSchema, "/Joint Graph Edges/Edges/0");
  expect(R"("Joint Graph Size": 3)", R"("Joint Graph Size": 4)", kConflict, "/Joint Graph Size");
  expect(R"({"index": 2})", R"({"index": 1})", kSchema,
         "/Joint Graph Node Information/output/index");
  expect(R"({"index": 2})", R"({"index": 3})", kSchema,
         "/Joint Graph Node Information/output/index");
  expect(R"({"index": 2})", "{}", kSchema, "/Joint Graph Node Information/output", "index");
  expect(R"(["mm"],)", R"(["mm", "mm"],)", kConflict, "/Recomputable Banned Nodes Order");
  expect(R"(["mm"],)", R"(["mn"],)", kSchema, "/Recomputable Banned Nodes Order/0");
  expect("[0.25]", "[0.25, 1]", kSchema, "/Knapsack Input Memories");
  expect("[32768]", "[]", kSchema, "/Knapsack Input Runtimes");
  expect("[32768]", "[-1]", kValue, "/Knapsack Input Runtimes/0");
  expect("[4096]", "[1, 2]", kSchema, "/Absolute Memories");
  expect(R"("Knapsack Recomputed Nodes": [0])", R"("Knapsack Recomputed Nodes": [0, 0])", kConflict,
         "/Knapsack Saved Nodes");
  expect(R"("Knapsack Recomputed Nodes": [0])", R"("Knapsack Recomputed Nodes": [1])", kConflict,
         "/Knapsack Saved Nodes");
  expect("0.3", "1.5", kValue, "/Memory Budget");
  expect_error(read_aot_partition("[]", "l.json"), kSchema, "l.json#");
}

}  // namespace
}  // namespace plimsoll::io
