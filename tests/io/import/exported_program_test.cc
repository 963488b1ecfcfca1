#include "io/import/exported_program.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "io/expect_error.h"
#include "io/graph_files.h"
#include "io/import/onnx_model.h"

namespace plimsoll::io::exported_program {
namespace {

using partition::OperatorGraph;
using partition::OperatorNode;
using partition::OpKind;

const OperatorNode* find_node(const OperatorGraph& graph, const std::string& name) {
  const auto found = std::find_if(graph.nodes.begin(), graph.nodes.end(),
                                  [&](const OperatorNode& node) { return node.name == name; });
  return found == graph.nodes.end() ? nullptr : &*found;
}

double total_flops(const OperatorGraph& graph) {
  double flops = 0;
  for (const OperatorNode& node : graph.nodes) flops += node.flops;
  return flops;
}

ImportedGraph load(const std::string& name) {
  auto result = read_exported_program_file(graph_path(name));
  EXPECT_TRUE(result.has_value()) << (result ? "" : format_error(result.error()));
  return result ? *std::move(result) : ImportedGraph{};
}

TEST(ExportedProgram, ReadsAConvolutionNet) {
  const ImportedGraph imported = load("tiny-conv.pt2");
  const OperatorGraph& graph = imported.graph;
  EXPECT_TRUE(imported.warnings.empty());
  EXPECT_EQ(graph.name, "tiny-conv");
  EXPECT_EQ(parameter_bytes(graph), 6314 * 4);
  EXPECT_EQ(buffer_bytes(graph), 136) << "with the int64 counter of batches";
  const OperatorNode* conv = find_node(graph, "conv2d");
  ASSERT_NE(conv, nullptr);
  EXPECT_EQ(conv->target, "aten.conv2d.default");
  EXPECT_EQ(conv->module, "c0");
  EXPECT_EQ(conv->output_bytes, 16 * 32 * 32 * 4);
  EXPECT_EQ(conv->flops, 2.0 * 16 * 32 * 32 * 27);
  EXPECT_EQ(conv->bytes_moved, 4 * (3 * 32 * 32 + 16 * 27 + 16 + 16 * 32 * 32));
  EXPECT_EQ(conv->dtype, "float32");
  const OperatorNode* weight = find_node(graph, "p_c0_weight");
  ASSERT_NE(weight, nullptr);
  EXPECT_EQ(weight->op, OpKind::kGetAttr);
  EXPECT_EQ(weight->target, "c0.weight");
  EXPECT_TRUE(weight->is_parameter);
  EXPECT_TRUE(find_node(graph, "b_b0_running_mean")->is_buffer);
  EXPECT_EQ(find_node(graph, "x")->op, OpKind::kPlaceholder);
  EXPECT_EQ(graph.nodes.back().op, OpKind::kOutput);
  EXPECT_EQ(read_exported_program(load_graph("tiny-conv.pt2"), "tiny-conv.pt2")->graph, graph);
}

TEST(ExportedProgram, CountsSymbolicSizesAsTheirHints) {
  const ImportedGraph imported = load("tiny-conv-dynamic.pt2");
  ASSERT_EQ(imported.warnings.size(), 1u);
  EXPECT_EQ(imported.warnings[0].code, "symbolic_size");
  EXPECT_EQ(imported.warnings[0].message, "sizes of 's77' count as their hints, here 2");
  const OperatorGraph fixed = load("tiny-conv.pt2").graph;
  EXPECT_EQ(parameter_bytes(imported.graph), parameter_bytes(fixed));
  EXPECT_EQ(find_node(imported.graph, "conv2d")->output_bytes,
            2 * find_node(fixed, "conv2d")->output_bytes);
  EXPECT_EQ(total_flops(imported.graph), 2 * total_flops(fixed));
  EXPECT_EQ(hash_of(imported.graph), hash_of(fixed)) << "one graph, other sizes";
}

TEST(ExportedProgram, ReadsPartsOfSeveralOutputsAndViews) {
  const OperatorGraph graph = load("tiny-attention.pt2").graph;
  const OperatorNode* chunk = find_node(graph, "chunk");
  ASSERT_NE(chunk, nullptr);
  EXPECT_TRUE(chunk->is_view);
  EXPECT_EQ(chunk->output_bytes, 3 * 4096);
  const OperatorNode* part = find_node(graph, "getitem_1");
  ASSERT_NE(part, nullptr);
  EXPECT_EQ(part->target, "getitem");
  EXPECT_EQ(part->output_bytes, 4096);
  EXPECT_TRUE(part->is_view);
  EXPECT_EQ(graph.nodes[part->inputs.at(0)].name, "chunk");
  EXPECT_EQ(find_node(graph, "scaled_dot_product_attention")->flops, 4.0 * 2 * 16 * 16 * 32);
  EXPECT_EQ(find_node(graph, "embedding")->bytes_moved, 2 * 4096 + 256);
  EXPECT_EQ(find_node(graph, "t")->inputs, (std::vector<int>{0})) << "the head is tied";
}

// The exporter to ONNX folds the batch normalization into a convolution (its 32 parameters) and
// writes the transpose of a tied head out once more. Else bytes agree, and work to the last digit.
TEST(ExportedProgram, AgreesWithOnnx) {
  const OperatorGraph conv = load("tiny-conv.pt2").graph;
  const auto conv_onnx = read_onnx_file(graph_path("tiny-conv.onnx"));
  ASSERT_TRUE(conv_onnx.has_value()) << format_error(conv_onnx.error());
  EXPECT_EQ(parameter_bytes(conv) - 32 * 4, parameter_bytes(conv_onnx->graph));
  EXPECT_EQ(total_flops(conv), total_flops(conv_onnx->graph));
  const OperatorGraph attention = load("tiny-attention.pt2").graph;
  const auto attention_onnx = read_onnx_file(graph_path("tiny-attention.onnx"));
  ASSERT_TRUE(attention_onnx.has_value()) << format_error(attention_onnx.error());
  EXPECT_EQ(parameter_bytes(attention) + 64 * 32 * 4, parameter_bytes(attention_onnx->graph));
  EXPECT_EQ(total_flops(attention), total_flops(attention_onnx->graph));
}

// y = relu_(x w), two names for w's file, parts of a topk, a subgraph, a size as a number
const char* const kProgram = R"json({
 "graph_module": {
  "graph": {
   "inputs": [{"as_tensor": {"name": "p_w"}}, {"as_tensor": {"name": "p_v"}},
              {"as_tensor": {"name": "x"}}, {"as_int": 3}],
   "outputs": [{"as_tensor": {"name": "values"}}, {"as_none": true}],
   "nodes": [
    {"target": "torch.ops.aten.mm.default", "name": "mm", "outputs": [{"as_tensor": {"name": "mm"}}],
     "inputs": [{"name": "self", "arg": {"as_tensor": {"name": "x"}}, "kind": 1},
                {"name": "mat2", "arg": {"as_tensor": {"name": "p_w"}}, "kind": 1}],
     "metadata": {"nn_module_stack": "L__self__,,Net;L__self__head,L['self'].head,torch.nn.Linear"}},
    {"target": "torch.ops.aten.relu_.default", "outputs": [{"as_tensor": {"name": "relu_"}}],
     "inputs": [{"name": "self", "arg": {"as_tensor": {"name": "mm"}}}], "metadata": {}},
    {"target": "torch.ops.aten.sym_size.int", "outputs": [{"as_sym_int": {"as_name": "size"}}],
     "inputs": [{"name": "self", "arg": {"as_tensor": {"name": "mm"}}}]},
    {"target": "torch.ops.aten.topk.default",
     "outputs": [{"as_tensor": {"name": "values"}}, {"as_tensor": {"name": "indices"}}],
     "inputs": [{"name": "self", "arg": {"as_tensor": {"name": "relu_"}}},
                {"name": "k", "arg": {"as_sym_int": {"as_name": "size"}}},
                {"name": "new", "arg": {"as_wonder": 4}}]},
    {"target": "torch.ops.higher_order.cond", "outputs": [{"as_tensors": [{"name": "part"}]}],
     "inputs": [{"name": "branch", "arg": {"as_graph": {"name": "g", "graph": {}}}},
                {"name": "operands", "arg": {"as_optional_tensors":
                  [{"as_tensor": {"name": "p_v"}}, {"as_none": true}]}}]}],
   "tensor_values": {
    "p_w": {"dtype": 13, "sizes": [{"as_int": 4}, {"as_int": 8}]},
    "p_v": {"dtype": 13, "sizes": [{"as_int": 4}, {"as_int": 8}]},
    "x": {"dtype": 13,
          "sizes": [{"as_expr": {"expr_str": "Symbol('s0')", "hint": null}}, {"as_int": 4}]},
    "mm": {"dtype": 13, "sizes": [{"as_int": 1}, {"as_int": 8}]},
    "relu_": {"dtype": 13, "sizes": [{"as_int": 1}, {"as_int": 8}]},
    "values": {"dtype": 13, "sizes": [{"as_int": 2}]},
    "indices": {"dtype": 5, "sizes": [{"as_int": 2}]},
    "part": {"dtype": 99, "sizes": [{"as_int": 7}]}}},
  "signature": {"input_specs": [
    {"parameter": {"arg": {"name": "p_w"}, "parameter_name": "head.weight"}},
    {"buffer": {"arg": {"name": "p_v"}, "buffer_name": "tail.weight", "persistent": true}},
    {"user_input": {"arg": {"as_tensor": {"name": "x"}}}}]}}})json";

const char* const kConfig = R"({"config": {"head.weight": {"path_name": "weight_0"},
                                           "tail.weight": {"path_name": "weight_0"}}})";

std::string make_archive(const std::string& program, const std::string& config = kConfig) {
  return make_zip({{"m/data/weights/net_weights_config.json", config},
                   {"m/models/net.json", program},
                   {"m/data/weights/weight_0", "never read"}});
}

TEST(ExportedProgram, ReadsWhatIsRare) {
  const auto result = read_exported_program(make_archive(kProgram), "p.pt2");
  ASSERT_TRUE(result.has_value()) << format_error(result.error());
  const OperatorGraph& graph = result->graph;
  EXPECT_EQ(graph.name, "m");
  EXPECT_EQ(graph.ties, (std::vector<std::pair<int, int>>{{0, 1}}));
  EXPECT_EQ(find_node(graph, "mm")->module, "head");
  EXPECT_EQ(find_node(graph, "mm")->flops, 2.0 * 8 * 4);
  EXPECT_TRUE(find_node(graph, "relu_")->is_mutating);
  EXPECT_EQ(find_node(graph, "size")->output_bytes, 8);
  const OperatorNode* topk = find_node(graph, "topk");
  ASSERT_NE(topk, nullptr);
  EXPECT_EQ(topk->output_bytes, 4 + 16);
  EXPECT_EQ(topk->inputs.size(), 2u);
  EXPECT_EQ(find_node(graph, "indices")->dtype, "int64");
  EXPECT_EQ(find_node(graph, "cond")->inputs, (std::vector<int>{1}));
  EXPECT_EQ(find_node(graph, "part")->output_bytes, 7);
  std::vector<std::string> codes;
  for (const Warning& warning : result->warnings) codes.push_back(warning.code);
  EXPECT_EQ(codes,
            (std::vector<std::string>{"symbolic_size", "unknown_dtype", "unknown_argument"}));
  EXPECT_EQ(result->warnings[2].place,
            "p.pt2:m/models/net.json#/graph_module/graph/nodes/3/inputs/2/arg");
}

TEST(ExportedProgram, ReadsTheOlderLayout) {
  const auto result =
      read_exported_program(make_zip({{"serialized_exported_program.json", kProgram},
                                      {"serialized_state_dict.pt", "never read"},
                                      {"version", "5.1"}}),
                            "old.pt2");
  ASSERT_TRUE(result.has_value()) << format_error(result.error());
  EXPECT_TRUE(result->graph.ties.empty());
  EXPECT_EQ(result->graph.num_nodes(),
            read_exported_program(make_archive(kProgram), "p.pt2")->graph.num_nodes());
}

std::string replace(std::string text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

// A higher-order operator's tuple of one value, as releases of today write it.
TEST(ExportedProgram, TakesTuplesOfOneApart) {
  const std::string list = R"("outputs": [{"as_tensors": [{"name": "part"}]}])";
  const std::string one = R"("outputs": [{"as_tensor": {"name": "part"}}], "name": "cond",
                             "is_hop_single_tensor_return": )";
  const auto whole = read_exported_program(make_archive(kProgram), "p.pt2");
  const auto tuple =
      read_exported_program(make_archive(replace(kProgram, list, one + "false")), "p.pt2");
  ASSERT_TRUE(tuple.has_value()) << format_error(tuple.error());
  EXPECT_EQ(tuple->graph, whole->graph);
  EXPECT_EQ(find_node(tuple->graph, "part")->target, "getitem");
  const auto tensor =
      read_exported_program(make_archive(replace(kProgram, list, one + "true")), "p.pt2");
  ASSERT_TRUE(tensor.has_value()) << format_error(tensor.error());
  EXPECT_EQ(find_node(tensor->graph, "part"), nullptr);
}

TEST(ExportedProgram, RefusesWhatIsWrongAndSaysWhere) {
  struct Spoiled {
    const char* from;
    const char* to;
    ErrorCode code;
    const char* pointer;
    const char* part;
  };
  const Spoiled cases[] = {
      {"\"signature\"", "\"sig\"", ErrorCode::kSchema, "/graph_module", "'signature' is missing"},
      {"\"mm\"}}}], \"metadata\"", "\"nn\"}}}], \"metadata\"", ErrorCode::kValue,
       "/graph_module/graph/nodes/1/inputs/0/arg", "'nn'"},
      {"{\"as_tensor\": {\"name\": \"relu_\"}}]", "{\"as_tensor\": {\"name\": \"mm\"}}]",
       ErrorCode::kConflict, "/graph_module/graph/nodes/1", "given twice"},
      {"{\"as_int\": 2}", "{\"as_int\": -2}", ErrorCode::kValue,
       "/graph_module/graph/tensor_values/values/sizes/0/as_int", "at least 0"},
      {"{\"as_int\": 2}", "{\"as_int\": 9223372036854775807}", ErrorCode::kOverflow,
       "/graph_module/graph/tensor_values/values", "63 bits"},
      {"{\"as_int\": 2}", "{\"as_int\": 9223372036854775808}", ErrorCode::kOverflow,
       "/graph_module/graph/tensor_values/values/sizes/0/as_int", "does not fit"},
      {"{\"as_int\": 2}", "{\"as_int\": 2305843009213693951}", ErrorCode::kOverflow, "", ""},
      {"{\"as_int\": 2}", "{}", ErrorCode::kSchema,
       "/graph_module/graph/tensor_values/values/sizes/0", "'as_expr' is missing"},
      {"[{\"as_tensors\": [{\"name\": \"part\"}]}]", "7", ErrorCode::kSchema,
       "/graph_module/graph/nodes/4/outputs", "an array"},
  };
  for (const Spoiled& c : cases) {
    SCOPED_TRACE(std::string(c.from) + " -> " + c.to);
    const auto result =
        read_exported_program(make_archive(replace(kProgram, c.from, c.to)), "p.pt2");
    if (*c.pointer == '\0') {
      ASSERT_FALSE(result.has_value());
      EXPECT_EQ(to_string(result.error().code), to_string(c.code));
      continue;
    }
    expect_error(result, c.code, "p.pt2:m/models/net.json#" + std::string(c.pointer), c.part);
  }
}

TEST(ExportedProgram, RefusesForeignFiles) {
  expect_error(read_exported_program("", "p.pt2"), ErrorCode::kSchema, "p.pt2", "zip");
  expect_error(read_exported_program("no zip at all", "p.pt2"), ErrorCode::kIo, "p.pt2", "zip");
  expect_error(read_exported_program(make_zip({{"a/b.json", "{}"}}), "p.pt2"), ErrorCode::kSchema,
               "p.pt2", "without an exported program");
  expect_error(read_exported_program(
                   make_zip({{"a/models/x.json", "{}"}, {"a/models/y.json", "{}"}}), "p.pt2"),
               ErrorCode::kConflict, "p.pt2", "a/models/x.json and a/models/y.json");
  expect_error(read_exported_program(make_zip({{"a/models/x.json", "{"}}), "p.pt2"),
               ErrorCode::kSyntax, "p.pt2:a/models/x.json#");
  expect_error(read_exported_program(make_zip({{"a/models/x.json", "[]"}}), "p.pt2"),
               ErrorCode::kSchema, "p.pt2:a/models/x.json#", "'graph_module' is missing");
  expect_error(read_exported_program(make_archive(kProgram, "{}"), "p.pt2"), ErrorCode::kSchema,
               "p.pt2:m/data/weights/net_weights_config.json#", "'config' is missing");
  expect_error(read_exported_program_file("/nowhere/p.pt2"), ErrorCode::kNotFound,
               "/nowhere/p.pt2");
  EXPECT_FALSE(read_exported_program(load_graph("tiny-conv.onnx"), "p.pt2").has_value());
}

TEST(ExportedProgram, SurvivesEveryTruncationAndByte) {
  const std::string archive = make_archive(kProgram);
  for (std::size_t size = 0; size < archive.size(); ++size) {
    EXPECT_FALSE(
        read_exported_program(std::string_view(archive).substr(0, size), "p.pt2").has_value());
  }
  for (std::size_t at = 0; at < archive.size(); ++at) {
    for (const int change : {0x01, 0x80, 0xff}) {
      std::string spoiled = archive;
      spoiled[at] = static_cast<char>(spoiled[at] ^ change);
      const auto result = read_exported_program(spoiled, "p.pt2");
      if (result) {
        EXPECT_TRUE(partition::validate(result->graph).has_value());
      }
    }
  }
  // The JSON itself, past the archive's checksum.
  const std::string program = kProgram;
  for (std::size_t at = 0; at < program.size(); at += 3) {
    for (const char c : {'0', '"', '{'}) {
      std::string spoiled = program;
      spoiled[at] = c;
      const auto result = read_exported_program(make_zip({{"m/models/n.json", spoiled}}), "p.pt2");
      if (result) {
        EXPECT_TRUE(partition::validate(result->graph).has_value());
      }
    }
  }
}

}  // namespace
}  // namespace plimsoll::io::exported_program
