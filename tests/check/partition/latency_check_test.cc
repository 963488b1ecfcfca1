#include "plimsoll/check/latency_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <utility>

namespace plimsoll::check {
namespace {

using partition::CostGraph;
using partition::CostNode;
using partition::kUnlimited;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using Code = FindingCode;

std::vector<Code> codes(const LatencyReport& report) {
  std::vector<Code> list;
  for (const Finding& violation : report.violations()) list.push_back(violation.code);
  return list;
}

LatencyReport judge(const CostGraph& graph, std::vector<int> device,
                    std::optional<double> stated = {}) {
  return check_latency(graph, {std::move(device)}, stated).value();
}

//   0 ──1──→ 1 ──2──→ 2 ──4──→ 3     times 1, 2, 4, 8 on an accelerator, tenfold on a host;
//   └───────────1──────────────┘     0 feeds 1 and 3 by one net. Devices 0 to 2 accelerators of 9
//                                    bytes, 3 a host; bytes as times.
CostGraph chain() {
  CostGraph graph;
  graph.classes = {{"accelerator", 3, 9, 1}, {"cpu", 1, {}, kUnlimited}};
  for (int i = 0; i < 4; ++i) {
    CostNode& node = graph.nodes.emplace_back();
    const double time = 1 << i;
    node.time_ms = {time, 10 * time};
    node.memory = 1 << i;
  }
  graph.nets = {{0, {1, 3}, 1}, {1, {2}, 2}, {2, {3}, 4}};
  return graph;
}

TEST(LatencyCheck, AddsUpWhatATaskMovesAndRuns) {
  const LatencyReport report = judge(chain(), {0, 0, 1, 1});
  EXPECT_THAT(codes(report), ElementsAre(Code::kOverMemory));  // 12 on 9
  ASSERT_EQ(report.tasks.size(), 2u);
  const LatencyTask& first = report.tasks[0];
  EXPECT_THAT(first.nodes, ElementsAre(0, 1));
  EXPECT_EQ(first.bring_in_ms, 0);
  EXPECT_EQ(first.compute_ms, 3);
  EXPECT_EQ(first.take_out_ms, 3);  // both nets, once each
  EXPECT_EQ(first.finish_ms, 6);
  const LatencyTask& second = report.tasks[1];
  EXPECT_EQ(second.start_ms, 6);
  EXPECT_EQ(second.bring_in_ms, 3);
  EXPECT_EQ(second.finish_ms, 21);
  EXPECT_EQ(report.latency_ms, 21);
}

// The host pays for no transfer and starts a node when its inputs are ready.
TEST(LatencyCheck, RunsHostNodesOneByOne) {
  EXPECT_EQ(judge(chain(), {3, 3, 3, 3}).latency_ms, 150);
  EXPECT_EQ(judge(chain(), {3, 3, 0, 3}).latency_ms, 30 + 2 + 4 + 4 + 80);
  CostGraph graph = chain();
  graph.nets = {{0, {1, 2}, 1}};  // 1 and 2 side by side, 3 alone
  EXPECT_EQ(judge(graph, {3, 3, 3, 3}).latency_ms, 80);
}

// 0 and 3 share a device, what is between them runs elsewhere: two pieces, and the net from 0 to 3
// is moved out of the one and into the other.
TEST(LatencyCheck, CutsADeviceIntoPieces) {
  const LatencyReport report = judge(chain(), {0, 1, 1, 0});
  EXPECT_TRUE(report.is_right());
  ASSERT_EQ(report.tasks.size(), 3u);
  EXPECT_THAT(report.tasks[0].nodes, ElementsAre(0));
  EXPECT_THAT(report.tasks[1].nodes, ElementsAre(3));
  EXPECT_EQ(report.tasks[0].finish_ms, 1 + 1);
  EXPECT_EQ(report.tasks[2].finish_ms, 2 + 1 + 6 + 4);
  EXPECT_EQ(report.tasks[1].bring_in_ms, 1 + 4);
  EXPECT_EQ(report.latency_ms, 13 + 5 + 8);
}

//   0 → 1    2 → 3   with 0 and 3 on one device, 1 and 2 on the other.
TEST(LatencyCheck, FindsPiecesThatWaitForEachOther) {
  CostGraph graph = chain();
  graph.nets = {{0, {1}, 1}, {2, {3}, 1}};
  const LatencyReport report = judge(graph, {0, 1, 1, 0});
  EXPECT_THAT(codes(report), ElementsAre(Code::kTasksWait));
  EXPECT_EQ(report.latency_ms, kUnlimited);
  EXPECT_THAT(report.tasks, IsEmpty());
}

TEST(LatencyCheck, TakesTheSlowestLinkInUse) {
  CostGraph graph = chain();
  graph.pair_rates = {{1, 0.5, 0.25, 1}, {0.5, 1, 1, 1}, {0.25, 1, 1, 1}, {1, 1, 1, 1}};
  // Net 0 leaves device 0 for 1 and 2 at a quarter, enters 1 at a half and 2 at a quarter.
  const LatencyReport report = judge(graph, {0, 1, 3, 2});
  EXPECT_EQ(report.tasks[0].take_out_ms, 4);
  EXPECT_EQ(report.tasks[1].bring_in_ms, 2);
  EXPECT_EQ(report.tasks[2].bring_in_ms, 4 + 4);
}

TEST(LatencyCheck, NamesWhatIsNotAllowedAndCompares) {
  CostGraph graph = chain();
  graph.nodes[0].pinned_device = 1;
  graph.nodes[2].colour = graph.nodes[3].colour = 5;
  EXPECT_THAT(codes(judge(graph, {0, 0, 1, 3})), ElementsAre(Code::kPinBroken, Code::kColourSplit));
  EXPECT_TRUE(judge(chain(), {3, 3, 3, 3}, 150).is_right());
  EXPECT_THAT(codes(judge(chain(), {3, 3, 3, 3}, 150.001)), ElementsAre(Code::kLatencyMismatch));
  EXPECT_THAT(codes(judge(chain(), {3, 3, 4, 3})), ElementsAre(Code::kUnknownDevice));
  EXPECT_FALSE(check_latency(chain(), {{0, 0}}));
}

}  // namespace
}  // namespace plimsoll::check
