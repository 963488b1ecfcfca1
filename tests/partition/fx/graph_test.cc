#include "plimsoll/partition/graph.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "partition/fx/memory.h"
#include "partition/graphs.h"
#include "plimsoll/partition/dialect.h"
#include "plimsoll/partition/partitioner_config.h"

namespace plimsoll::partition {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

//   x ──► a ─┬─► c ──► output     a reads x twice, and p stands after the output
//   w ───────┘
GraphBuilder small() {
  GraphBuilder builder;
  builder.input("x", 10).constant("w", 20).call("a", {"x", "x"}, 5);
  return builder.module("c", {"a", "w"}, 7, 30).output({"c"}).call("p", {"c"}, 1000);
}

TEST(Graph, CountsAnInputOnceAndListsUsersInGraphOrder) {
  const Graph graph = small().build();
  EXPECT_THAT(graph.nodes[2].inputs, ElementsAre(0));
  EXPECT_THAT(graph.users[0], ElementsAre(2));
  EXPECT_THAT(graph.users[3], ElementsAre(4, 5));
  EXPECT_THAT(graph.users[5], IsEmpty());
}

TEST(Graph, AddsUpSizesBeforeTheOutputAlone) {
  const Graph graph = small().build();
  EXPECT_EQ(graph.num_sized, 4);
  EXPECT_EQ(graph.total_size, 10 + 20 + 5 + 30);
  const Graph endless = GraphBuilder().input("x", 3).call("a", {"x"}, 4).build();
  EXPECT_EQ(endless.num_sized, 2);
  EXPECT_EQ(endless.total_size, 7);
}

TEST(Graph, RefusesWhatIsNoGraph) {
  const auto error_of = [](GraphBuilder builder) {
    const auto graph = make_graph(builder.nodes());
    return graph ? Error{} : graph.error();
  };
  EXPECT_EQ(error_of(GraphBuilder().input("x", 1).input("x", 1)).code, ErrorCode::kConflict);
  EXPECT_EQ(error_of(GraphBuilder().call("a", {"later"}, 1)).code, ErrorCode::kValue);
  EXPECT_EQ(error_of(GraphBuilder().input("x", 1).output({"x"}).call("a", {"output"}, 1)).place,
            "a");
  EXPECT_EQ(error_of(GraphBuilder().input("x", -1)).code, ErrorCode::kValue);
  EXPECT_EQ(error_of(GraphBuilder().input("x", 1).module("m", {"x"}, -2, -2)).place, "m");
  Node second;
  second.name = "second";
  second.op = OpKind::kOutput;
  auto nodes = GraphBuilder().input("x", 1).output({"x"}).nodes();
  nodes.push_back(second);
  EXPECT_EQ(make_graph(nodes).error().code, ErrorCode::kConflict);
  nodes.back() = {"self", OpKind::kCallFunction, "", {2}, {1, 1}};
  EXPECT_EQ(make_graph(nodes).error().code, ErrorCode::kValue);
}

TEST(Graph, RefusesSizesWhoseSumsCouldOverflow) {
  const Bytes quarter = Bytes{1} << 60;
  EXPECT_TRUE(make_graph(GraphBuilder().input("x", quarter).call("a", {"x"}, quarter).nodes()));
  // Two readers of x: x itself, x beside each of them, and the two.
  const auto graph = make_graph(
      GraphBuilder().input("x", quarter).call("a", {"x"}, quarter).call("b", {"x"}, 1).nodes());
  ASSERT_FALSE(graph);
  EXPECT_EQ(graph.error().code, ErrorCode::kOverflow);
  EXPECT_EQ(graph.error().place, "b");
}

TEST(Graph, ReplacesTargetsAndKeepsNames) {
  auto nodes = GraphBuilder().input("x", 1).call("add", {"x"}, 1).call("add_1", {"add"}, 1).nodes();
  nodes[2].target = "add";
  const Graph graph = make_graph(nodes).value();
  const Graph changed =
      replace_targets(graph, OpKind::kCallFunction, "add", OpKind::kCallMethod, "mul");
  EXPECT_EQ(changed.nodes[0], graph.nodes[0]);
  for (const int node : {1, 2}) {
    EXPECT_EQ(changed.nodes[node].op, OpKind::kCallMethod);
    EXPECT_EQ(target_of(changed.nodes[node]), "mul");
    EXPECT_EQ(changed.nodes[node].name, graph.nodes[node].name);
    EXPECT_EQ(changed.nodes[node].inputs, graph.nodes[node].inputs);
  }
  EXPECT_EQ(replace_targets(graph, OpKind::kCallMethod, "add", OpKind::kCallFunction, "mul"),
            graph);
}

TEST(Graph, NamesKindsOfOperators) {
  for (const OpKind kind : {OpKind::kPlaceholder, OpKind::kGetAttr, OpKind::kCallFunction,
                            OpKind::kCallMethod, OpKind::kCallModule, OpKind::kOutput}) {
    EXPECT_EQ(find_op_kind(to_string(kind)), kind);
    EXPECT_NE(is_operator(kind), is_source(kind) || kind == OpKind::kOutput);
  }
  EXPECT_EQ(to_string(OpKind::kCallModule), "call_module");
  EXPECT_FALSE(find_op_kind("call"));
}

//   x ─┬─► a ─┐        b and c in one set read x from outside (twice charged) and a from outside
//      ├─► b ─┼─► c    (once)
//      └──────┘
TEST(Memory, ChargesATensorFromOutsideOnceForEachReader) {
  const Graph graph = GraphBuilder()
                          .call("x", {}, 100)
                          .call("a", {"x"}, 10)
                          .call("b", {"x"}, 1)
                          .module("c", {"x", "a", "b"}, 2, 50)
                          .build();
  EXPECT_EQ(lonely_bytes(graph, 3), 50 + 100 + 10 + 1);
  EXPECT_EQ(used_bytes(graph, std::vector<int>{2, 3}), 1 + 50 + 100 + 100 + 10);
  EXPECT_EQ(used_bytes(graph, std::vector<int>{0, 1, 2, 3}), 161);
  EXPECT_EQ(used_bytes(graph, std::vector<int>{}), 0);
}

TEST(Dialect, FindsReleasesByName) {
  EXPECT_EQ(default_dialect().name, "torch-2.13");
  EXPECT_EQ(find_dialect("torch-1.13")->splits_dead_parts, false);
  const auto unknown = find_dialect("torch-2.31");
  ASSERT_FALSE(unknown);
  EXPECT_EQ(unknown.error().code, ErrorCode::kNotFound);
  EXPECT_THAT(unknown.error().remedy, HasSubstr("torch-2.13"));
}

TEST(PartitionerConfig, NamesModes) {
  for (const PartitionMode mode :
       {PartitionMode::kSizeBased, PartitionMode::kSparseNn, PartitionMode::kCostAware,
        PartitionMode::kKlBased, PartitionMode::kAotBased}) {
    EXPECT_EQ(find_partition_mode(to_string(mode)), mode);
  }
  EXPECT_EQ(to_string(PartitionMode::kKlBased), "kl_based");
  EXPECT_FALSE(find_partition_mode("size"));
}

TEST(PartitionerConfig, RefusesFiguresThatMeanNothing) {
  const Graph graph = small().build();
  const auto code_of = [&graph](const PartitionerConfig& config) {
    const auto result = validate(config, graph);
    return result ? ErrorCode::kInternal : result.error().code;
  };
  PartitionerConfig good;
  good.devices = devices({0});
  good.node_to_latency_mapping = equal_latencies(graph, 0, 1);
  good.node_to_partition_mapping = {{2, 0}, {3, 0}};
  EXPECT_TRUE(validate(good, graph));

  PartitionerConfig bad = good;
  bad.devices[0].available_mem_bytes = -1;
  EXPECT_EQ(code_of(bad), ErrorCode::kValue);
  for (const double rate : {-1.0, std::nan("")}) {
    bad = good;
    bad.transfer_rate_bytes_per_sec = rate;
    EXPECT_EQ(code_of(bad), ErrorCode::kValue);
  }
  for (const double seconds : {-1.0, std::nan(""), HUGE_VAL}) {
    bad = good;
    bad.node_to_latency_mapping[2]->computer_latency_sec = seconds;
    EXPECT_EQ(code_of(bad), ErrorCode::kValue);
    bad = good;
    bad.node_to_latency_mapping[3]->mem_latency_sec = seconds;
    EXPECT_EQ(code_of(bad), ErrorCode::kValue);
  }
  bad = good;
  bad.node_to_latency_mapping.pop_back();
  EXPECT_EQ(code_of(bad), ErrorCode::kSchema);
  bad = good;
  bad.node_to_partition_mapping[1].first = 2;
  EXPECT_EQ(code_of(bad), ErrorCode::kConflict);
  for (const int node : {-1, 6}) {
    bad.node_to_partition_mapping[1].first = node;
    EXPECT_EQ(code_of(bad), ErrorCode::kValue);
  }
}

}  // namespace
}  // namespace plimsoll::partition
