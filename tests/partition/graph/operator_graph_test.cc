#include "plimsoll/partition/operator_graph.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>

#include "partition/operator_graphs.h"

namespace plimsoll::partition {
namespace {

// x, w → linear → view → output
OperatorGraph small() {
  OperatorGraphBuilder b;
  const int x = b.input("x");
  const int w = b.weight("head.weight", 100);
  const int v = b.weight("body.weight", 100);
  const int linear = b.op("linear", {x, w, v});
  b.output({b.view("view", linear)});
  return b.graph;
}

void expect_invalid(const std::function<void(OperatorGraph&)>& spoil, ErrorCode code,
                    const std::string& place, const std::string& part) {
  OperatorGraph graph = small();
  spoil(graph);
  const auto result = validate(graph);
  ASSERT_FALSE(result.has_value()) << part;
  EXPECT_EQ(to_string(result.error().code), to_string(code)) << format_error(result.error());
  EXPECT_EQ(result.error().place, place) << format_error(result.error());
  EXPECT_THAT(result.error().message, ::testing::HasSubstr(part));
  EXPECT_FALSE(result.error().remedy.empty());
}

TEST(OperatorGraph, AcceptsWhatIsRight) {
  EXPECT_TRUE(validate(small()).has_value());
  EXPECT_TRUE(validate(OperatorGraph{}).has_value());
}

TEST(OperatorGraph, RefusesWhatIsWrongAndSaysWhere) {
  using G = OperatorGraph&;
  const std::string linear = "node 3 'linear'";
  expect_invalid([](G g) { g.nodes[3].name.clear(); }, ErrorCode::kValue, "node 3", "no name");
  expect_invalid([](G g) { g.nodes[3].name = "x"; }, ErrorCode::kConflict, "node 3 'x'", "twice");
  expect_invalid([](G g) { g.nodes[3].inputs = {4}; }, ErrorCode::kValue, linear, "node 4");
  expect_invalid([](G g) { g.nodes[3].inputs = {3}; }, ErrorCode::kValue, linear, "node 3");
  expect_invalid([](G g) { g.nodes[3].inputs = {-1}; }, ErrorCode::kValue, linear, "node -1");
  expect_invalid([](G g) { g.nodes[3].inputs = {0, 1, 0}; }, ErrorCode::kConflict, linear, "twice");
  expect_invalid([](G g) { g.nodes[3].output_bytes = -1; }, ErrorCode::kValue, linear, "negative");
  expect_invalid([](G g) { g.nodes[3].bytes_moved = -1; }, ErrorCode::kValue, linear, "negative");
  expect_invalid([](G g) { g.nodes[3].memory = -1; }, ErrorCode::kValue, linear, "negative");
  expect_invalid([](G g) { g.nodes[3].flops = std::nan(""); }, ErrorCode::kValue, linear, "flops");
  expect_invalid([](G g) { g.nodes[3].flops = -1; }, ErrorCode::kValue, linear, "flops");
  expect_invalid([](G g) { g.nodes[3].time_ms = {-1.0}; }, ErrorCode::kValue, linear, "time");
  expect_invalid([](G g) { g.nodes[3].time_ms = {std::numeric_limits<double>::infinity()}; },
                 ErrorCode::kValue, linear, "time");
  expect_invalid([](G g) { g.nodes[3].time_ms = {}; }, ErrorCode::kSchema, linear, "0 times");
  expect_invalid([](G g) { g.nodes[3].is_parameter = true; }, ErrorCode::kValue, linear, "weight");
  expect_invalid([](G g) { g.nodes[4].inputs = {}; }, ErrorCode::kValue, "node 4 'view'",
                 "view of nothing");
  expect_invalid([](G g) { g.nodes[3].is_backward = true; }, ErrorCode::kConflict, "node 4 'view'",
                 "backward");
  expect_invalid(
      [](G g) {
        g.time_columns = {"a", "a"};
      },
      ErrorCode::kConflict, "time_columns", "twice");
  expect_invalid([](G g) { g.ties = {{1, 0}}; }, ErrorCode::kValue, "tie 0", "pair");
  expect_invalid([](G g) { g.ties = {{1, 3}}; }, ErrorCode::kValue, "tie 0", "pair");
  expect_invalid([](G g) { g.ties = {{1, 9}}; }, ErrorCode::kValue, "tie 0", "pair");
  expect_invalid(
      [](G g) {
        g.ties = {{1, 2}};
        g.nodes[2].output_bytes = 99;
      },
      ErrorCode::kConflict, "tie 0", "differ");
  expect_invalid([](G g) { g.nodes[3].output_bytes = INT64_MAX; }, ErrorCode::kOverflow, linear,
                 "2^62");
  expect_invalid(
      [](G g) {
        g.nodes[3].output_bytes = Bytes{1} << 61;
        g.nodes[4].output_bytes = Bytes{1} << 61;
      },
      ErrorCode::kOverflow, "node 4 'view'", "2^62");
  expect_invalid([](G g) { g.nodes.push_back(g.nodes.back()); }, ErrorCode::kConflict,
                 "node 6 'output'", "twice");
  expect_invalid(
      [](G g) {
        g.nodes.push_back(g.nodes.back());
        g.nodes.back().name = "again";
      },
      ErrorCode::kConflict, "node 6 'again'", "second output");
  expect_invalid(
      [](G g) {
        g.nodes.push_back(g.nodes[3]);
        g.nodes.back().name = "late";
        g.nodes.back().inputs = {5};
      },
      ErrorCode::kValue, "node 6 'late'", "reads the output");
}

TEST(OperatorGraph, CountsTiedWeightsOnce) {
  OperatorGraph graph = small();
  EXPECT_EQ(parameter_bytes(graph), 200);
  graph.ties = {{1, 2}};
  EXPECT_EQ(parameter_bytes(graph), 100);
  EXPECT_EQ(buffer_bytes(graph), 0);
  EXPECT_EQ(tied_weights(graph), (std::vector<int>{0, 1, 1, 3, 4, 5}));
}

TEST(OperatorGraph, FollowsTiesThroughEachOther) {
  OperatorGraphBuilder b;
  for (int i = 0; i < 5; ++i) b.weight("w" + std::to_string(i), 10);
  b.graph.ties = {{3, 4}, {1, 3}, {1, 4}};
  ASSERT_TRUE(validate(b.graph).has_value());
  EXPECT_EQ(tied_weights(b.graph), (std::vector<int>{0, 1, 2, 1, 1}));
  EXPECT_EQ(parameter_bytes(b.graph), 30);
}

TEST(OperatorGraph, TellsMutationFromTheName) {
  EXPECT_TRUE(is_mutating_target("aten.add_.Tensor"));
  EXPECT_TRUE(is_mutating_target("aten.index_put_.default"));
  EXPECT_TRUE(is_mutating_target("aten.relu_"));
  EXPECT_FALSE(is_mutating_target("aten.__and__.Tensor"));
  EXPECT_FALSE(is_mutating_target("aten.add.Tensor"));
  EXPECT_FALSE(is_mutating_target("aten._to_copy.default"));
  EXPECT_FALSE(is_mutating_target("getitem"));
  EXPECT_FALSE(is_mutating_target("aten._"));
  EXPECT_FALSE(is_mutating_target(""));
}

TEST(OperatorGraph, HashesNamesTargetsAndInputsAlone) {
  const std::string hash = hash_of(small());
  EXPECT_EQ(hash.size(), 64u);
  OperatorGraph graph = small();
  graph.nodes[3].flops = 7;
  graph.nodes[3].module = "head";
  graph.name = "other";
  EXPECT_EQ(hash_of(graph), hash);
  graph.nodes[3].inputs = {0, 2, 1};
  EXPECT_NE(hash_of(graph), hash);
  graph = small();
  graph.nodes[3].target = "aten.mm.default";
  EXPECT_NE(hash_of(graph), hash);
  graph = small();
  graph.nodes[3].name = "linear_1";
  EXPECT_NE(hash_of(graph), hash);
}

}  // namespace
}  // namespace plimsoll::partition
