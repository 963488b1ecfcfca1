// The reference search on graphs that were solved by hand. Times are seconds, sizes bytes; a node
// is written name(output/total), or name(size) where both are one.

#include "plimsoll/partition/partitioner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "partition/fx/latency.h"
#include "partition/graphs.h"

namespace plimsoll::partition {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

using Names = std::vector<std::string>;
using Ids = std::vector<int>;

Dialect dialect(const char* name) { return find_dialect(name).value(); }

ReferencePartition run(const Graph& graph, const PartitionerConfig& config,
                       const Dialect& release = default_dialect()) {
  const auto result = partition_like_torch(graph, config, release);
  EXPECT_TRUE(result) << format_error(result.error());
  if (result && result->failure) ADD_FAILURE() << format_error(*result->failure);
  return result.value_or(ReferencePartition{});
}

// "Class: text", as Python prints it; empty if nothing is raised.
std::string raised(const Graph& graph, const PartitionerConfig& config,
                   const Dialect& release = default_dialect()) {
  const auto result = partition_like_torch(graph, config, release);
  if (!result) {
    EXPECT_NE(result.error().code, ErrorCode::kPlanner);
    return result.error().kind + ": " + result.error().message;
  }
  if (!result->failure) return "";
  EXPECT_EQ(result->failure->code, ErrorCode::kPlanner);
  EXPECT_EQ(result->outcome.status, SolveStatus::kLimit);
  EXPECT_FALSE(result->outcome.plan);
  EXPECT_TRUE(std::isnan(result->outcome.certificate.objective));
  return result->failure->kind + ": " + result->failure->message;
}

struct Expected {
  Names nodes;
  Bytes used = 0;
  Ids devices;
  bool operator==(const Expected&) const = default;
};
void PrintTo(const Expected& expected, std::ostream* out) {
  *out << ::testing::PrintToString(expected.nodes) << " " << expected.used << " on "
       << ::testing::PrintToString(expected.devices);
}

std::vector<Expected> summary(const Graph& graph, const ReferencePartition& result) {
  std::vector<Expected> list;
  if (!result.outcome.plan) return list;
  for (const Partition& partition : result.outcome.plan->partitions) {
    list.push_back(
        {names(graph, partition.nodes), partition.used_mem_bytes, partition.logical_device_ids});
  }
  return list;
}

PartitionerConfig on(const std::vector<Bytes>& memories,
                     PartitionMode mode = PartitionMode::kSizeBased) {
  PartitionerConfig config;
  config.devices = devices(memories);
  config.mode = mode;
  return config;
}

//   x(10) ──► l0(10/60) ──► l1(10/60) ──► ... ──► l5(10/60) ──► output      together 370
Graph chain_of_six() {
  GraphBuilder builder;
  builder.input("x", 10).module("l0", {"x"}, 10, 60);
  for (int i = 1; i < 6; ++i) {
    builder.module("l" + std::to_string(i), {"l" + std::to_string(i - 1)}, 10, 60);
  }
  return builder.output({"l5"}).build();
}

// ---------------------------------------------------------------------------- before the modes

TEST(Partitioner, KeepsAGraphThatFitsTogetherOnTheLargestDevice) {
  const Graph graph =
      GraphBuilder().input("a", 4).input("b", 4).call("add", {"a", "b"}, 4).output({"add"}).build();
  for (const PartitionMode mode : {PartitionMode::kSizeBased, PartitionMode::kSparseNn,
                                   PartitionMode::kCostAware, PartitionMode::kKlBased}) {
    const ReferencePartition result = run(graph, on({125, 150, 150}, mode));
    EXPECT_THAT(summary(graph, result), ElementsAre(Expected{{"a", "b", "add"}, 12, {1}}));
    EXPECT_EQ(result.outcome.status, SolveStatus::kFeasible);
    EXPECT_EQ(result.outcome.plan->partitions[0].bfs_level, -1);
    EXPECT_EQ(result.split.nodes, (Names{"a", "b", "submod_0", "output"}));
    EXPECT_THAT(result.split.dag,
                ElementsAre(DagNode{"submod_0", {"a", "b"}, {"submod_0"}, {1}, 12}));
  }
  EXPECT_THAT(summary(graph, run(graph, on({12}))),
              ElementsAre(Expected{{"a", "b", "add"}, 12, {0}}));
}

TEST(Partitioner, RefusesWhatCannotBegin) {
  const Graph chain = chain_of_six();
  EXPECT_EQ(raised(chain, on({})), "RuntimeError: No devices");
  const Graph idle = GraphBuilder().input("a", 4).output({"a"}).build();
  EXPECT_EQ(raised(idle, on({100})),
            "RuntimeError: No Partition since no operations in the module");
  EXPECT_EQ(raised(chain, on({300, 69})),
            "RuntimeError: Devices do not have enough memory for the module");
  EXPECT_EQ(raised(chain, on({300, 69}), dialect("torch-1.13")),
            "RuntimeError: Devices have no enough memory for the module");
  EXPECT_NE(raised(chain, on({300, 70})),
            "RuntimeError: Devices do not have enough memory for the module");
  PartitionerConfig senseless = on({100});
  senseless.transfer_rate_bytes_per_sec = -1;
  EXPECT_EQ(partition_like_torch(chain, senseless).error().code, ErrorCode::kValue);
}

TEST(Partitioner, SizesEndAtTheOutput) {
  const Graph graph = GraphBuilder()
                          .input("x", 10)
                          .call("a", {"x"}, 10)
                          .output({"a"})
                          .call("late", {"a"}, 1000)
                          .build();
  EXPECT_THAT(summary(graph, run(graph, on({20}), dialect("torch-2.13"))),
              ElementsAre(Expected{{"x", "a", "late"}, 20, {0}}));
  for (const PartitionMode mode : {PartitionMode::kSizeBased, PartitionMode::kSparseNn,
                                   PartitionMode::kCostAware, PartitionMode::kAotBased}) {
    const Graph light = GraphBuilder()
                            .input("x", 10)
                            .input("unread", 6)
                            .call("a", {"x"}, 5)
                            .output({"a"})
                            .call("late", {"a"}, 0)
                            .build();
    PartitionerConfig config = on({16, 16}, mode);
    config.node_to_latency_mapping = equal_latencies(light, 1, 1);
    config.node_to_partition_mapping = {{4, 0}};
    config.partition_to_logical_device_mapping = {{0, {0}}};
    EXPECT_EQ(raised(light, config), "RuntimeError: node has no size_bytes attr");
  }
}

// ---------------------------------------------------------------------------- size_based

//   a(16) ─┬─► add(16) ─► linear(16/96) ─► add_1(16) ─► output
//   b(16) ─┘                     c(16) ───┘
// add leaves 125 - 48 = 77 of the first device, linear needs 96; it leaves 13, add_1 needs 48.
TEST(SizeBased, StartsANewDeviceWhereOneIsFull) {
  const Graph graph = GraphBuilder()
                          .input("a", 16)
                          .input("b", 16)
                          .call("add", {"a", "b"}, 16)
                          .module("linear", {"add"}, 16, 96)
                          .constant("c", 16)
                          .call("add_1", {"linear", "c"}, 16)
                          .output({"add_1"})
                          .build();
  const ReferencePartition result = run(graph, on({125, 125, 125}));
  EXPECT_THAT(summary(graph, result),
              ElementsAre(Expected{{"a", "b", "add"}, 48, {0}}, Expected{{"linear"}, 112, {1}},
                          Expected{{"c", "add_1"}, 48, {2}}));
  const auto& partitions = result.outcome.plan->partitions;
  EXPECT_EQ(partitions[0].children, Ids{1});
  EXPECT_EQ(partitions[1].parents, Ids{0});
  EXPECT_EQ(partitions[1].children, Ids{2});
  EXPECT_THAT(result.split.dag,
              ElementsAre(DagNode{"submod_0", {"a", "b"}, {"submod_0"}, {0}, 48},
                          DagNode{"submod_1", {"submod_0"}, {"submod_1"}, {1}, 112},
                          DagNode{"submod_2", {"submod_1", "c"}, {"submod_2"}, {2}, 48}));
}

TEST(SizeBased, FillsADeviceToTheLastByte) {
  const Graph graph = chain_of_six();
  const auto singles = summary(graph, run(graph, on({70, 70, 70, 70, 70, 70})));
  ASSERT_EQ(singles.size(), 6u);
  EXPECT_EQ(singles[5], (Expected{{"l5"}, 70, {5}}));
  EXPECT_THAT(summary(graph, run(graph, on({140, 150, 140}))),
              ElementsAre(Expected{{"x", "l0", "l1"}, 130, {0}}, Expected{{"l2", "l3"}, 130, {1}},
                          Expected{{"l4", "l5"}, 130, {2}}));
  EXPECT_THAT(summary(graph, run(graph, on({260, 190}))),
              ElementsAre(Expected{{"x", "l0", "l1", "l2", "l3"}, 250, {0}},
                          Expected{{"l4", "l5"}, 130, {1}}));
  EXPECT_EQ(raised(graph, on({185, 190})),
            "RuntimeError: Cannot Get a Valid Partition to Logical Device Mapping");
}

// After add and add_1 the second device is full to the byte. add_2 stands alone: the second device
// holds both its inputs and has 0 left, 16 are needed; the first has 72 left, 48 are needed.
TEST(SizeBased, PlacesTheRestByBestFit) {
  const Graph graph = GraphBuilder()
                          .input("a", 16)
                          .constant("t0", 16)
                          .call("add", {"a", "t0"}, 16)
                          .module("linear", {"add"}, 16, 96)
                          .constant("t1", 16)
                          .add("add_1", OpKind::kCallMethod, {"t1", "a"}, 16)
                          .call("add_2", {"add_1", "linear"}, 16)
                          .output({"add_2"})
                          .build();
  const ReferencePartition result = run(graph, on({120, 160}));
  EXPECT_THAT(summary(graph, result),
              ElementsAre(Expected{{"a", "t0", "add"}, 48, {0}},
                          Expected{{"a", "linear", "t1", "add_1"}, 160, {1}},
                          Expected{{"add_2"}, 48, {0}}));
  EXPECT_EQ(result.outcome.plan->node_to_partition[0], 1);  // a: the last of its two
  EXPECT_EQ(result.split.dag[1],
            (DagNode{"submod_1", {"submod_0", "t1", "a"}, {"getitem", "getitem_1"}, {1}, 160}));
}

//   x(10) ──► a(10/40) ──► b(10/40) ──► c(5)
// The second device is full after b; c needs 5 + 10 beside nothing of its own on the first one,
// which has `room` left: the room must be larger than the need.
TEST(SizeBased, MapsNoPartitionIntoRoomOfExactlyItsSize) {
  const Graph graph = GraphBuilder()
                          .input("x", 10)
                          .module("a", {"x"}, 10, 40)
                          .module("b", {"a"}, 10, 40)
                          .call("c", {"b"}, 5)
                          .output({"c"})
                          .build();
  EXPECT_THAT(summary(graph, run(graph, on({66, 50}))),
              ElementsAre(Expected{{"x", "a"}, 50, {0}}, Expected{{"b"}, 50, {1}},
                          Expected{{"c"}, 15, {0}}));
  EXPECT_EQ(raised(graph, on({65, 50})),
            "RuntimeError: Cannot Get a Valid Partition to Logical Device Mapping");
}

// The first device could not hold a alone and is left out, until b, which it can hold.
TEST(SizeBased, ComesBackToADeviceThatWasTooSmall) {
  const Graph graph = GraphBuilder()
                          .input("x", 10)
                          .module("a", {"x"}, 10, 60)
                          .call("b", {"a"}, 10)
                          .output({"b"})
                          .build();
  EXPECT_THAT(summary(graph, run(graph, on({20, 75}))),
              ElementsAre(Expected{{"x", "a"}, 70, {1}}, Expected{{"b"}, 20, {0}}));
}

// z has no bytes and takes the first device; a then finds the partition still empty and takes the
// second one for it, where its 90 bytes are counted.
TEST(SizeBased, TakesASecondDeviceAfterOperatorsWithoutBytes) {
  const Graph graph = GraphBuilder()
                          .input("x", 0)
                          .call("z", {"x"}, 0)
                          .module("a", {"z"}, 10, 90)
                          .module("b", {"a"}, 10, 80)
                          .output({"b"})
                          .build();
  EXPECT_THAT(summary(graph, run(graph, on({100, 95, 100}))),
              ElementsAre(Expected{{"x", "z", "a"}, 90, {0, 1}}, Expected{{"b"}, 90, {2}}));
}

//   a(16) ──► linear(16/96) ──► add(16) ◄── a      linear alone needs 112
TEST(SizeBased, NamesTheOperatorThatIsTooLarge) {
  const Graph graph = GraphBuilder()
                          .input("a", 16)
                          .module("linear", {"a"}, 16, 96)
                          .call("add", {"linear", "a"}, 16)
                          .output({"add"})
                          .build();
  const PartitionerConfig config = on({40, 40, 40, 40});
  EXPECT_EQ(raised(graph, config), "RuntimeError: linear is too large to fit any device");
  EXPECT_EQ(raised(graph, config, dialect("torch-1.13")),
            "RuntimeError: linearis too large to fit any device");
  const auto result = partition_like_torch(graph, config);
  EXPECT_EQ(result->failure->place, "linear");
  EXPECT_THAT(result->failure->remedy, HasSubstr("112 bytes"));
}

// Equal in all fields, the two devices are one: there is nothing left for l2.
TEST(SizeBased, TakesEqualDevicesForOne) {
  PartitionerConfig config = on({190, 190});
  config.devices[1] = config.devices[0];
  EXPECT_EQ(raised(chain_of_six(), config), "RuntimeError: l3 is too large to fit any device");
}

// ---------------------------------------------------------------------------- sparse_nn

//   x(10) ──► d0(10/30) ─┬─► e0(10/100) ─┬─► top(10/20) ──► output       together 260
//                        └─► e1(10/100) ─┘
GraphBuilder two_tables() {
  return GraphBuilder()
      .input("x", 10)
      .module("d0", {"x"}, 10, 30)
      .module("e0", {"d0"}, 10, 100, true)
      .module("e1", {"d0"}, 10, 100, true);
}
Graph two_tables_and_top() {
  return two_tables().module("top", {"e0", "e1"}, 10, 20).output({"top"}).build();
}

// The tables would need 220 together. d0 and top, two levels apart, are not merged; they run on
// both devices, where 40 + 40 + 110 <= 200. submod_0 has one value and two readers.
TEST(SparseNn, GivesEachDeviceATableAndAllOfTheRest) {
  const Graph graph = two_tables_and_top();
  const ReferencePartition result = run(graph, on({200, 200}, PartitionMode::kSparseNn));
  EXPECT_THAT(summary(graph, result),
              ElementsAre(Expected{{"x", "d0"}, 40, {0, 1}}, Expected{{"e0"}, 110, {0}},
                          Expected{{"e1"}, 110, {1}}, Expected{{"top"}, 40, {0, 1}}));
  const auto& partitions = result.outcome.plan->partitions;
  EXPECT_EQ(partitions[0].children, (Ids{1, 2}));
  EXPECT_EQ(partitions[3].parents, (Ids{1, 2}));
  EXPECT_EQ(partitions[2].bfs_level, 1);
  EXPECT_EQ(partitions[3].bfs_level, 2);
  EXPECT_EQ(result.split.nodes,
            (Names{"x", "submod_0", "submod_2", "submod_1", "submod_3", "output"}));
  EXPECT_EQ(result.split.dag[0],
            (DagNode{"submod_0", {"x"}, {"submod_2", "submod_1"}, {0, 1}, 40}));
}

// Without top's dependence on d0's level: d0 and top are neighbours and become one.
//   x(10) ──► d0(10/30) ─────┐
//   i(10) ─┬► e0(10/100) ────┼─► top(10/20) ──► output
//          └► e1(10/100) ────┘
TEST(SparseNn, MergesNeighboursAtTheEndOfTheList) {
  const Graph graph = GraphBuilder()
                          .input("x", 10)
                          .input("i", 10)
                          .module("d0", {"x"}, 10, 30)
                          .module("e0", {"i"}, 10, 100, true)
                          .module("e1", {"i"}, 10, 100, true)
                          .module("top", {"d0", "e0", "e1"}, 10, 20)
                          .output({"top"})
                          .build();
  const ReferencePartition result = run(graph, on({200, 200}, PartitionMode::kSparseNn));
  EXPECT_THAT(summary(graph, result),
              ElementsAre(Expected{{"i", "e0"}, 110, {0}}, Expected{{"i", "e1"}, 110, {1}},
                          Expected{{"x", "d0", "top"}, 80, {0, 1}}));
  EXPECT_EQ(result.split.nodes, (Names{"x", "i", "submod_1", "submod_0", "submod_2", "output"}));
}

TEST(SparseNn, SaysWhyItFails) {
  const auto text = [](const Graph& graph, const std::vector<Bytes>& memories,
                       const char* release = "torch-2.13") {
    return raised(graph, on(memories, PartitionMode::kSparseNn), dialect(release));
  };
  const Graph tables = two_tables_and_top();
  EXPECT_EQ(text(tables, {200, 201}), "RuntimeError: All devices must have same memory size!");
  EXPECT_EQ(text(tables, {190, 190}), "");
  EXPECT_EQ(text(tables, {189, 189}),
            "RuntimeError: partition_1(embedding partition) and non embedding partitions can not "
            "fit into one device");
  const Graph three = two_tables()
                          .module("e2", {"d0"}, 10, 100, true)
                          .module("top", {"e0", "e1", "e2"}, 10, 20)
                          .output({"top"})
                          .build();
  EXPECT_EQ(text(three, {200, 200}), "RuntimeError: Need 3 devices, but only 2 provided");
  EXPECT_EQ(text(chain_of_six(), {200, 200}), "IndexError: pop from empty list");

  const GraphBuilder start = GraphBuilder().input("x", 10).module("e", {"x"}, 10, 20, true);
  EXPECT_EQ(text(start.nodes().empty() ? tables : start.build(), {20, 20}),
            "RuntimeError: e is too large to fit into a device");
  auto big = start;
  const Graph module = big.module("big", {"e"}, 10, 300).build();
  EXPECT_EQ(text(module, {309, 309}), "RuntimeError: big is too large to fit into a device");
  EXPECT_EQ(text(module, {309, 309}, "torch-1.13"),
            "RuntimeError: bigis too large to fit into a device");
  big = start;
  EXPECT_EQ(text(big.call("f", {"e"}, 300).build(), {309, 309}),
            "TypeError: unsupported operand type(s) for +: 'function' and 'str'");
}

// ---------------------------------------------------------------------------- cost_aware

PartitionerConfig costed(const Graph& graph, PartitionMode mode, const std::vector<Bytes>& memories,
                         double rate, double memory, double computation) {
  PartitionerConfig config = on(memories, mode);
  config.transfer_rate_bytes_per_sec = rate;
  config.node_to_latency_mapping = equal_latencies(graph, memory, computation);
  return config;
}

// Every merge saves a transfer of 10 seconds; 130 bytes are the most that 140 hold. The last of
// equally good pairs is merged first, so that the end of the chain leads the list.
TEST(CostAware, MergesFromTheEndOfAChain) {
  const Graph graph = chain_of_six();
  const auto config = costed(graph, PartitionMode::kCostAware, {140, 140, 140}, 1, 1, 2);
  const ReferencePartition result = run(graph, config);
  EXPECT_THAT(summary(graph, result),
              ElementsAre(Expected{{"l4", "l5"}, 130, {0}}, Expected{{"l2", "l3"}, 130, {1}},
                          Expected{{"x", "l0", "l1"}, 130, {2}}));
  EXPECT_EQ(result.outcome.certificate.objective, 6 * 2 + 2 * 10);
  EXPECT_EQ(result.outcome.plan->partitions[0].bfs_level, 2);
  EXPECT_EQ(result.outcome.plan->partitions[2].children, Ids{1});
  EXPECT_EQ(result.outcome.plan->node_to_partition,
            (std::vector<std::optional<int>>{2, 2, 2, 1, 1, 0, 0, std::nullopt}));
  const ReferencePartition wider =
      run(graph, costed(graph, PartitionMode::kCostAware, {200, 200, 200}, 1, 1, 2));
  EXPECT_THAT(summary(graph, wider), ElementsAre(Expected{{"l3", "l4", "l5"}, 190, {0}},
                                                 Expected{{"x", "l0", "l1", "l2"}, 190, {1}}));
  EXPECT_EQ(wider.outcome.certificate.objective, 22);
}

//   a(16) ─► add(16) ─► add_1(16) ─┬─► linear(16/96) ─► add_3(16) ─► add_4(16) ─► output
//   t0(16) ──┘  t1(16) ─┘          └─► add_2(16) ◄─ t2(16)             │
//                                        └─────────────────────────────┘
// adds take (16, 1), linear (96, 16), 2 bytes a second: 16 + 8 + 96 + 8 + 32.
TEST(CostAware, LeavesWhatRunsBesideTheCriticalPathAlone) {
  const Graph graph = GraphBuilder()
                          .input("a", 16)
                          .constant("t0", 16)
                          .call("add", {"a", "t0"}, 16)
                          .constant("t1", 16)
                          .call("add_1", {"add", "t1"}, 16)
                          .module("linear", {"add"}, 16, 96)
                          .constant("t2", 16)
                          .call("add_2", {"add_1", "t2"}, 16)
                          .call("add_3", {"add_1", "linear"}, 16)
                          .call("add_4", {"add_2", "add_3"}, 16)
                          .output({"add_4"})
                          .build();
  auto config = costed(graph, PartitionMode::kCostAware, {125, 125, 125, 125}, 2, 16, 1);
  config.node_to_latency_mapping[5] = NodeLatency{96, 16};
  const ReferencePartition result = run(graph, config);
  EXPECT_THAT(summary(graph, result),
              ElementsAre(Expected{{"a", "t0", "add"}, 48, {0}}, Expected{{"t1", "add_1"}, 48, {0}},
                          Expected{{"linear"}, 112, {1}},
                          Expected{{"t2", "add_2", "add_3", "add_4"}, 112, {2}}));
  EXPECT_EQ(result.outcome.certificate.objective, 160);
  const auto& last = result.outcome.plan->partitions[3];
  EXPECT_EQ(latency_of_partition(graph, config.node_to_latency_mapping, last.nodes),
            (PartitionLatency{32, 2, 32}));
  EXPECT_EQ(result.split.nodes, (Names{"a", "t0", "t1", "t2", "submod_0", "submod_2", "submod_1",
                                       "submod_3", "output"}));
}

TEST(CostAware, AsksForLatenciesAndARate) {
  const Graph graph = chain_of_six();
  auto config = costed(graph, PartitionMode::kCostAware, {140, 140, 140}, 0, 1, 2);
  const auto result = partition_like_torch(graph, config);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, ErrorCode::kZeroDivision);
  EXPECT_EQ(result.error().message, "float division by zero");
  config.node_to_latency_mapping[2].reset();
  EXPECT_EQ(raised(graph, config), "KeyError: l1");
  config.node_to_latency_mapping.clear();
  EXPECT_EQ(raised(graph, config), "KeyError: l0");
  config.mode = PartitionMode::kKlBased;
  EXPECT_EQ(raised(graph, config), "KeyError: l0");
}

// Two operators that read nothing of each other need no rate. Each fits, and alone, on one device;
// as a pair they fit nowhere, and an exact fit is refused: nobody gets a device.
TEST(CostAware, SaysNothingWhereNoDeviceIsFound) {
  const Graph graph = GraphBuilder()
                          .input("x", 10)
                          .module("a", {"x"}, 1, 50)
                          .module("b", {"x"}, 1, 50)
                          .output({"a", "b"})
                          .build();
  auto config = costed(graph, PartitionMode::kCostAware, {60, 60}, 0, 1, 2);
  const ReferencePartition result = run(graph, config);
  EXPECT_THAT(summary(graph, result),
              ElementsAre(Expected{{"x", "a"}, 60, {}}, Expected{{"x", "b"}, 60, {}}));
  EXPECT_EQ(result.outcome.certificate.objective, 2);
  config.saturate_host = true;
  EXPECT_EQ(raised(graph, config),
            "AssertionError: Expect no_device_partitions has 0 device, but get 2");
}

// ---------------------------------------------------------------------------- kl_based

//   a(16) ─► add(16) ─► add_1(16) ──────────┬─► add_2(16) ─► add_4(16)      output is add_3
//   b(16) ───┘   │   c(16) ┘  └─► add_3(16) │     linear(16/96) ─► add_2
//                └─► linear           d ──┘ ┘
// Size based: everything up to add_2, 192 bytes, and the rest. One move is accepted, add_2; the
// split does not know.
TEST(KernighanLin, SplitsByThePlacementThatItLeft) {
  const Graph graph = GraphBuilder()
                          .input("a", 16)
                          .constant("b", 16)
                          .call("add", {"a", "b"}, 16)
                          .constant("c", 16)
                          .call("add_1", {"add", "c"}, 16)
                          .module("linear", {"add"}, 16, 96)
                          .call("add_2", {"add_1", "linear"}, 16)
                          .constant("d", 16)
                          .call("add_3", {"add_1", "d"}, 16)
                          .call("add_4", {"add_2", "add_3"}, 16)
                          .output({"add_3"})
                          .build();
  auto config = costed(graph, PartitionMode::kKlBased, {200, 200, 200, 200}, 2, 16, 1);
  config.node_to_latency_mapping[5] = NodeLatency{96, 16};
  const ReferencePartition result = run(graph, config);
  EXPECT_THAT(summary(graph, result),
              ElementsAre(Expected{{"a", "b", "add", "c", "add_1", "linear"}, 176, {0}},
                          Expected{{"add_2", "d", "add_3", "add_4"}, 112, {1}}));
  EXPECT_EQ(result.outcome.certificate.objective, 160);
  EXPECT_EQ(result.outcome.plan->node_to_partition[6], 0);
  EXPECT_EQ(result.split.dag[0].outputs.size(), 2u);  // add_1 and add_2
  EXPECT_EQ(result.split.dag[0].size_bytes, 176);
  for (std::size_t node = 0; node < config.node_to_latency_mapping.size(); ++node) {
    if (node != 5 && config.node_to_latency_mapping[node]) {
      config.node_to_latency_mapping[node] = NodeLatency{16, 32};
    }
  }
  EXPECT_EQ(run(graph, config).outcome.certificate.objective, 208);
}

// ---------------------------------------------------------------------------- aot_based

PartitionerConfig ahead_of_time(const Graph& graph, const std::vector<std::pair<Names, int>>& parts,
                                const std::map<int, Ids>& device_ids) {
  PartitionerConfig config = on({1, 1}, PartitionMode::kAotBased);
  for (const auto& [nodes, id] : parts) {
    for (const std::string& name : nodes) {
      for (int node = 0; node < graph.num_nodes(); ++node) {
        if (graph.nodes[static_cast<std::size_t>(node)].name == name) {
          config.node_to_partition_mapping.emplace_back(node, id);
        }
      }
    }
  }
  config.partition_to_logical_device_mapping = device_ids;
  return config;
}

TEST(AheadOfTime, TakesTheCallersWordForEverything) {
  const Graph graph = chain_of_six();
  const auto config = ahead_of_time(graph, {{{"l0", "l1", "l2"}, 0}, {{"l3", "l4", "l5"}, 1}},
                                    {{0, {1, 0}}, {1, {0}}, {2, {}}});
  const ReferencePartition result = run(graph, config);
  EXPECT_THAT(summary(graph, result), ElementsAre(Expected{{"x", "l0", "l1", "l2"}, 190, {1, 0}},
                                                  Expected{{"l3", "l4", "l5"}, 190, {0}}));
  EXPECT_THAT(result.outcome.plan->partitions[0].children, IsEmpty());
  EXPECT_EQ(result.outcome.plan->node_to_partition[0], std::nullopt);
}

TEST(AheadOfTime, SaysWhatIsMissing) {
  const Graph graph = chain_of_six();
  const Names first{"l0", "l1", "l2"}, second{"l3", "l4", "l5"};
  const auto text = [&graph](const std::vector<std::pair<Names, int>>& parts,
                             const std::map<int, Ids>& device_ids, bool saturate = false) {
    auto config = ahead_of_time(graph, parts, device_ids);
    config.saturate_host = saturate;
    return raised(graph, config);
  };
  EXPECT_EQ(text({{first, 0}, {second, 1}}, {{0, {0}}}), "KeyError: 1");
  EXPECT_EQ(text({{first, 0}, {{"l3", "l5"}, 1}}, {{0, {0}}, {1, {1}}}), "KeyError: l4");
  EXPECT_EQ(text({{first, 0}, {{"output"}, 0}}, {{0, {0}}}),
            "RuntimeError: node has no size_bytes attr");
  EXPECT_EQ(text({{first, 3}, {second, 7}}, {{3, {0}}, {7, {1}}}),
            "IndexError: list index out of range");
  EXPECT_EQ(text({{{"l0", "l2", "l4"}, 0}, {{"l1", "l3", "l5"}, 1}}, {{0, {0}}, {1, {1}}}),
            "RuntimeError: cycle exists between partitions!");
  EXPECT_EQ(text({{first, 0}, {second, 1}}, {{0, {0}}, {1, {9}}}, true), "KeyError: 9");
  EXPECT_EQ(text({{first, 0}, {second, 1}}, {{0, {0}}, {1, {}}}, true),
            "AssertionError: Expect no_device_partitions has 0 device, but get 1");
  EXPECT_EQ(text({}, {}, true), "KeyError: l0");
}

// The id names the call and the entry of the DAG is found by the number in that name: ids that are
// not in order of appearance swap their bytes.
TEST(AheadOfTime, DescribesCallsByThePartitionAtTheirNumber) {
  const Graph graph = chain_of_six();
  const auto config = ahead_of_time(graph, {{{"l0"}, 1}, {{"l1", "l2", "l3", "l4", "l5"}, 0}},
                                    {{0, {0}}, {1, {1}}});
  const ReferencePartition result = run(graph, config);
  EXPECT_THAT(result.split.dag,
              ElementsAre(DagNode{"submod_1", {"x"}, {"submod_1"}, {0}, 310},
                          DagNode{"submod_0", {"submod_1"}, {"submod_0"}, {1}, 70}));
}

// ---------------------------------------------------------------------------- idle devices, split

// Everything but add_3 takes 192 of 200 bytes; add_3 stands alone with 48.
Graph two_runs() {
  return GraphBuilder()
      .input("a", 16)
      .constant("t0", 16)
      .call("add", {"a", "t0"}, 16)
      .constant("t1", 16)
      .call("add_1", {"add", "t1"}, 16)
      .module("linear", {"add"}, 16, 96)
      .call("add_2", {"add_1", "linear"}, 16)
      .call("add_3", {"add_1", "add_2"}, 16)
      .output({"add_3"})
      .build();
}

TEST(SaturateHost, CopiesOntoTheSmallestIdleDevicesThatSuffice) {
  const Graph graph = two_runs();
  PartitionerConfig config = on({200, 200, 100, 100, 200, 100});
  EXPECT_THAT(summary(graph, run(graph, config))[0].devices, ElementsAre(0));
  config.saturate_host = true;
  const auto partitions = summary(graph, run(graph, config));
  EXPECT_EQ(partitions[0].used, 192);
  EXPECT_EQ(partitions[0].devices, (Ids{0, 4}));
  EXPECT_EQ(partitions[1].used, 48);
  EXPECT_EQ(partitions[1].devices, (Ids{1, 2}));
  // A round for each of the two, or none.
  config.devices[4].available_mem_bytes = 191;
  EXPECT_EQ(summary(graph, run(graph, config))[1].devices, Ids{1});
  config.devices[4].available_mem_bytes = 192;
  EXPECT_EQ(summary(graph, run(graph, config))[1].devices, (Ids{1, 2}));
  // Two rounds.
  config.devices = devices({200, 200, 200, 50, 200, 200});
  const auto twice = summary(graph, run(graph, config));
  EXPECT_EQ(twice[0].devices, (Ids{0, 2, 4}));
  EXPECT_EQ(twice[1].devices, (Ids{1, 3, 5}));
}

// The two partitions without embeddings hold one list: each of them adds each copy for both.
TEST(SaturateHost, RepeatsIdsInASharedList) {
  const Graph graph = two_tables_and_top();
  PartitionerConfig config = on({200, 200, 200, 200, 200}, PartitionMode::kSparseNn);
  config.saturate_host = true;
  const auto partitions = summary(graph, run(graph, config));
  EXPECT_EQ(partitions[0].devices, (Ids{0, 1, 2, 2, 3, 3}));
  EXPECT_EQ(partitions[1].devices, (Ids{0, 2}));
  EXPECT_EQ(partitions[2].devices, (Ids{1, 3}));
  EXPECT_EQ(partitions[3].devices, (Ids{0, 1, 2, 2, 3, 3}));
}

//   x(10) ─┬─► a(10/60) ──► c(10/60) ──► output
//          └─► b(10/60)      nobody reads b, alone on its device
TEST(Split, TreatsDeadPartsAsTheReleaseDoes) {
  const Graph graph = GraphBuilder()
                          .input("x", 10)
                          .module("a", {"x"}, 10, 60)
                          .module("b", {"x"}, 10, 60)
                          .module("c", {"a"}, 10, 60)
                          .output({"c"})
                          .build();
  EXPECT_EQ(raised(graph, on({75, 75, 75}), dialect("torch-1.13")),
            "IndexError: list index out of range");
  const ReferencePartition result = run(graph, on({75, 75, 75}));
  EXPECT_EQ(result.split.nodes, (Names{"x", "submod_1", "submod_0", "submod_2", "output"}));
  EXPECT_EQ(result.split.dag[0], (DagNode{"submod_1", {"x"}, {"submod_1"}, {1}, 70}));
}

TEST(Split, NamesNodesAsTorchDoes) {
  auto nodes = GraphBuilder()
                   .input("input_1", 1)
                   .constant("w", 1)
                   .constant("w_1", 1)
                   .constant("v", 1)
                   .input("submod_9", 1)
                   .call("a", {"input_1", "w", "w_1", "v"}, 1)
                   .output({"a"})
                   .nodes();
  nodes[0].target = "input";               // a builtin of Python
  nodes[1].target = "layers.0.batchNorm";  // no identifier, and not lower-case
  nodes[2].target = "layers.0.batch_norm";
  nodes[3].target = "2d";
  nodes[4].target = "submod_8";
  const ReferencePartition result = run(make_graph(nodes).value(), on({100}));
  EXPECT_EQ(result.split.nodes, (Names{"input_1", "layers_0_batch_norm", "layers_0_batch_norm_1",
                                       "_2d", "submod_8", "submod_0", "output"}));
  // A call whose name was taken gets another, and with it the number of another partition.
  nodes[4].target = "submod_0";
  EXPECT_EQ(raised(make_graph(nodes).value(), on({100})), "IndexError: list index out of range");
}

}  // namespace
}  // namespace plimsoll::partition
