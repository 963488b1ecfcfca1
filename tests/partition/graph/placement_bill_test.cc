#include "partition/graph/placement_bill.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "partition/cost_graphs.h"
#include "plimsoll/check/placement_check.h"

namespace plimsoll::partition::placement_bill {
namespace {

using ::testing::ElementsAre;

// a → b → c, a → c: on two accelerators (0, 1) and a CPU (2).
CostGraph chain() {
  CostGraph graph;
  graph.classes = accelerators_and_cpus(2, 1);
  graph.nodes = {cost_node("a", {1, 10}, 5), cost_node("b", {2, 20}, 6),
                 cost_node("c", {3, 30}, 7)};
  graph.nets = {{0, {1, 2}, 0.5}, {1, {2}, 4}};
  return graph;
}

TEST(PlacementBill, ListsStagesInTheLinesOrder) {
  const PlacementBill bill = make_placement_bill(chain(), {{1, 1, 0}});
  EXPECT_TRUE(bill.is_line);
  EXPECT_THAT(bill.stages,
              ElementsAre(Stage{1, {0, 1}, 3, 4.5, 7.5, 11}, Stage{0, {2}, 3, 4.5, 7.5, 7}));
  EXPECT_THAT(bill.cuts, ElementsAre(CutValue{0, 1, {0}, 0.5}, CutValue{1, 1, {0}, 4}));
}

TEST(PlacementBill, ListsStagesByDeviceWhereTheyWaitForEachOther) {
  const PlacementBill bill = make_placement_bill(chain(), {{1, 0, 1}});
  EXPECT_FALSE(bill.is_line);
  EXPECT_THAT(bill.stages,
              ElementsAre(Stage{0, {1}, 2, 4.5, 6.5, 6}, Stage{1, {0, 2}, 4, 4.5, 8.5, 12}));
}

TEST(PlacementBill, SaysWhatACutTakesTheDeviceThatNeedsLongest) {
  const PlacementBill bill = make_placement_bill(chain(), {{0, 2, 1}});  // moving is free on 2
  EXPECT_THAT(bill.cuts, ElementsAre(CutValue{0, 0, {1, 2}, 0.5}, CutValue{1, 2, {1}, 4}));
}

TEST(PlacementBill, TakesTheDeviceWithTheFirstNodeWhereOrderIsFree) {
  CostGraph graph = chain();
  graph.nets.clear();
  EXPECT_THAT(*find_line(graph, {{2, 0, 1}}), ElementsAre(2, 0, 1));
  EXPECT_THAT(*find_line(graph, {{1, 0, 1}}), ElementsAre(1, 0));
}

TEST(PlacementBill, HasNoStageOfAnEmptyGraph) {
  CostGraph graph;
  graph.classes = accelerators_and_cpus(1, 0);
  EXPECT_EQ(make_placement_bill(graph, {}), PlacementBill{});
}

// The judge adds up by itself.
TEST(PlacementBill, AgreesWithTheJudge) {
  for (unsigned seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    const CostGraph graph = random_cost_graph(random);
    DeviceAssignment assignment;
    for (int node = 0; node < graph.num_nodes(); ++node) {
      assignment.device.push_back(
          static_cast<int>(random() % static_cast<unsigned>(graph.num_devices())));
    }
    const auto judged = check::check_placement(graph, assignment);
    ASSERT_TRUE(judged.has_value());
    const PlacementBill bill = make_placement_bill(graph, assignment);
    // Colours that stand on two devices are the judge's, who walks them as wholes.
    EXPECT_TRUE(bill.is_line == judged->is_line || !judged->is_right());
    std::size_t num_nodes = 0;
    for (const Stage& stage : bill.stages) {
      num_nodes += stage.nodes.size();
      if (std::isinf(stage.compute_ms)) continue;
      EXPECT_NEAR(stage.compute_ms, judged->compute_ms[stage.device], 1e-9);
      EXPECT_NEAR(stage.transfer_ms, judged->transfer_ms[stage.device], 1e-9);
      EXPECT_NEAR(stage.load_ms, judged->load_ms[stage.device], 1e-9);
      EXPECT_EQ(stage.memory, judged->memory[stage.device]);
    }
    EXPECT_EQ(num_nodes, graph.nodes.size());
  }
}

}  // namespace
}  // namespace plimsoll::partition::placement_bill
