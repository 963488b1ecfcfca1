#include "io/import/dnn_partitioning_json.h"

#include <gtest/gtest.h>

#include "io/expect_error.h"
#include "io/random_documents.h"

namespace plimsoll::io {
namespace {

using partition::CostGraph;
using partition::kUnlimited;

// conv → relu, conv → pool, and a backward mate of relu; ids are not dense.
const char* const kSmall = R"({
  "maxSizePerFPGA": 17185374208.0, "maxFPGAs": 2, "maxCPUs": 1,
  "nodes": [
    {"id": 7, "supportedOnFpga": 1, "cpuLatency": 3, "fpgaLatency": 0.25, "isBackwardNode": false,
     "size": 1024.0, "name": "conv", "layerId": 4},
    {"id": 3, "supportedOnFpga": true, "cpuLatency": 2.5, "fpgaLatency": 0.1, "isBackwardNode": 0,
     "colorClass": 5},
    {"id": 9, "supportedOnFpga": false, "cpuLatency": 1, "fpgaLatency": 9, "isBackwardNode": false,
     "size": 8},
    {"id": 1, "supportedOnFpga": 1, "cpuLatency": 1, "fpgaLatency": 1, "isBackwardNode": 1,
     "colorClass": 5}],
  "edges": [
    {"sourceId": 7, "destId": 3, "cost": 0.5, "size": 99.0},
    {"sourceId": 7, "destId": 9, "cost": 0.5000001, "isArtificial": false},
    {"sourceId": 3, "destId": 1, "cost": 2}]
})";

std::string replace(std::string text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

DnnPartitioningInput small() { return read_dnn_partitioning(kSmall, "d.json").value(); }

TEST(DnnPartitioningJson, ReadsGraphs) {
  const auto input = read_dnn_partitioning(kSmall, "d.json");
  ASSERT_TRUE(input.has_value()) << format_error(input.error());
  EXPECT_EQ(input->ids, (std::vector<std::int64_t>{7, 3, 9, 1}));
  const CostGraph& graph = input->graph;
  ASSERT_EQ(graph.classes.size(), 2u);
  EXPECT_EQ(graph.classes[0], (partition::DeviceClass{"accelerator", 2, 17185374208, 1}));
  EXPECT_EQ(graph.classes[1], (partition::DeviceClass{"cpu", 1, {}, kUnlimited}));
  ASSERT_EQ(graph.nodes.size(), 4u);
  EXPECT_EQ(graph.nodes[0].name, "conv");
  EXPECT_EQ(graph.nodes[0].time_ms, (std::vector<double>{0.25, 3}));
  EXPECT_EQ(graph.nodes[0].memory, 1024);
  EXPECT_FALSE(graph.nodes[0].colour.has_value());
  EXPECT_EQ(graph.nodes[2].time_ms, (std::vector<double>{kUnlimited, 1}));
  EXPECT_EQ(graph.nodes[2].memory, 8);
  EXPECT_EQ(graph.nodes[3].colour, 5);
  EXPECT_TRUE(graph.nodes[3].is_backward);
  ASSERT_EQ(graph.nets.size(), 2u);
  EXPECT_EQ(graph.nets[0], (partition::Net{0, {1, 2}, 0.5}));
  EXPECT_EQ(graph.nets[1], (partition::Net{1, {3}, 2}));
}

TEST(DnnPartitioningJson, ReadsBackWhatItWrote) {
  const auto text = write_dnn_partitioning(small());
  ASSERT_TRUE(text.has_value()) << format_error(text.error());
  EXPECT_EQ(read_dnn_partitioning(*text, "d.json").value(), small());
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    const DnnPartitioningInput input = random_dnn_partitioning(random);
    const auto again = write_dnn_partitioning(input);
    ASSERT_TRUE(again.has_value()) << format_error(again.error());
    EXPECT_EQ(read_dnn_partitioning(*again, "d.json").value(), input) << *again;
  }
}

TEST(DnnPartitioningJson, PlacesErrors) {
  const auto expect = [](const std::string& from, const std::string& to, ErrorCode code,
                         const std::string& pointer, const std::string& text = "") {
    SCOPED_TRACE(to);
    expect_error(read_dnn_partitioning(replace(kSmall, from, to), "d.json"), code,
                 "d.json#" + pointer, text);
  };
  expect(R"("id": 3)", R"("id": 7)", ErrorCode::kConflict, "/nodes/1/id", "occurs twice");
  expect(R"("id": 3,)", "", ErrorCode::kSchema, "/nodes/1", "'id' is missing");
  expect(R"("supportedOnFpga": 1)", R"("supportedOnFpga": 2)", ErrorCode::kValue,
         "/nodes/0/supportedOnFpga", "is neither true nor false");
  expect(R"("supportedOnFpga": 1)", R"("supportedOnFpga": "yes")", ErrorCode::kSchema,
         "/nodes/0/supportedOnFpga", "a boolean");
  expect(R"("cpuLatency": 3)", R"("cpuLatency": -3)", ErrorCode::kValue, "/nodes/0/cpuLatency");
  expect(R"("cpuLatency": 3)", R"("cpuLatancy": 3)", ErrorCode::kSchema, "/nodes/0/cpuLatancy",
         "did you mean 'cpuLatency'");
  expect(R"("size": 1024.0)", R"("size": 1024.5)", ErrorCode::kValue, "/nodes/0/size", "whole");
  expect(R"("size": 1024.0)", R"("size": -1.0)", ErrorCode::kValue, "/nodes/0/size");
  expect(R"("size": 1024.0)", R"("size": -1)", ErrorCode::kValue, "/nodes/0/size");
  expect(R"("size": 1024.0)", R"("size": 1e19)", ErrorCode::kOverflow, "/nodes/0/size");
  expect(R"("layerId": 4)", R"("containedSubnodes": [])", ErrorCode::kSchema,
         "/nodes/0/containedSubnodes", "unknown key");
  expect("17185374208.0", "null", ErrorCode::kSchema, "/maxSizePerFPGA");
  expect(R"("maxFPGAs": 2)", R"("maxFPGAs": -1)", ErrorCode::kValue, "/maxFPGAs");
  expect(R"("maxFPGAs": 2, "maxCPUs": 1)", R"("maxFPGAs": 0, "maxCPUs": 0)", ErrorCode::kValue, "",
         "0 devices");
  expect(R"("destId": 3)", R"("destId": 4)", ErrorCode::kValue, "/edges/0/destId", "no node 4");
  expect(R"("sourceId": 3)", R"("sourceId": 4)", ErrorCode::kValue, "/edges/2/sourceId");
  expect(R"("destId": 3)", R"("destId": 7)", ErrorCode::kConflict, "/edges/0", "itself");
  expect(R"("destId": 9)", R"("destId": 3)", ErrorCode::kConflict, "/edges/1", "second edge");
  expect("0.5000001", "0.500002", ErrorCode::kConflict, "/edges/1/cost", "same cost");
  expect(R"("isArtificial": false)", R"("isArtificial": true)", ErrorCode::kValue,
         "/edges/1/isArtificial", "artificial");
  expect(R"("sourceId": 3, "destId": 1)", R"("sourceId": 1, "destId": 3)", ErrorCode::kConflict,
         "/edges/2", "backward");
  expect(R"("sourceId": 3, "destId": 1)", R"("sourceId": 3, "destId": 7)", ErrorCode::kConflict,
         "/edges", "in a cycle: 7 -> 3 -> 7");
}

TEST(DnnPartitioningJson, RefusesToWriteWhatTheFormatCannotSay) {
  const auto expect = [](const std::string& place, const auto& damage) {
    SCOPED_TRACE(place);
    DnnPartitioningInput input = small();
    damage(input);
    expect_error(write_dnn_partitioning(input), ErrorCode::kUsage, place);
  };
  using Input = DnnPartitioningInput;
  expect("ids", [](Input& d) { d.ids.pop_back(); });
  expect("ids", [](Input& d) { d.ids[0] = d.ids[1]; });
  expect("classes", [](Input& d) { d.graph.classes[0].memory_cap.reset(); });
  expect("classes", [](Input& d) { d.graph.classes[0].link_rate = 2; });
  expect("classes", [](Input& d) { d.graph.classes[1].memory_cap = 2; });
  expect("classes", [](Input& d) { d.graph.classes[1].link_rate = 2; });
  expect("node 0 'conv'", [](Input& d) { d.graph.nodes[0].pinned_device = 0; });
  expect("node 0 'conv'", [](Input& d) { d.graph.nodes[0].forbidden_devices = {0}; });
  expect("node 0 'conv'", [](Input& d) { d.graph.nodes[0].time_ms[1] = kUnlimited; });
  expect("node 0 'conv'", [](Input& d) { d.graph.nets.push_back({0, {3}, 1}); });
}

TEST(DnnPartitioningJson, ReadsBackSplits) {
  const DnnPartitioningInput input = small();
  const partition::DeviceAssignment assignment{{0, 2, 2, 2}};
  const std::string text = write_dnn_partitioning_split(input, assignment);
  EXPECT_EQ(text, R"({
 "maxLoad": 4.5,
 "fpgas": [{"load": 0.75, "nodes": [7]}, {"load": 0.0, "nodes": []}],
 "cpus": [{"load": 4.5, "nodes": [3, 9, 1]}]
}
)");
  EXPECT_EQ(read_dnn_partitioning_split(text, "s.json", input).value(), assignment);
}

TEST(DnnPartitioningJson, PlacesErrorsInSplits) {
  const auto expect = [](const std::string& text, ErrorCode code, const std::string& pointer,
                         const std::string& part = "") {
    SCOPED_TRACE(text);
    expect_error(read_dnn_partitioning_split(text, "s.json", small()), code, "s.json#" + pointer,
                 part);
  };
  expect(R"({"fpgas": [{"load": -1, "nodes": [7, 3, 9]}], "cpus": []})", ErrorCode::kValue, "",
         "node 1 has no device");
  expect(R"({"fpgas": [{"nodes": [7, 3]}], "cpus": [{"nodes": [9, 3, 1]}]})", ErrorCode::kConflict,
         "/cpus/0/nodes/1", "twice");
  expect(R"({"fpgas": [{"nodes": [7, 8]}], "cpus": []})", ErrorCode::kValue, "/fpgas/0/nodes/1",
         "no node 8");
  expect(R"({"fpgas": [], "cpus": [{"nodes": []}, {"nodes": []}]})", ErrorCode::kConflict, "/cpus",
         "2 devices");
  expect(R"({"fpgas": []})", ErrorCode::kSchema, "", "'cpus' is missing");
}

}  // namespace
}  // namespace plimsoll::io
