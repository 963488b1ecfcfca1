#include "plimsoll/check/placement_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace plimsoll::check::placement_check {
namespace {

using partition::CostGraph;
using partition::CostNode;
using partition::kUnlimited;
using ::testing::ElementsAre;
using Code = FindingCode;

std::vector<Code> codes(const PlacementReport& report) {
  std::vector<Code> list;
  for (const Finding& violation : report.violations()) list.push_back(violation.code);
  return list;
}

PlacementReport judge(const CostGraph& graph, std::vector<int> device,
                      const PlacementCheckOptions& options = {}) {
  return check_placement(graph, {std::move(device)}, options).value();
}

//   0 ──1──→ 1 ──2──→ 2      times 1, 2, 4, 8 on an accelerator, tenfold on a CPU; bytes the same;
//   └────────1───────→ 3     0 feeds 1 and 3 by one net. Devices 0 to 2 accelerators, 3 a CPU.
CostGraph fork() {
  CostGraph graph;
  graph.classes = {{"accelerator", 3, 12, 1}, {"cpu", 1, {}, kUnlimited}};
  for (int i = 0; i < 4; ++i) {
    CostNode& node = graph.nodes.emplace_back();
    const double time = 1 << i;
    node.time_ms = {time, 10 * time};
    node.memory = 1 << i;
  }
  graph.nets = {{0, {1, 3}, 1}, {1, {2}, 2}};
  return graph;
}

TEST(PlacementCheck, AddsUpTimesTransfersAndBytes) {
  const PlacementReport report = judge(fork(), {0, 0, 1, 3});
  EXPECT_TRUE(report.is_right());
  EXPECT_THAT(report.compute_ms, ElementsAre(3, 4, 0, 80));
  EXPECT_THAT(report.transfer_ms, ElementsAre(3, 2, 0, 0));  // both nets leave device 0
  EXPECT_THAT(report.load_ms, ElementsAre(6, 6, 0, 80));
  EXPECT_THAT(report.memory, ElementsAre(3, 4, 0, 8));
  EXPECT_THAT(report.is_contiguous, ElementsAre(true, true, true, true));
  EXPECT_TRUE(report.is_line);
  EXPECT_EQ(report.max_load, 80);
}

TEST(PlacementCheck, ChargesOneNetToThreeDevicesOnceEach) {
  EXPECT_THAT(judge(fork(), {0, 1, 1, 2}).transfer_ms, ElementsAre(1, 1, 1, 0));
}

TEST(PlacementCheck, DividesByTheLinkRate) {
  CostGraph graph = fork();
  graph.classes[0].link_rate = 4;
  EXPECT_THAT(judge(graph, {0, 0, 1, 3}).transfer_ms, ElementsAre(0.75, 0.5, 0, 0));
}

TEST(PlacementCheck, ChargesAWeightOnceToEachDeviceThatReadsIt) {
  CostGraph graph = fork();
  graph.weights = {{"tied", 16, {0, 1, 2}}, {"unread", 32, {}}};
  const PlacementReport report = judge(graph, {0, 0, 1, 3});
  EXPECT_THAT(report.memory, ElementsAre(3 + 16, 4 + 16, 0, 8));
  EXPECT_THAT(codes(report), ElementsAre(Code::kOverMemory, Code::kOverMemory));
}

// Device 0 sends net 0 to 1 and 2: at its slowest link. Both receive it at their link to 0 alone.
TEST(PlacementCheck, TakesTheSlowestOfTheLinksInUse) {
  CostGraph graph = fork();
  graph.pair_rates = {{9, 0.5, 0.25, 1}, {0.5, 9, 0.125, 1}, {0.25, 0.125, 9, 1}, {1, 1, 1, 9}};
  EXPECT_THAT(judge(graph, {0, 1, 1, 2}).transfer_ms, ElementsAre(4, 2, 4, 0));
}

TEST(PlacementCheck, NamesWhatIsNotAllowed) {
  CostGraph graph = fork();
  graph.nodes[0].pinned_device = 1;
  graph.nodes[1].forbidden_devices = {0};
  graph.nodes[2].time_ms[0] = kUnlimited;
  graph.nodes[3].colour = 7;
  graph.nodes[0].colour = 7;
  EXPECT_THAT(codes(judge(graph, {0, 0, 1, 3})),
              ElementsAre(Code::kPinBroken, Code::kForbiddenDevice, Code::kNotSupported,
                          Code::kColourSplit));
  graph.classes[0].memory_cap = 9;
  EXPECT_THAT(codes(judge(graph, {1, 2, 3, 1})), ElementsAre());
}

TEST(PlacementCheck, AllowsADeviceToBeFullAndNotMore) {
  CostGraph graph = fork();
  EXPECT_TRUE(judge(graph, {0, 0, 1, 1}).is_right());  // 12 of 12
  graph.classes[0].memory_cap = 11;
  const PlacementReport report = judge(graph, {0, 0, 1, 1});
  EXPECT_THAT(codes(report), ElementsAre(Code::kOverMemory));
  EXPECT_EQ(report.violations()[0].unit, (FindingUnit{FindingUnit::kDevice, 1}));
}

TEST(PlacementCheck, FindsNodesOnNoDevice) {
  EXPECT_THAT(codes(judge(fork(), {0, -1, 4, 3})),
              ElementsAre(Code::kUnknownDevice, Code::kUnknownDevice));
}

TEST(PlacementCheck, FindsAPathThatComesBack) {
  const PlacementReport report = judge(fork(), {0, 1, 0, 3});
  EXPECT_THAT(codes(report), ElementsAre(Code::kNotContiguous));
  EXPECT_EQ(report.violations()[0].unit, (FindingUnit{FindingUnit::kDevice, 0}));
  EXPECT_THAT(report.is_contiguous, ElementsAre(false, true, true, true));
  EXPECT_FALSE(report.is_line);
  EXPECT_TRUE(judge(fork(), {0, 1, 0, 3}, {false, {}}).is_right());
}

//   0 → 1    2 → 3   with 0 and 3 on one device, 1 and 2 on the other: no path comes back to its
//   device, yet each device waits for the other.
TEST(PlacementCheck, FindsDevicesThatWaitForEachOther) {
  CostGraph graph = fork();
  graph.nets = {{0, {1}, 1}, {2, {3}, 1}};
  const PlacementReport report = judge(graph, {0, 1, 1, 0});
  EXPECT_THAT(codes(report), ElementsAre(Code::kNoLineOfDevices));
  EXPECT_THAT(report.is_contiguous, ElementsAre(true, true, true, true));
}

//   0 → 1    2 → 3   with 1 and 2 of one colour: what reaches 1 goes on from 2, so {0, 3} comes
//   back.
TEST(PlacementCheck, WalksColoursAsWholes) {
  CostGraph graph = fork();
  graph.nets = {{0, {1}, 1}, {2, {3}, 1}};
  graph.nodes[1].colour = graph.nodes[2].colour = 0;
  EXPECT_THAT(codes(judge(graph, {0, 1, 1, 0})), ElementsAre(Code::kNotContiguous));
}

//   0 → 2         forward; 1 and 4 are the backward mates of 0 and 2.
//   1 ← 3 ← 4     backward; 3 has no mate and stands between 0 and 2.
TEST(PlacementCheck, LetsTheBackwardPassRunTheOtherWay) {
  CostGraph graph = fork();
  graph.classes[0].memory_cap.reset();
  graph.nodes.push_back(graph.nodes[3]);
  for (const int i : {1, 3, 4}) graph.nodes[i].is_backward = true;
  graph.nodes[0].colour = graph.nodes[1].colour = 0;
  graph.nodes[2].colour = graph.nodes[4].colour = 1;
  graph.nets = {{0, {2}, 1}, {3, {1}, 1}, {4, {3}, 1}};
  EXPECT_TRUE(judge(graph, {0, 0, 2, 1, 2}).is_right());
  EXPECT_TRUE(judge(graph, {0, 0, 0, 0, 0}).is_right());
  EXPECT_THAT(codes(judge(graph, {0, 0, 0, 1, 0})), ElementsAre(Code::kNotContiguous));
  // With a mate of its own, unordered, it stands anywhere.
  graph.nodes.push_back(graph.nodes[0]);
  graph.nodes[3].colour = graph.nodes[5].colour = 2;
  EXPECT_TRUE(judge(graph, {0, 0, 0, 1, 0, 1}).is_right());
}

TEST(PlacementCheck, ComparesTheStatedLoad) {
  EXPECT_TRUE(judge(fork(), {0, 0, 1, 3}, {true, 80 * (1 + 1e-12)}).is_right());
  EXPECT_THAT(codes(judge(fork(), {0, 0, 1, 3}, {true, 80.001})), ElementsAre(Code::kLoadMismatch));
}

TEST(PlacementCheck, ComparesWhatIsStatedOfEachDevice) {
  // Device 0 runs nodes 0 and 1 and moves both nets, device 1 node 2, device 3 node 3.
  PlacementCheckOptions options;
  options.stated = {{3, 3, 6, 3}, {4, 2, 6, 4}, {0, 0, 0, 0}, {80, 0, 80, 8}};
  options.stated_classes = fork().classes;
  EXPECT_TRUE(judge(fork(), {0, 0, 1, 3}, options).is_right());
  EXPECT_TRUE(judge(fork(), {0, 0, 1, 3}, {true, {}, std::vector<StatedDevice>(4)}).is_right());
  for (const auto figure :
       {&StatedDevice::compute_ms, &StatedDevice::transfer_ms, &StatedDevice::load_ms}) {
    PlacementCheckOptions edited = options;
    *(edited.stated[1].*figure) += 1e-6;
    const PlacementReport report = judge(fork(), {0, 0, 1, 3}, edited);
    EXPECT_THAT(codes(report), ElementsAre(Code::kTimeMismatch));
    EXPECT_EQ(report.violations()[0].unit, (FindingUnit{FindingUnit::kDevice, 1}));
  }
  *options.stated[3].memory += 1;
  EXPECT_THAT(codes(judge(fork(), {0, 0, 1, 3}, options)), ElementsAre(Code::kMemoryMismatch));
  options.stated_classes[0].memory_cap = 13;
  EXPECT_THAT(codes(judge(fork(), {0, 0, 1, 3}, options)),
              ElementsAre(Code::kWrongDevices, Code::kMemoryMismatch));
}

TEST(PlacementCheck, RefusesBadArguments) {
  PlacementCheckOptions options;
  options.stated.resize(3);
  EXPECT_EQ(check_placement(fork(), {{0, 0, 0, 0}}, options).error().code, ErrorCode::kSchema);
  EXPECT_EQ(check_placement(fork(), {{0, 0, 0}}).error().code, ErrorCode::kSchema);
  CostGraph graph = fork();
  graph.nets[0].amount = -1;
  EXPECT_EQ(check_placement(graph, {{0, 0, 0, 0}}).error().code, ErrorCode::kValue);
}

TEST(PlacementCheck, NamesItsCodes) {
  EXPECT_EQ(to_string(Code::kNoLineOfDevices), "no_line_of_devices");
}

}  // namespace
}  // namespace plimsoll::check::placement_check
