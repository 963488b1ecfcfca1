#include "io/documents/fx_graph_json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "io/expect_error.h"
#include "io/random_documents.h"

namespace plimsoll::io {
namespace {

using partition::OpKind;
using ::testing::ElementsAre;

// What stands between "nodes": [...] and the end is replaced by `rest`.
std::string with(const std::string& rest) {
  return R"({"nodes": [
    {"name": "x", "op": "placeholder", "output_size": 4, "total_size": 4},
    {"name": "linear", "op": "call_module", "args": ["x", "x"], "output_size": 8,
     "total_size": "1 KiB", "embedding": true},
    {"name": "output", "op": "output", "args": ["linear"]}])" +
         rest + "}";
}
const std::string kDevices = R"(, "devices": [{"name": "d", "mem": 2048, "id": 3}])";

TEST(FxGraphJson, ReadsGraphs) {
  const auto input = read_fx_graph(
      with(kDevices + R"(, "mode": "aot_based", "transfer_rate": 2.5, "saturate_host": true,
                          "latency": {"linear": [0.5, 1]},
                          "node_to_partition": {"x": 4, "linear": 1},
                          "partition_to_devices": {"1": [3], "-2": []})"),
      "g.json");
  ASSERT_TRUE(input.has_value()) << format_error(input.error());
  ASSERT_EQ(input->graph.num_nodes(), 3);
  const partition::Node& linear = input->graph.nodes[1];
  EXPECT_EQ(linear.op, OpKind::kCallModule);
  EXPECT_THAT(linear.inputs, ElementsAre(0));
  EXPECT_EQ(linear.size, (partition::NodeSize{8, 1024}));
  EXPECT_TRUE(linear.is_embedding);
  EXPECT_EQ(input->graph.total_size, 1028);
  const partition::PartitionerConfig& config = input->config;
  EXPECT_THAT(config.devices, ElementsAre(partition::Device{"d", 2048, 3}));
  EXPECT_EQ(config.mode, partition::PartitionMode::kAotBased);
  EXPECT_EQ(config.transfer_rate_bytes_per_sec, 2.5);
  EXPECT_TRUE(config.saturate_host);
  EXPECT_THAT(config.node_to_latency_mapping,
              ElementsAre(std::nullopt, partition::NodeLatency{0.5, 1}, std::nullopt));
  EXPECT_THAT(config.node_to_partition_mapping, ElementsAre(std::pair(0, 4), std::pair(1, 1)));
  EXPECT_EQ(config.partition_to_logical_device_mapping,
            (std::map<int, std::vector<int>>{{-2, {}}, {1, {3}}}));
}

TEST(FxGraphJson, ReadsWhatItWrites) {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    const FxInput input = random_fx_graph(random);
    const std::string text = write_fx_graph(input);
    const auto read = read_fx_graph(text, "g.json");
    ASSERT_TRUE(read.has_value()) << format_error(read.error());
    EXPECT_EQ(*read, input);
    EXPECT_EQ(write_fx_graph(*read), text);
  }
}

TEST(FxGraphJson, PlacesErrors) {
  const auto read = [](const std::string& text) { return read_fx_graph(text, "g.json"); };
  const auto with_node = [&](const std::string& node) {
    return read(R"({"devices": [], "nodes": [{"name": "a", "op": "placeholder"}, )" + node + "]}");
  };
  expect_error(with_node(R"({"name": "a", "op": "get_attr"})"), ErrorCode::kConflict,
               "g.json#/nodes/1/name", "'a' occurs twice");
  expect_error(with_node(R"({"name": "b", "op": "call_function", "args": ["a", "c"]})"),
               ErrorCode::kValue, "g.json#/nodes/1/args/1", "no node 'c'");
  expect_error(with_node(R"({"name": "b", "op": "call_function", "args": ["b"]})"),
               ErrorCode::kValue, "g.json#/nodes/1/args/0", "an earlier one");
  expect_error(with_node(R"({"name": "b", "op": "call", "args": ["a"]})"), ErrorCode::kValue,
               "g.json#/nodes/1/op", "call_function");
  expect_error(with_node(R"({"name": "b", "op": "call_function", "total_size": -1})"),
               ErrorCode::kValue, "g.json#/nodes/1/total_size");
  expect_error(
      with_node(R"({"name": "b", "op": "call_function", "total_size": 9223372036854775808})"),
      ErrorCode::kOverflow, "g.json#/nodes/1/total_size");
  expect_error(
      with_node(R"({"name": "b", "op": "call_function", "total_size": 9223372036854775807})"),
      ErrorCode::kOverflow, "g.json#", "b: the sizes");
  expect_error(read(with("")), ErrorCode::kSchema, "g.json#", "'devices' is missing");
  expect_error(read(with(kDevices + R"(, "latency": {"y": [0, 0]})")), ErrorCode::kValue,
               "g.json#/latency/y", "no node 'y'");
  expect_error(read(with(kDevices + R"(, "latency": {"x": [-1, 0]})")), ErrorCode::kValue,
               "g.json#/latency/x/0");
  expect_error(read(with(kDevices + R"(, "latency": {"x": [0]})")), ErrorCode::kSchema,
               "g.json#/latency/x", "an array of two");
  expect_error(read(with(kDevices + R"(, "node_to_partition": {"y": 0})")), ErrorCode::kValue,
               "g.json#/node_to_partition/y");
  expect_error(read(with(kDevices + R"(, "partition_to_devices": {"one": [0]})")),
               ErrorCode::kValue, "g.json#/partition_to_devices/one",
               "is not the number of a partition");
  expect_error(read(with(kDevices + R"(, "partition_to_devices": {"1": [0], "01": [0]})")),
               ErrorCode::kConflict, "g.json#/partition_to_devices/01", "twice");
  expect_error(read(with(kDevices + R"(, "transfer_rate": -1)")), ErrorCode::kValue,
               "g.json#/transfer_rate");
}

}  // namespace
}  // namespace plimsoll::io
