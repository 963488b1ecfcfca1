#include "plimsoll/partition/cost_graph.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "partition/cost_graphs.h"

namespace plimsoll::partition {
namespace {

// a → b → c on two accelerators (0, 1) and a CPU (2).
CostGraph chain() {
  CostGraph graph;
  graph.classes = accelerators_and_cpus(2, 1);
  graph.nodes = {cost_node("a", {1, 10}), cost_node("", {2, 20}), cost_node("c", {3, 30})};
  graph.nets = {{0, {1, 2}, 0.5}, {1, {2}, 4}};
  return graph;
}

TEST(CostGraph, NumbersDevicesThroughItsClasses) {
  CostGraph graph = chain();
  graph.classes.insert(graph.classes.begin() + 1, {"none", 0, {}, 1});
  EXPECT_EQ(graph.num_devices(), 3);
  EXPECT_EQ(graph.class_of(0), 0);
  EXPECT_EQ(graph.class_of(1), 0);
  EXPECT_EQ(graph.class_of(2), 2);
}

TEST(CostGraph, AllowsWhatPinsAndClassesAllow) {
  CostGraph graph = chain();
  graph.nodes[0].pinned_device = 1;
  graph.nodes[1].forbidden_devices = {0};
  graph.nodes[2].time_ms[1] = kUnlimited;
  const std::vector<std::vector<bool>> expected = {
      {false, true, false}, {false, true, true}, {true, true, false}};
  for (int node = 0; node < 3; ++node) {
    for (int device = 0; device < 3; ++device) {
      EXPECT_EQ(graph.is_allowed(node, device), expected[node][device]) << node << " " << device;
    }
  }
}

TEST(CostGraph, ChargesANetOnceToEachDeviceItTouches) {
  CostGraph graph = chain();
  EXPECT_EQ(device_loads(graph, {{0, 0, 0}}), (std::vector<double>{6, 0, 0}));
  EXPECT_EQ(device_loads(graph, {{0, 1, 1}}), (std::vector<double>{1.5, 5.5, 0}));
  EXPECT_EQ(device_loads(graph, {{0, 1, 0}}), (std::vector<double>{8.5, 6.5, 0}));
  EXPECT_EQ(device_loads(graph, {{0, 0, 2}}), (std::vector<double>{7.5, 0, 30}));
  graph.classes[0].link_rate = 2;
  EXPECT_EQ(device_loads(graph, {{0, 1, 1}}), (std::vector<double>{1.25, 5.25, 0}));
}

TEST(CostGraph, MovesANetAtTheSlowestLinkInUse) {
  CostGraph graph = chain();
  graph.pair_rates = {{0, 0.5, 0.25}, {0.5, 0, 8}, {0.25, 8, 0}};
  EXPECT_EQ(device_loads(graph, {{0, 1, 2}}), (std::vector<double>{3, 7, 32.5}));
}

TEST(CostGraph, HoldsOneCopyOfAWeightOnEachDeviceThatReadsIt) {
  CostGraph graph = chain();
  graph.nodes[1].memory = 1;
  graph.weights = {{"a", 10, {0, 1}}, {"b", 100, {0, 1, 2}}, {"c", 1000, {}}};
  EXPECT_EQ(device_memory(graph, {{0, 0, 1}}), (std::vector<Bytes>{111, 100, 0}));
}

//   f0 → f1      forward; b0, b1 are their backward mates, o has none.
//   b0 ← b1 ← o  backward nets
TEST(CostGraph, OrdersForwardNodesAndOrphans) {
  CostGraph graph;
  graph.classes = accelerators_and_cpus(1, 0);
  for (int i = 0; i < 5; ++i) {
    graph.nodes.push_back(cost_node("", {1, 1}));
    graph.nodes.back().is_backward = i >= 2;
    if (i < 4) graph.nodes.back().colour = i % 2;
  }
  graph.nets = {{0, {1, 2}, 1}, {3, {2}, 1}, {4, {3}, 1}};
  EXPECT_EQ(pipeline_order(graph), (std::vector<std::pair<int, int>>{{0, 1}, {3, 4}}));
}

TEST(CostGraph, RefusesWhatMakesNoSense) {
  ASSERT_TRUE(validate(chain()).has_value());
  const auto expect = [](ErrorCode code, const std::string& place,
                         const std::function<void(CostGraph&)>& damage) {
    CostGraph graph = chain();
    damage(graph);
    const auto result = validate(graph);
    SCOPED_TRACE(place);
    ASSERT_FALSE(result.has_value());
    EXPECT_EQ(to_string(result.error().code), to_string(code)) << format_error(result.error());
    EXPECT_EQ(result.error().place, place) << format_error(result.error());
    EXPECT_FALSE(result.error().message.empty());
    EXPECT_FALSE(result.error().remedy.empty());
  };
  using G = CostGraph;
  expect(ErrorCode::kValue, "class 0", [](G& g) { g.classes[0].count = -1; });
  expect(ErrorCode::kValue, "class 1", [](G& g) { g.classes[1].memory_cap = -1; });
  expect(ErrorCode::kValue, "class 0", [](G& g) { g.classes[0].link_rate = 0; });
  expect(ErrorCode::kValue, "class 0", [](G& g) { g.classes[0].link_rate = std::nan(""); });
  expect(ErrorCode::kConflict, "class 1", [](G& g) { g.classes[1].name = "accelerator"; });
  expect(ErrorCode::kValue, "classes", [](G& g) { g.classes[0].count = g.classes[1].count = 0; });
  expect(ErrorCode::kValue, "classes", [](G& g) { g.classes[0].count = 1 << 21; });
  expect(ErrorCode::kSchema, "node 0 'a'", [](G& g) { g.nodes[0].time_ms.pop_back(); });
  expect(ErrorCode::kValue, "node 1", [](G& g) { g.nodes[1].time_ms[1] = -1; });
  expect(ErrorCode::kValue, "node 1", [](G& g) { g.nodes[1].time_ms[0] = std::nan(""); });
  expect(ErrorCode::kValue, "node 1", [](G& g) { g.nodes[1].memory = -1; });
  expect(ErrorCode::kValue, "node 1", [](G& g) { g.nodes[1].pinned_device = 3; });
  expect(ErrorCode::kValue, "node 1", [](G& g) { g.nodes[1].forbidden_devices = {-1}; });
  expect(ErrorCode::kConflict, "node 1", [](G& g) { g.nodes[1].forbidden_devices = {1, 0, 1}; });
  expect(ErrorCode::kOverflow, "node 1", [](G& g) {
    g.nodes[0].memory = INT64_MAX;
    g.nodes[1].memory = 1;
  });
  expect(ErrorCode::kValue, "net 1", [](G& g) { g.nets[1].producer = 3; });
  expect(ErrorCode::kValue, "net 1", [](G& g) { g.nets[1].consumers = {-1}; });
  expect(ErrorCode::kValue, "net 0", [](G& g) { g.nets[0].amount = -0.5; });
  expect(ErrorCode::kValue, "net 0", [](G& g) { g.nets[0].amount = kUnlimited; });
  expect(ErrorCode::kConflict, "net 0", [](G& g) { g.nets[0].consumers = {1, 2, 1}; });
  expect(ErrorCode::kConflict, "net 0", [](G& g) { g.nets[0].consumers = {0}; });
  expect(ErrorCode::kConflict, "net 0", [](G& g) { g.nodes[0].is_backward = true; });
  expect(ErrorCode::kConflict, "node 1", [](G& g) { g.nets.push_back({2, {1}, 1}); });
  expect(ErrorCode::kValue, "weight 0", [](G& g) { g.weights = {{"w", -1, {0}}}; });
  expect(ErrorCode::kValue, "weight 0", [](G& g) { g.weights = {{"w", 1, {3}}}; });
  expect(ErrorCode::kConflict, "weight 0", [](G& g) { g.weights = {{"w", 1, {1, 1}}}; });
  expect(ErrorCode::kOverflow, "weight 1", [](G& g) {
    g.weights = {{"v", INT64_MAX, {}}, {"w", 1, {}}};
  });
  expect(ErrorCode::kSchema, "pair_rates", [](G& g) { g.pair_rates = {{1, 1}, {1, 1}}; });
  expect(ErrorCode::kValue, "pair_rates", [](G& g) {
    g.pair_rates = {{1, 1, 1}, {1, 1, 1}, {1, 2, 1}};
  });
  expect(ErrorCode::kValue, "pair_rates", [](G& g) {
    g.pair_rates = {{1, 1, 0}, {1, 1, 1}, {0, 1, 1}};
  });
}

}  // namespace
}  // namespace plimsoll::partition
