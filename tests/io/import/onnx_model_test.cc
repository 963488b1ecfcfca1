#include "io/import/onnx_model.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "io/expect_error.h"
#include "io/graph_files.h"

namespace plimsoll::io::onnx_model {
namespace {

using partition::OperatorGraph;
using partition::OperatorNode;
using partition::OpKind;
using wire::message;
using wire::number;
using wire::string;

const OperatorNode* find_node(const OperatorGraph& graph, const std::string& name) {
  const auto found = std::find_if(graph.nodes.begin(), graph.nodes.end(),
                                  [&](const OperatorNode& node) { return node.name == name; });
  return found == graph.nodes.end() ? nullptr : &*found;
}

constexpr int kFloat = 1;
constexpr int kInt64 = 7;

std::string tensor(const std::string& name, const std::vector<std::int64_t>& sizes,
                   int type = kFloat) {
  std::string body = number(2, type) + string(8, name) + string(9, "raw data, passed over");
  for (const std::int64_t size : sizes) body += number(1, size);
  return body;
}

// Sizes below 0 are the symbol "N".
std::string value_info(const std::string& name, const std::vector<std::int64_t>& sizes,
                       int type = kFloat) {
  std::string shape;
  for (const std::int64_t size : sizes) {
    shape += message(1, size < 0 ? string(2, "N") : number(1, size));
  }
  return string(1, name) + message(2, message(1, number(1, type) + message(2, shape)));
}

std::string node(const std::string& type, const std::vector<std::string>& inputs,
                 const std::vector<std::string>& outputs, const std::string& name = "",
                 const std::string& more = "") {
  std::string body;
  for (const std::string& input : inputs) body += string(1, input);
  for (const std::string& output : outputs) body += string(2, output);
  return body + string(3, name) + string(4, type) + more;
}

std::string attribute(const std::string& name, std::int64_t value) {
  return message(5, string(1, name) + number(3, value));
}

std::string model(const std::string& graph) {
  return number(1, 10) + string(2, "by hand") + message(7, graph) + message(8, number(2, 20));
}

// x [N, 4], w [4, 8] → MatMul → Split → Add of both halves
std::string small_graph() {
  return message(1, node("MatMul", {"x", "w"}, {"y"}, "/head/MatMul")) +
         message(1, node("Split", {"y"}, {"a", "b"}, "split")) +
         message(1, node("Add", {"a", "b"}, {"z"})) + string(2, "main") +
         message(5, tensor("w", {4, 8})) + message(11, value_info("x", {-1, 4})) +
         message(12, value_info("z", {-1, 4})) + message(13, value_info("y", {-1, 8})) +
         message(13, value_info("a", {-1, 4})) + message(13, value_info("b", {-1, 4}));
}

OperatorGraph read(const std::string& graph) {
  const auto result = read_onnx(model(graph), "m.onnx");
  EXPECT_TRUE(result.has_value()) << (result ? "" : format_error(result.error()));
  return result ? result->graph : OperatorGraph{};
}

TEST(OnnxModel, ReadsAGraphByHand) {
  const auto result = read_onnx(model(small_graph()), "m.onnx");
  ASSERT_TRUE(result.has_value()) << format_error(result.error());
  ASSERT_EQ(result->warnings.size(), 1u);
  EXPECT_EQ(result->warnings[0].code, "symbolic_size");
  EXPECT_EQ(result->warnings[0].message, "sizes of 'N' count as 1");
  const OperatorGraph& graph = result->graph;
  EXPECT_EQ(graph.name, "main");
  ASSERT_EQ(graph.num_nodes(), 8);
  EXPECT_TRUE(graph.nodes[0].is_parameter);
  EXPECT_EQ(graph.nodes[0].output_bytes, 128);
  EXPECT_EQ(graph.nodes[1].op, OpKind::kPlaceholder);
  const OperatorNode* matmul = find_node(graph, "/head/MatMul");
  ASSERT_NE(matmul, nullptr);
  EXPECT_EQ(matmul->module, "head");
  EXPECT_EQ(matmul->inputs, (std::vector<int>{1, 0}));
  EXPECT_EQ(matmul->flops, 2.0 * 8 * 4);
  EXPECT_EQ(matmul->bytes_moved, 16 + 128 + 32);
  const OperatorNode* part = find_node(graph, "b");
  ASSERT_NE(part, nullptr);
  EXPECT_EQ(part->target, "getitem");
  EXPECT_TRUE(part->is_view);
  EXPECT_EQ(find_node(graph, "split")->output_bytes, 32);
  EXPECT_EQ(find_node(graph, "z")->target, "Add");
}

TEST(OnnxModel, TellsParametersFromBuffersAndConstants) {
  const OperatorGraph graph =
      read(message(1, node("BatchNormalization", {"x", "scale", "bias", "mean", "var"}, {"y"})) +
           message(1, node("Constant", {}, {"axes"}, "",
                           message(5, string(1, "value") + message(5, tensor("", {3}, kInt64))))) +
           message(5, tensor("scale", {16})) + message(5, tensor("bias", {16})) +
           message(5, tensor("mean", {16})) + message(5, tensor("var", {16})) +
           message(5, tensor("eps", {1})) + message(5, tensor("shape", {2}, kInt64)) +
           message(5, tensor("packed", {3}, 22)) + message(11, value_info("x", {16})) +
           message(12, value_info("y", {16})));
  EXPECT_EQ(parameter_bytes(graph), 2 * 64);
  EXPECT_EQ(buffer_bytes(graph), 2 * 64 + 4 + 16 + 2 + 24) << "int4 takes half a byte";
  EXPECT_EQ(find_node(graph, "axes")->op, OpKind::kGetAttr);
}

// Of a sparse weight its values and their places, here two numbers each.
TEST(OnnxModel, ReadsSparseWeights) {
  const OperatorGraph graph =
      read(message(1, node("MatMul", {"x", "w"}, {"y"})) +
           message(15, message(1, tensor("w", {3})) + message(2, tensor("", {3, 2}, kInt64)) +
                           number(3, 4) + number(3, 8)) +
           message(11, value_info("x", {2, 4})) + message(12, value_info("y", {2, 8})));
  EXPECT_EQ(parameter_bytes(graph), 3 * 4 + 3 * 2 * 8);
}

// The If reads `x` and, in a branch of its branch, `w`; `inner` is the branch's own.
TEST(OnnxModel, LetsSubgraphsReadFromOutside) {
  const std::string deepest =
      message(1, node("Add", {"inner", "w"}, {"deep"})) + message(12, value_info("deep", {4}));
  const std::string branch =
      message(1, node("Relu", {"x"}, {"inner"})) +
      message(1, node("If", {"c"}, {"d"}, "", message(5, string(1, "t") + message(6, deepest)))) +
      message(12, value_info("d", {4}));
  const OperatorGraph graph =
      read(message(1, node("If", {"c"}, {"y"}, "if",
                           message(5, string(1, "then_branch") + message(6, branch)))) +
           message(1, node("Relu", {"x"}, {"other"}, "inner")) + message(5, tensor("w", {4})) +
           message(11, value_info("c", {1})) + message(11, value_info("x", {4})) +
           message(12, value_info("y", {4})) + message(12, value_info("other", {4})));
  EXPECT_EQ(find_node(graph, "if")->inputs, (std::vector<int>{1, 2, 0}));
}

TEST(OnnxModel, PutsNodesInOrder) {
  const OperatorGraph graph =
      read(message(1, node("Relu", {"b"}, {"c"})) + message(1, node("Relu", {"a"}, {"b"})) +
           message(1, node("Relu", {"x"}, {"a"})) + message(11, value_info("x", {4})) +
           message(12, value_info("c", {4})));
  std::vector<std::string> names;
  for (const OperatorNode& n : graph.nodes) names.push_back(n.name);
  EXPECT_EQ(names, (std::vector<std::string>{"x", "a", "b", "c", "output"}));
}

TEST(OnnxModel, CountsFlops) {
  const auto flops = [](const std::string& type, const std::vector<std::int64_t>& a,
                        const std::vector<std::int64_t>& b, const std::vector<std::int64_t>& y,
                        const std::string& more = "", const std::vector<std::int64_t>& third = {}) {
    std::vector<std::string> inputs = {"a", "b"};
    if (!third.empty()) inputs.emplace_back("t");
    const OperatorGraph graph =
        read(message(1, node(type, inputs, {"y"}, "op", more)) + message(11, value_info("a", a)) +
             message(11, value_info("b", b)) + message(12, value_info("y", y)) +
             message(11, value_info("t", third.empty() ? std::vector<std::int64_t>{1} : third)));
    return find_node(graph, "op")->flops;
  };
  EXPECT_EQ(flops("MatMul", {5, 2, 3}, {3, 7}, {5, 2, 7}), 2.0 * 5 * 2 * 7 * 3);
  EXPECT_EQ(flops("Gemm", {2, 3}, {3, 7}, {2, 7}), 2.0 * 2 * 7 * 3);
  EXPECT_EQ(flops("Gemm", {3, 2}, {3, 7}, {2, 7}, attribute("transA", 1)), 2.0 * 2 * 7 * 3);
  EXPECT_EQ(flops("Conv", {1, 8, 5, 5}, {16, 4, 3, 3}, {1, 16, 5, 5}), 2.0 * 16 * 25 * 4 * 9);
  EXPECT_EQ(flops("ConvTranspose", {1, 8, 5, 5}, {8, 4, 3, 3}, {1, 4, 7, 7}), 2.0 * 8 * 25 * 4 * 9);
  EXPECT_EQ(flops("LSTM", {6, 2, 3}, {1, 40, 3}, {6, 1, 2, 10}, "", {1, 40, 10}),
            2.0 * 6 * 2 * (40 * 3 + 40 * 10));
  EXPECT_EQ(flops("Attention", {1, 2, 5, 3}, {1, 2, 7, 3}, {1, 2, 5, 4}, "", {1, 2, 7, 4}),
            2.0 * 2 * 5 * 7 * (3 + 4));
  EXPECT_EQ(flops("Add", {4}, {4}, {4}), 0);
}

TEST(OnnxModel, ReadsTheExportersFiles) {
  const auto result = read_onnx_file(graph_path("tiny-conv.onnx"));
  ASSERT_TRUE(result.has_value()) << format_error(result.error());
  EXPECT_TRUE(result->warnings.empty());
  const OperatorNode* conv = find_node(result->graph, "node_conv2d_1");
  ASSERT_NE(conv, nullptr);
  EXPECT_EQ(conv->module, "c1");
  EXPECT_EQ(conv->flops, 2.0 * 16 * 32 * 32 * 16 * 9);
  EXPECT_EQ(read_onnx(load_graph("tiny-conv.onnx"), "m.onnx")->graph, result->graph);
}

TEST(OnnxModel, WarnsOfWhatIsMissing) {
  const std::string external = tensor("w", {4, 8}) + number(14, 1);
  const auto result =
      read_onnx(model(message(1, node("MatMul", {"x", "w"}, {"y"})) +
                      message(1, node("Relu", {"y"}, {"z"})) + message(5, external) +
                      message(11, value_info("x", {2, 4}, 77)) + message(12, string(1, "z"))),
                "m.onnx");
  ASSERT_TRUE(result.has_value()) << format_error(result.error());
  std::vector<std::string> codes;
  for (const Warning& warning : result->warnings) codes.push_back(warning.code);
  EXPECT_EQ(codes, (std::vector<std::string>{"unknown_dtype", "external_data", "unknown_size"}));
}

TEST(OnnxModel, RefusesWhatIsWrongAndSaysWhere) {
  const std::string x = message(11, value_info("x", {4}));
  const auto expect = [&](const std::string& graph, ErrorCode code, const std::string& place,
                          const std::string& part) {
    expect_error(read_onnx(model(graph + x), "m.onnx"), code, place, part);
  };
  expect(message(1, node("Relu", {"y"}, {"z"}, "r")), ErrorCode::kValue, "m.onnx:node 0 'r'",
         "nobody gives its input 'y'");
  expect(message(1, node("Relu", {"z"}, {"y"}, "r")) + message(1, node("Relu", {"y"}, {"z"})),
         ErrorCode::kConflict, "m.onnx:node 0 'r'", "cycle");
  // What only waits for the cycle is not blamed.
  expect(message(1, node("Relu", {"b"}, {"z"}, "behind")) +
             message(1, node("Relu", {"b"}, {"a"}, "one")) +
             message(1, node("Relu", {"a"}, {"b"}, "two")),
         ErrorCode::kConflict, "m.onnx:node 1 'one'",
         "in a cycle: node 1 'one' -> node 2 'two' -> node 1 'one'");
  expect(message(1, node("If", {"x"}, {"y"}, "if",
                         message(5, string(1, "then_branch") +
                                        message(6, message(1, node("Relu", {"z"}, {"a"})))))),
         ErrorCode::kValue, "m.onnx:node 0 'if'", "nobody gives 'z', which a subgraph of it reads");
  expect(message(15, message(1, tensor("w", {3})) + message(2, tensor("", {INT64_MAX, 2}, kInt64))),
         ErrorCode::kOverflow, "m.onnx:value 'w'", "63 bits");
  expect(message(1, node("Relu", {"x"}, {"y"})) + message(1, node("Relu", {"x"}, {"y"})),
         ErrorCode::kConflict, "m.onnx:value 'y'", "twice");
  expect(message(5, tensor("w", {1})) + message(5, tensor("w", {1})), ErrorCode::kConflict,
         "m.onnx:value 'w'", "twice");
  expect(message(5, tensor("w", {4, -1})), ErrorCode::kValue, "m.onnx:value 'w'", "negative");
  expect(message(5, tensor("w", {INT64_MAX, 2})), ErrorCode::kOverflow, "m.onnx:value 'w'",
         "63 bits");
  expect(message(12, value_info("y", {4})), ErrorCode::kValue, "m.onnx:value 'y'", "output");
  expect_error(read_onnx("", "m.onnx"), ErrorCode::kSchema, "m.onnx", "no graph");
  expect_error(read_onnx(model(x) + model(x), "m.onnx"), ErrorCode::kSchema, "m.onnx", "two");
  expect_error(read_onnx_file("/nowhere/m.onnx"), ErrorCode::kNotFound, "/nowhere/m.onnx");
  expect_error(read_onnx_file("/"), ErrorCode::kIo, "/");
  EXPECT_FALSE(read_onnx("{\"maxFPGAs\": 1}", "m.onnx").has_value());
  EXPECT_FALSE(read_onnx(load_graph("tiny-conv.pt2"), "m.onnx").has_value());
}

TEST(OnnxModel, LimitsNesting) {
  std::string graph = message(12, value_info("x", {4}));
  for (int i = 0; i < 200; ++i) {
    graph = message(1, node("If", {"x"}, {"y" + std::to_string(i)}, "",
                            message(5, string(1, "branch") + message(6, graph))));
  }
  const auto result = read_onnx(model(graph), "m.onnx");
  ASSERT_FALSE(result.has_value());
  EXPECT_THAT(format_error(result.error()), ::testing::HasSubstr("nested too deeply"));
}

TEST(OnnxModel, SurvivesEveryTruncationAndByte) {
  const std::string text = model(small_graph());
  int num_read = 0;
  for (std::size_t size = 0; size < text.size(); ++size) {
    num_read += read_onnx(std::string_view(text).substr(0, size), "m.onnx").has_value() ? 1 : 0;
  }
  EXPECT_EQ(num_read, 1) << "only without the last message, the operator set, is it still whole";
  for (std::size_t at = 0; at < text.size(); ++at) {
    for (int change = 1; change < 256; change += 13) {
      std::string spoiled = text;
      spoiled[at] = static_cast<char>(spoiled[at] ^ change);
      const auto result = read_onnx(spoiled, "m.onnx");
      if (result) {
        EXPECT_TRUE(partition::validate(result->graph).has_value());
      }
    }
  }
  const std::string file = load_graph("tiny-conv.onnx");
  for (std::size_t size = 0; size + 16 < file.size(); size += 61) {
    EXPECT_FALSE(read_onnx(std::string_view(file).substr(0, size), "m.onnx").has_value()) << size;
  }
}

}  // namespace
}  // namespace plimsoll::io::onnx_model
