#include "partition/latency/sample_latency.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "partition/cost_graphs.h"
#include "partition/latency_graphs.h"
#include "plimsoll/check/latency_check.h"

namespace plimsoll::partition {
namespace {

// Naive rounds over sets against one pass over arrays.
TEST(SampleLatency, AgreesWithTheJudgeOnRandomPlacements) {
  int num_circles = 0;
  int num_pieces = 0;
  for (std::uint64_t seed = 0; seed < 400; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    const CostGraph graph = random_latency_graph(random, 12);
    SampleLatency latency(graph);
    for (int trial = 0; trial < 4; ++trial) {
      const DeviceAssignment plan = random_assignment(random, graph);
      const auto report = check::check_latency(graph, plan);
      ASSERT_TRUE(report) << format_error(report.error());
      const double value = latency.evaluate(plan.device);
      if (report->latency_ms == kUnlimited) {
        EXPECT_EQ(value, kUnlimited);
        ++num_circles;
        continue;
      }
      EXPECT_NEAR(value, report->latency_ms, 1e-9 * value);
      EXPECT_EQ(latency.num_tasks(), static_cast<int>(report->tasks.size()));
      for (std::size_t t = 1; t < report->tasks.size(); ++t) {
        const auto& before = report->tasks[t - 1];
        const auto& after = report->tasks[t];
        if (before.device != after.device) continue;
        if (is_host(graph.classes[graph.class_of(after.device)])) continue;
        ++num_pieces;  // they never overlap
        EXPECT_GE(after.start_ms, before.finish_ms - 1e-9);
      }
    }
  }
  EXPECT_GT(num_circles, 20);
  EXPECT_GT(num_pieces, 100);
}

TEST(SampleLatency, NeverFallsAsNodesAreAdded) {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    const CostGraph graph = random_latency_graph(random, 12);
    SampleLatency latency(graph);
    const DeviceAssignment plan = random_assignment(random, graph);
    double before = 0;
    for (int count = 0; count <= graph.num_nodes(); ++count) {
      const double value = latency.evaluate(plan.device, count);
      EXPECT_GE(value, before * (1 - 1e-12));
      before = value;
    }
  }
}

TEST(SampleLatency, HasNothingToRunInAnEmptyGraph) {
  CostGraph graph;
  graph.classes = accelerators_and_cpus(1, 1);
  EXPECT_EQ(SampleLatency(graph).evaluate({}), 0);
}

}  // namespace
}  // namespace plimsoll::partition
