#include "plimsoll/io/cost_graph_json.h"

#include <gtest/gtest.h>

#include "io/expect_error.h"
#include "io/random_documents.h"

namespace plimsoll::io {
namespace {

using partition::CostGraph;
using partition::kUnlimited;

// a → b, c on two classes of one device each and a matrix; w is read by a and c.
const char* const kSmall = R"({
  "schema": "plimsoll.cost_graph/1",
  "classes": [{"name": "gpu", "count": 1, "memory_cap": "1 KiB", "link_rate": 8},
              {"name": "cpu", "count": 1}],
  "pair_rates": [[0, 4], [4, 0]],
  "nodes": [
    {"name": "a", "time_ms": {"cpu": 2, "gpu": 0.5}, "memory_bytes": 7},
    {"name": "b", "time_ms": {"gpu": 1}, "colour": 3, "pinned_device": 0},
    {"name": "c", "time_ms": {"gpu": 1}, "colour": 3, "is_backward": true,
     "forbidden_devices": [1]}],
  "nets": [{"producer": "a", "consumers": ["b", "c"], "amount": 2.5}],
  "weights": [{"name": "w", "bytes": "64 B", "readers": ["a", "c"]}]})";

TEST(CostGraphJson, ReadsGraphs) {
  const auto graph = read_cost_graph(kSmall, "c.json");
  ASSERT_TRUE(graph.has_value()) << format_error(graph.error());
  EXPECT_EQ(graph->classes,
            (std::vector<partition::DeviceClass>{{"gpu", 1, 1024, 8}, {"cpu", 1, {}, kUnlimited}}));
  EXPECT_EQ(graph->pair_rates, (std::vector<std::vector<double>>{{0, 4}, {4, 0}}));
  ASSERT_EQ(graph->num_nodes(), 3);
  EXPECT_EQ(graph->nodes[0].time_ms, (std::vector<double>{0.5, 2}));
  EXPECT_EQ(graph->nodes[0].memory, 7);
  EXPECT_EQ(graph->nodes[1].time_ms, (std::vector<double>{1, kUnlimited}));
  EXPECT_EQ(graph->nodes[1].colour, 3);
  EXPECT_EQ(graph->nodes[1].pinned_device, 0);
  EXPECT_TRUE(graph->nodes[2].is_backward);
  EXPECT_EQ(graph->nodes[2].forbidden_devices, (std::vector<int>{1}));
  EXPECT_EQ(graph->nets, (std::vector<partition::Net>{{0, {1, 2}, 2.5}}));
  EXPECT_EQ(graph->weights, (std::vector<partition::Weight>{{"w", 64, {0, 2}}}));
}

TEST(CostGraphJson, ReadsBackWhatItWrote) {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    const CostGraph graph = random_cost_graph(random);
    const auto text = write_cost_graph(graph);
    ASSERT_TRUE(text.has_value()) << format_error(text.error());
    const auto back = read_cost_graph(*text, "c.json");
    ASSERT_TRUE(back.has_value()) << format_error(back.error());
    EXPECT_EQ(*back, graph);
    EXPECT_EQ(write_cost_graph(*back).value(), *text);
  }
}

TEST(CostGraphJson, PlacesErrors) {
  const auto expect = [](const std::string& from, const std::string& to, ErrorCode code,
                         const std::string& pointer, const std::string& part = "") {
    SCOPED_TRACE(to);
    std::string text = kSmall;
    const std::size_t at = text.find(from);
    ASSERT_NE(at, std::string::npos) << from;
    text.replace(at, from.size(), to);
    expect_error(read_cost_graph(text, "c.json"), code, "c.json#" + pointer, part);
  };
  expect(R"("name": "b")", R"("name": "a")", ErrorCode::kConflict, "/nodes/1/name", "twice");
  expect(R"("name": "b")", R"("name": "")", ErrorCode::kValue, "/nodes/1/name", "empty");
  expect(R"("cpu": 2)", R"("tpu": 2)", ErrorCode::kValue, "/nodes/0/time_ms/tpu", "no class");
  expect(R"("cpu": 2)", R"("cpu": -2)", ErrorCode::kValue, "/nodes/0/time_ms/cpu");
  expect(R"("cpu": 2)", R"("cpu": null)", ErrorCode::kSchema, "/nodes/0/time_ms/cpu");
  expect(R"("memory_bytes": 7)", R"("memory_bytes": 9223372036854775808)", ErrorCode::kOverflow,
         "/nodes/0/memory_bytes");
  expect(R"("memory_bytes": 7)", R"("memory_bytes": 9223372036854775807)", ErrorCode::kOverflow, "",
         "2^63 - 1 bytes");
  expect(R"("pinned_device": 0)", R"("pinned_device": 2)", ErrorCode::kValue, "", "node 1 'b'");
  expect(R"("consumers": ["b")", R"("consumers": ["x")", ErrorCode::kValue, "/nets/0/consumers/0",
         "no node 'x'");
  expect(R"("producer": "a")", R"("producer": "x")", ErrorCode::kValue, "/nets/0/producer");
  expect(R"("amount": 2.5)", R"("amount": -1)", ErrorCode::kValue, "/nets/0/amount");
  expect(R"("readers": ["a")", R"("readers": ["x")", ErrorCode::kValue, "/weights/0/readers/0");
  expect(R"("bytes": "64 B")", R"("bytes": "64 X")", ErrorCode::kValue, "/weights/0/bytes");
  expect("[4, 0]]", "[4]]", ErrorCode::kSchema, "", "pair_rates");
  expect("[4, 0]]", "[5, 0]]", ErrorCode::kValue, "", "differs by direction");
  expect(R"("link_rate": 8)", R"("link_rate": 0)", ErrorCode::kValue, "/classes/0/link_rate");
  expect(R"("count": 1, "m)", R"("count": -1, "m)", ErrorCode::kValue, "/classes/0/count");
  expect(R"("amount": 2.5})",
         R"("amount": 2.5}, {"producer": "b", "consumers": ["a"], "amount": 1})",
         ErrorCode::kConflict, "", "node 0 'a' -> node 1 'b' -> node 0 'a'");
  expect("cost_graph/1", "cost_graph/2", ErrorCode::kSchema, "/schema");
}

TEST(CostGraphJson, SaysWhatItCannotWrite) {
  CostGraph graph = read_cost_graph(kSmall, "c.json").value();
  graph.nodes[1].name = "a";
  expect_error(write_cost_graph(graph), ErrorCode::kUsage, "node 1 'a'", "own name");
  graph.nodes[1].name = "";
  expect_error(write_cost_graph(graph), ErrorCode::kUsage, "node 1");
  graph.nodes[1].memory = -1;
  expect_error(write_cost_graph(graph), ErrorCode::kValue, "node 1");
}

}  // namespace
}  // namespace plimsoll::io
