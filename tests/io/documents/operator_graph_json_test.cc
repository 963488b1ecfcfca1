#include "io/documents/operator_graph_json.h"

#include <gtest/gtest.h>

#include "io/expect_error.h"
#include "io/graph_files.h"

namespace plimsoll::io::operator_graph_json {
namespace {

using partition::OperatorGraph;
using partition::OperatorNode;
using partition::OpKind;

// x, w (is v) → linear → view → output
const char* const kSmall = R"({
  "format": "plimsoll-fx-graph", "version": 1, "name": "small", "source": {"torch": "2.13.0"},
  "fields": ["name", "op", "target", "module", "inputs", "output_size", "flops", "bytes_moved",
             "ms_h100", "dtype", "flags"],
  "flag_bits": {"parameter": 1, "tied": 16}, "ties": [[1, 2]], "units": {"output_size": "bytes"},
  "targets": ["x", "w", "v", "aten.linear.default", "aten.view_.default", "output"],
  "modules": ["", "head"], "dtypes": ["", "bfloat16"],
  "rows": [
    ["x", "placeholder", 0, 0, [], 16, 0, 0, 0, 1, 0],
    ["w", "get_attr", 1, 0, [], 100, 0, 0, 0, 1, 1],
    ["v", "get_attr", 2, 0, [], 100, 0, 0, 0, 1, 17],
    ["linear", "call_function", 3, 1, [0, 1, 2], 32, 2e3, 248, 0.5, 1, 0],
    [0, "call_function", 4, 1, [3], 32, 0, 0, null, 1, 4],
    ["output", "output", 5, 0, [4], 0, 0, 0, 0, 0, 0]]
})";

std::string replace(std::string text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

TEST(OperatorGraphJson, ReadsRows) {
  const auto graph = read_operator_graph(kSmall, "g.json");
  ASSERT_TRUE(graph.has_value()) << format_error(graph.error());
  EXPECT_EQ(graph->name, "small");
  EXPECT_EQ(graph->time_columns, std::vector<std::string>{"h100"});
  EXPECT_EQ(graph->ties, (std::vector<std::pair<int, int>>{{1, 2}}));
  ASSERT_EQ(graph->num_nodes(), 6);
  EXPECT_TRUE(graph->nodes[2].is_parameter);
  OperatorNode linear;
  linear.name = "linear";
  linear.target = "aten.linear.default";
  linear.module = "head";
  linear.inputs = {0, 1, 2};
  linear.output_bytes = 32;
  linear.flops = 2000;
  linear.bytes_moved = 248;
  linear.time_ms = {0.5};
  linear.dtype = "bfloat16";
  EXPECT_EQ(graph->nodes[3], linear);
  EXPECT_EQ(graph->nodes[4].name, "n4");
  EXPECT_TRUE(graph->nodes[4].is_view);
  EXPECT_TRUE(graph->nodes[4].is_mutating) << "by its name";
  EXPECT_FALSE(graph->nodes[4].time_ms[0].has_value());
  EXPECT_EQ(graph->nodes[5].op, OpKind::kOutput);
}

TEST(OperatorGraphJson, ReadsBackWhatItWrote) {
  OperatorGraph graph = read_operator_graph(kSmall, "g.json").value();
  EXPECT_EQ(read_operator_graph(write_operator_graph(graph), "g.json").value(), graph);
  graph.nodes[3].memory = 5;
  graph.nodes[3].is_mutating = true;
  graph.time_columns.clear();
  for (OperatorNode& node : graph.nodes) node.time_ms.clear();
  const auto again = read_operator_graph(write_operator_graph(graph), "g.json");
  ASSERT_TRUE(again.has_value()) << format_error(again.error());
  EXPECT_EQ(*again, graph);
  EXPECT_EQ(read_operator_graph(write_operator_graph({}), "g.json").value(), OperatorGraph{});
  for (const char* file : {"dlrm-forward.json", "gpt2-joint.json"}) {
    const OperatorGraph real = read_operator_graph(load_graph(file), file).value();
    EXPECT_EQ(read_operator_graph(write_operator_graph(real), file).value(), real);
  }
}

struct Spoiled {
  const char* from;
  const char* to;
  ErrorCode code;
  const char* pointer;
  const char* part;
};

TEST(OperatorGraphJson, RefusesWhatIsWrongAndSaysWhere) {
  const Spoiled cases[] = {
      {"plimsoll-fx", "other", ErrorCode::kSchema, "/format", "is not a format"},
      {"\"version\": 1", "\"version\": 2", ErrorCode::kSchema, "/version", "version 2"},
      {"\"source\"", "\"sourc\"", ErrorCode::kSchema, "/sourc", "did you mean 'source'"},
      {"\"tied\": 16", "\"tied\": 8", ErrorCode::kValue, "/flag_bits/tied", "flag"},
      {"\"flops\", ", "\"flopps\", ", ErrorCode::kSchema, "/fields/6", "did you mean 'flops'"},
      {"\"flops\", ", "\"name\", ", ErrorCode::kConflict, "/fields/6", "twice"},
      {"\"op\", ", "\"ms_op\", ", ErrorCode::kSchema, "/fields", "'op' is missing"},
      {"[[1, 2]]", "[[1, 9]]", ErrorCode::kValue, "", "tie 0"},
      {"[[1, 2]]", "[]", ErrorCode::kConflict, "/rows/2", "no tie"},
      {"1, 17]", "1, 1]", ErrorCode::kConflict, "/rows/2", "without the flag"},
      {"1, 17]", "1, 64]", ErrorCode::kValue, "/rows/2/10", "not known"},
      {"1, 17]", "1]", ErrorCode::kSchema, "/rows/2", "11 entries"},
      {"placeholder", "place", ErrorCode::kValue, "/rows/0/1", "is not a kind of node"},
      {"\"linear\", ", "7, ", ErrorCode::kSchema, "/rows/3/0", "a text, or 0"},
      {"\"linear\", ", "\"x\", ", ErrorCode::kConflict, "", "node 3 'x'"},
      {"3, 1, [0", "6, 1, [0", ErrorCode::kValue, "/rows/3/2", "6 targets"},
      {"3, 1, [0", "3, 2, [0", ErrorCode::kValue, "/rows/3/3", "2 modules"},
      {"3, 1, [0", "-1, 1, [0", ErrorCode::kValue, "/rows/3/2", "at least 0"},
      {"[0, 1, 2]", "[0, 1, 3]", ErrorCode::kValue, "", "reads node 3"},
      {"[0, 1, 2]", "[0, 1, -2]", ErrorCode::kValue, "/rows/3/4/2", "at least 0"},
      {"[0, 1, 2]", "[0, 1, 1]", ErrorCode::kConflict, "", "twice"},
      {"[0, 1, 2]", "[0, 1, 9999999999]", ErrorCode::kOverflow, "/rows/3/4/2", "does not fit"},
      {"32, 2e3", "9223372036854775808, 2e3", ErrorCode::kOverflow, "/rows/3/5", "does not fit"},
      {"32, 2e3", "9223372036854775807, 2e3", ErrorCode::kOverflow, "", "2^62"},
      {"32, 2e3", "32.5, 2e3", ErrorCode::kSchema, "/rows/3/5", "an integer"},
      {"32, 2e3", "-1, 2e3", ErrorCode::kValue, "/rows/3/5", "at least 0"},
      {"2e3", "-2e3", ErrorCode::kValue, "/rows/3/6", "at least 0"},
      {"2e3", "2e999", ErrorCode::kOverflow, "/rows/3/6", ""},
      {"2e3", "NaN", ErrorCode::kSyntax, "/rows/3/6", ""},
      {"248, 0.5", "248, -0.5", ErrorCode::kValue, "/rows/3/8", "at least 0"},
      {"\"rows\"", "\"names\"", ErrorCode::kSchema, "/names", ""},
  };
  for (const Spoiled& c : cases) {
    SCOPED_TRACE(std::string(c.from) + " -> " + c.to);
    expect_error(read_operator_graph(replace(kSmall, c.from, c.to), "g.json"), c.code,
                 "g.json#" + std::string(c.pointer), c.part);
  }
}

TEST(OperatorGraphJson, SurvivesEveryTruncationAndByte) {
  const std::string text = kSmall;
  for (std::size_t size = 0; size + 1 < text.size(); ++size) {
    EXPECT_FALSE(read_operator_graph(std::string_view(text).substr(0, size), "g.json").has_value());
  }
  for (std::size_t at = 0; at < text.size(); ++at) {
    for (const char c : {'0', '-', '"', '[', '}', '\0', '\xff'}) {
      std::string spoiled = text;
      spoiled[at] = c;
      const auto graph = read_operator_graph(spoiled, "g.json");
      if (graph) {
        EXPECT_TRUE(partition::validate(*graph).has_value());
      }
    }
  }
}

struct Figures {
  const char* file;
  int nodes, operators, edges;
  double parameter_gb, gflop, a100_ms, h100_ms, cpu_ms;
};

TEST(OperatorGraphJson, FindsTheFiguresOfRealModels) {
  const Figures cases[] = {
      {"dlrm-forward.json", 319, 265, 349, 52.314, 65.7, 0.62, 0.34, 37},
      {"gpt2-joint.json", 1676, 1526, 2339, 0.249, 7154.2, 48.22, 22.59, 3832},
  };
  for (const Figures& expected : cases) {
    SCOPED_TRACE(expected.file);
    const auto graph = read_operator_graph(load_graph(expected.file), expected.file);
    ASSERT_TRUE(graph.has_value()) << format_error(graph.error());
    EXPECT_EQ(graph->num_nodes(), expected.nodes);
    int operators = 0;
    int edges = 0;
    double gflop = 0;
    std::vector<double> ms(graph->time_columns.size());
    for (int node = 0; node < graph->num_nodes(); ++node) {
      operators += graph->is_operator(node) ? 1 : 0;
      edges += static_cast<int>(graph->nodes[node].inputs.size());
      gflop += graph->nodes[node].flops / 1e9;
      for (std::size_t c = 0; c < ms.size(); ++c) ms[c] += graph->nodes[node].time_ms[c].value();
    }
    EXPECT_EQ(operators, expected.operators);
    EXPECT_EQ(edges, expected.edges);
    EXPECT_NEAR(static_cast<double>(parameter_bytes(*graph)) / 1e9, expected.parameter_gb, 6e-4);
    EXPECT_NEAR(gflop, expected.gflop, 0.06);
    ASSERT_EQ(graph->time_columns, (std::vector<std::string>{"a100", "h100", "cpu"}));
    EXPECT_NEAR(ms[0], expected.a100_ms, 0.006);
    EXPECT_NEAR(ms[1], expected.h100_ms, 0.006);
    EXPECT_NEAR(ms[2], expected.cpu_ms, 0.6);
  }
}

// The same three columns hashed by Python's hashlib.blake2b(digest_size=32).
TEST(OperatorGraphJson, HashesAsPythonDoes) {
  const auto graph = read_operator_graph(load_graph("gpt2-joint.json"), "gpt2-joint.json");
  EXPECT_EQ(hash_of(*graph), "7eb953495aed436b1cb73bcc8f1d0d145022cb0aee03c8cccddaa04cefe7c480");
}

}  // namespace
}  // namespace plimsoll::io::operator_graph_json
