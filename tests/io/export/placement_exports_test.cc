#include "io/export/placement_exports.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "io/documents/operator_graph_json.h"
#include "io/expect_error.h"
#include "io/graph_files.h"
#include "plimsoll/partition/contiguous_split.h"
#include "plimsoll/partition/operator_costs.h"

namespace plimsoll::io {
namespace {

using partition::OperatorGraph;
using partition::OperatorNode;
using partition::OpKind;

// x → emb → h.0.attn → h.0.add → h.1.attn → h.1.add → head → output
//     │                                               │
//  emb.weight     h.0.attn.w     h.1.attn.w      head.weight
struct Net {
  Net() {
    const int x = add("x", OpKind::kPlaceholder, "x", "", {});
    const int we = weight("emb.weight");
    const int w0 = weight("h.0.attn.w");
    const int w1 = weight("h.1.attn.w");
    const int wh = weight("head.weight");
    emb = op("emb", "emb", {x, we});
    attn0 = op("attn", "h.0.attn", {emb, w0});
    add0 = op("add", "h.0", {emb, attn0});
    attn1 = op("attn_1", "h.1.attn", {add0, w1});
    add1 = op("add_1", "h.1", {add0, attn1});
    head = op("linear", "head", {add1, wh});
    add("output", OpKind::kOutput, "output", "", {head});
  }
  int add(const std::string& name, OpKind kind, const std::string& target,
          const std::string& module, const std::vector<int>& inputs) {
    OperatorNode& node = graph.nodes.emplace_back();
    node.name = name;
    node.op = kind;
    node.target = target;
    node.module = module;
    node.inputs = inputs;
    node.output_bytes = 2048;
    return graph.num_nodes() - 1;
  }
  int weight(const std::string& fqn) {
    const int node = add(fqn, OpKind::kGetAttr, fqn, "", {});
    graph.nodes[node].is_parameter = true;
    return node;
  }
  int op(const std::string& name, const std::string& module, const std::vector<int>& inputs) {
    return add(name, OpKind::kCallFunction, "aten.op", module, inputs);
  }
  // Devices of emb, attn, add, attn_1, add_1, linear.
  std::vector<int> on(const std::vector<int>& devices) const {
    std::vector<int> all(graph.nodes.size(), -1);
    for (std::size_t i = 0; i < devices.size(); ++i)
      all[static_cast<std::size_t>(emb) + i] = devices[i];
    return all;
  }
  OperatorGraph graph;
  int emb, attn0, add0, attn1, add1, head;
};

using Map = std::vector<std::pair<std::string, int>>;

TEST(PlacementExports, NumbersStagesAlongThePipeline) {
  const Net net;
  EXPECT_EQ(number_stages(net.graph, net.on({3, 3, 3, 1, 1, 7})), net.on({0, 0, 0, 1, 1, 2}));
  EXPECT_EQ(number_stages(net.graph, net.on({2, 2, 2, 2, 2, 2})), net.on({0, 0, 0, 0, 0, 0}));
  // attn_1 goes back to the device of emb.
  expect_error(number_stages(net.graph, net.on({0, 1, 1, 0, 1, 1})), ErrorCode::kConflict,
               "node 6 'attn'", "node 5 'emb'");
}

TEST(PlacementExports, WritesTheCallbackTable) {
  const Net net;
  EXPECT_EQ(write_callback_table(net.graph, net.on({0, 0, 0, 1, 1, 2})),
            "{\n \"emb\": 0,\n \"attn\": 0,\n \"add\": 0,\n \"attn_1\": 1,\n \"add_1\": 1,\n"
            " \"linear\": 2\n}\n");
  EXPECT_EQ(write_callback_table({}, {}), "{}\n");
}

// Three operators and their backward ones, which read each other in reverse.
TEST(PlacementExports, TellsThePassesApart) {
  Net net;
  const int b2 = net.op("b2", "head", {net.head});
  const int b1 = net.op("b1", "h.1", {b2, net.add1});
  const int b0 = net.op("b0", "h.0", {b1, net.emb});
  for (const int node : {b2, b1, b0}) net.graph.nodes[node].is_backward = true;
  net.graph.nodes.erase(net.graph.nodes.begin() + net.head + 1);  // the output
  for (int node = net.head + 1; node < net.graph.num_nodes(); ++node) {
    for (int& input : net.graph.nodes[node].inputs) input -= input > net.head ? 1 : 0;
  }
  ASSERT_TRUE(partition::validate(net.graph).has_value());
  const std::vector<int> stage = net.on({0, 0, 0, 1, 1, 2, 2, 1, 0});
  EXPECT_EQ(number_partitions(net.graph, stage).value(), net.on({0, 0, 0, 1, 1, 2, 3, 4, 5}));
  // The backward pass comes back to the last stage.
  expect_error(number_partitions(net.graph, net.on({0, 0, 0, 1, 1, 2, 2, 1, 2})),
               ErrorCode::kConflict, "node 13 'b0'", "reads node 12 'b1'");
  // Forward graphs keep their stages.
  const Net forward;
  const std::vector<int> stages = forward.on({0, 0, 0, 1, 1, 2});
  EXPECT_EQ(number_partitions(forward.graph, stages).value(), stages);
  EXPECT_TRUE(number_partitions({}, {}).value().empty());
}

TEST(PlacementExports, BeginsStagesWhereModulesAreEntered) {
  const Net net;
  EXPECT_EQ(write_split_spec(net.graph, net.on({0, 0, 0, 1, 1, 2})).value(),
            "{\n \"h.1\": \"BEGINNING\",\n \"head\": \"BEGINNING\"\n}\n");
  EXPECT_EQ(write_split_spec(net.graph, net.on({0, 1, 1, 1, 1, 1})).value(),
            "{\n \"h\": \"BEGINNING\"\n}\n")
      << "the outermost module that begins there";
  EXPECT_EQ(write_split_spec(net.graph, net.on({0, 0, 0, 0, 0, 0})).value(), "{}\n");
  expect_error(write_split_spec(net.graph, net.on({0, 0, 1, 1, 1, 1})), ErrorCode::kConflict,
               "node 7 'add'", "inside module 'h.0'");
  expect_error(write_split_spec(net.graph, net.on({0, 1, 0, 1, 1, 1})), ErrorCode::kConflict,
               "node 7 'add'", "behind node 6 'attn' of stage 1");
}

TEST(PlacementExports, MapsModulesToDevices) {
  const Net net;
  const auto map = make_device_map(net.graph, net.on({0, 0, 0, 1, 1, 1}));
  ASSERT_TRUE(map.has_value()) << format_error(map.error());
  EXPECT_EQ(map->devices, (Map{{"emb", 0}, {"h.0", 0}, {"h.1", 1}, {"head", 1}}));
  EXPECT_TRUE(map->warnings.empty());
  EXPECT_EQ(write_device_map(*map),
            "{\n \"emb\": 0,\n \"h.0\": 0,\n \"h.1\": 1,\n \"head\": 1\n}\n");
  EXPECT_EQ(make_device_map(net.graph, net.on({2, 2, 2, 2, 2, 2}))->devices, (Map{{"", 2}}));
  EXPECT_EQ(make_device_map(net.graph, net.on({0, 1, 1, 1, 1, 2}))->devices,
            (Map{{"emb", 0}, {"h", 1}, {"head", 2}}));
}

TEST(PlacementExports, NamesTheModuleThatADeviceMapWouldMove) {
  const Net net;
  expect_error(make_device_map(net.graph, net.on({0, 0, 1, 1, 1, 1})), ErrorCode::kConflict,
               "module 'h.0'", "node 7 'add' is on device 1");
  Net twice;
  twice.graph.nodes[static_cast<std::size_t>(twice.add1)].inputs.push_back(3);
  expect_error(make_device_map(twice.graph, twice.on({0, 0, 0, 0, 1, 1})), ErrorCode::kConflict,
               "module 'h.1.attn'", "read on devices 0 and 1");
  // A view may stand anywhere.
  Net view;
  view.graph.nodes[static_cast<std::size_t>(view.add0)].is_view = true;
  EXPECT_TRUE(make_device_map(view.graph, view.on({0, 0, 1, 1, 1, 1})).has_value());
}

TEST(PlacementExports, KeepsTiedWeightsTogetherAndSaysSo) {
  Net net;
  net.graph.ties = {{1, 4}};
  const auto map = make_device_map(net.graph, net.on({0, 0, 0, 1, 1, 1}));
  ASSERT_TRUE(map.has_value()) << format_error(map.error());
  EXPECT_EQ(map->devices, (Map{{"emb", 0}, {"h.0", 0}, {"h.1", 1}, {"head", 0}}));
  ASSERT_EQ(map->warnings.size(), 1u);
  EXPECT_EQ(map->warnings[0].code, "tied_weight");
  EXPECT_EQ(map->warnings[0].place, "module 'head'");
}

TEST(PlacementExports, CoversWeightsThatNobodyReads) {
  Net net;
  net.graph.nodes[static_cast<std::size_t>(net.attn1)].inputs = {net.add0};
  const auto map = make_device_map(net.graph, net.on({0, 0, 0, 1, 1, 1}));
  ASSERT_TRUE(map.has_value()) << format_error(map.error());
  EXPECT_EQ(map->devices, (Map{{"emb", 0}, {"h.0", 0}, {"h.1", 1}, {"head", 1}}))
      << "with its module's operators";
  net.graph.nodes[static_cast<std::size_t>(net.attn1)].module = "h.1";
  const auto neighbours = make_device_map(net.graph, net.on({0, 0, 0, 0, 0, 1}));
  ASSERT_TRUE(neighbours.has_value()) << format_error(neighbours.error());
  EXPECT_EQ(neighbours->devices, (Map{{"emb", 0}, {"h", 0}, {"head", 1}})) << "or its neighbours";
}

TEST(PlacementExports, DrawsClustersAndCuts) {
  const Net net;
  const std::string dot = write_dot(net.graph, net.on({0, 0, 0, 1, 1, 1}));
  EXPECT_THAT(dot, ::testing::HasSubstr("subgraph cluster_1 {"));
  EXPECT_THAT(dot, ::testing::HasSubstr("n5 [label=\"emb\\naten.op\"];"));
  EXPECT_THAT(dot, ::testing::HasSubstr("n7 -> n8 [style=bold, label=\"2.000 KiB\"];"));
  EXPECT_THAT(dot, ::testing::HasSubstr("n5 -> n6;"));
}

// Every operator has a stage, and stages are numbered in the pipeline's order.
TEST(PlacementExports, ServesAPlanOfARealModel) {
  const OperatorGraph graph =
      read_operator_graph(load_graph("gpt2-joint.json"), "gpt2-joint.json").value();
  partition::OperatorCostOptions options;
  partition::OperatorDevices& devices = options.classes.emplace_back();
  devices.devices = {"h100", 4, 80 * kGiB, 450e6};
  devices.time_column = "h100";
  const auto costs = make_cost_graph(graph, options);
  ASSERT_TRUE(costs.has_value()) << format_error(costs.error());
  const auto split = partition::split_contiguously(costs->graph);
  ASSERT_TRUE(split.has_value() && split->outcome.plan.has_value());
  const std::vector<int> device = operator_devices(graph, *costs, *split->outcome.plan);
  const auto stage = number_stages(graph, device);
  ASSERT_TRUE(stage.has_value()) << format_error(stage.error());
  for (int node = 0; node < graph.num_nodes(); ++node) {
    EXPECT_EQ((*stage)[node] >= 0, graph.is_operator(node));
    if (!graph.is_operator(node) || graph.nodes[node].is_backward) continue;
    for (const int input : graph.nodes[node].inputs) EXPECT_LE((*stage)[input], (*stage)[node]);
  }
  EXPECT_NE(write_callback_table(graph, *stage).find("\"native_layer_norm\": 0"),
            std::string::npos);
  const auto number = number_partitions(graph, *stage);
  ASSERT_TRUE(number.has_value()) << format_error(number.error());
  EXPECT_EQ(*std::max_element(number->begin(), number->end()), 7) << "4 stages, there and back";
}

}  // namespace
}  // namespace plimsoll::io
