#include "plimsoll/check/critical_path_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <utility>

namespace plimsoll::check {
namespace {

using partition::Graph;
using partition::Node;
using partition::OpKind;
using partition::PartitionerConfig;
using partition::Placement;
using ::testing::ElementsAre;
using Code = FindingCode;

std::vector<Code> codes(const CriticalPathReport& report) {
  std::vector<Code> list;
  for (const Finding& violation : report.violations()) list.push_back(violation.code);
  return list;
}

//   x ──→ a ──→ b ──→ d     values of 10 bytes; a, b, c, d own 20 more; a takes 1 s, b 2, c 4, d 8;
//   └───→ c ──────────┘     one byte a second
struct Problem {
  Graph graph;
  PartitionerConfig config;
};

Problem fork() {
  std::vector<Node> nodes = {
      {"x", OpKind::kPlaceholder, "", {}, {10, 10}},
      {"a", OpKind::kCallModule, "", {0}, {10, 30}},
      {"b", OpKind::kCallModule, "", {1}, {10, 30}},
      {"c", OpKind::kCallModule, "", {0}, {10, 30}},
      {"d", OpKind::kCallModule, "", {2, 3}, {10, 30}},
      {"output", OpKind::kOutput, "", {4}, {}},
  };
  Problem problem;
  problem.graph = partition::make_graph(nodes).value();
  problem.config.devices = {{"p", 110, 0}, {"q", 50, 1}};
  problem.config.transfer_rate_bytes_per_sec = 1;
  problem.config.node_to_latency_mapping.resize(6);
  for (int i = 1; i <= 4; ++i) {
    problem.config.node_to_latency_mapping[i] =
        partition::NodeLatency{static_cast<double>(1 << (i - 1)), 0};
  }
  return problem;
}

//   partition 0 on p: x a b d; partition 1 on q: x c
Placement halves() {
  Placement placement;
  placement.partitions.resize(2);
  placement.partitions[0].nodes = {0, 1, 2};
  placement.partitions[0].logical_device_ids = {0};
  placement.partitions[1].nodes = {0, 3};
  placement.partitions[1].id = 1;
  placement.partitions[1].logical_device_ids = {1};
  placement.partitions.emplace_back().nodes = {4};
  placement.partitions[2].id = 2;
  placement.partitions[2].logical_device_ids = {0};
  placement.node_to_partition = {0, 0, 0, 1, 2, {}};
  return placement;
}

CriticalPathReport judge(const Problem& problem, const Placement& placement,
                         std::optional<double> stated = {}) {
  return check_critical_path(problem.graph, problem.config, placement, stated).value();
}

TEST(CriticalPathCheck, AddsUpPathsAndBytes) {
  const CriticalPathReport report = judge(fork(), halves(), 4 + 10 + 8);
  EXPECT_TRUE(report.is_right());
  EXPECT_EQ(report.critical_path_sec, 22);           // c, its transfer, d
  EXPECT_THAT(report.memory, ElementsAre(110, 40));  // x, a, b, d and c's value; x and c
}

TEST(CriticalPathCheck, FillsADeviceToItsLastByteAndNotMore) {
  Problem problem = fork();
  problem.config.devices[0].available_mem_bytes = 109;
  EXPECT_THAT(codes(judge(problem, halves())), ElementsAre(Code::kOverMemory));
}

TEST(CriticalPathCheck, NamesWhatIsNotRight) {
  Placement placement = halves();
  placement.partitions[1].nodes = {3};
  EXPECT_THAT(codes(judge(fork(), placement)), ElementsAre(Code::kMissingSource));
  placement = halves();
  placement.partitions[2].nodes = {3, 4};
  EXPECT_THAT(codes(judge(fork(), placement)), ::testing::Contains(Code::kNotPlaced));
  placement = halves();
  placement.node_to_partition[3] = 0;
  EXPECT_THAT(codes(judge(fork(), placement)), ElementsAre(Code::kMappingMismatch));
  placement = halves();
  placement.partitions[1].logical_device_ids = {7};
  EXPECT_THAT(codes(judge(fork(), placement)), ElementsAre(Code::kUnknownDevice));
  EXPECT_THAT(codes(judge(fork(), halves(), 21)), ElementsAre(Code::kPathMismatch));
  placement = halves();
  placement.partitions[1].nodes = {0, 3, 9};
  EXPECT_FALSE(check_critical_path(fork().graph, fork().config, placement));
}

// a and d together, b alone: each waits for the other.
TEST(CriticalPathCheck, FindsPartitionsThatWaitForEachOther) {
  Placement placement = halves();
  placement.partitions[0].nodes = {0, 1, 4};
  placement.partitions[2].nodes = {2};
  placement.node_to_partition = {0, 0, 2, 1, 0, {}};
  EXPECT_THAT(codes(judge(fork(), placement)), ElementsAre(Code::kPartitionsWait));
}

}  // namespace
}  // namespace plimsoll::check
