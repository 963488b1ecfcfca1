#include "plimsoll/io/graph_formats.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "io/expect_error.h"
#include "io/graph_files.h"

namespace plimsoll::io {
namespace {

class GraphFormats : public ::testing::Test {
 protected:
  void SetUp() override {
    folder = ::testing::TempDir() + "/plimsoll_graph_formats_" + std::to_string(::getpid());
    std::filesystem::create_directories(folder);
  }
  void TearDown() override { std::filesystem::remove_all(folder); }

  std::string write(const std::string& name, const std::string& text) const {
    std::string path = folder + "/" + name;
    EXPECT_TRUE(write_text_file(path, text).has_value());
    return path;
  }
  GraphFormat format_of(const std::string& path) const {
    const auto file = open_graph_file(path);
    EXPECT_TRUE(file.has_value()) << (file ? "" : format_error(file.error()));
    return file.value_or(GraphFile{}).format;
  }

  std::string folder;
};

TEST_F(GraphFormats, GoesByContent) {
  EXPECT_EQ(format_of(graph_path("tiny-conv.pt2")), GraphFormat::kExportedProgram);
  EXPECT_EQ(format_of(graph_path("tiny-conv.onnx")), GraphFormat::kOnnx);
  EXPECT_EQ(format_of(graph_path("dlrm-forward.json")), GraphFormat::kOperatorGraph);
  EXPECT_EQ(format_of(write("model.bin", load_graph("tiny-conv.pt2"))),
            GraphFormat::kExportedProgram);
  EXPECT_EQ(format_of(write("a.txt",
                            " {\"name\": \"maxFPGAs\", \"nodes\": [{\"rows\": 1}],"
                            " \"edges\": [], \"maxFPGAs\": 2}")),
            GraphFormat::kDnnPartitioning);
  EXPECT_EQ(format_of(write("b.json", "{\"maxDevices\": 8, \"nodes\": []}")), GraphFormat::kPiper);
  EXPECT_EQ(format_of(write("c.json", "{\"classes\": [], \"nodes\": []}")),
            GraphFormat::kCostGraph);
  EXPECT_EQ(format_of(write("d.json", "{\"schema\": \"plimsoll.cost_graph/1\"}")),
            GraphFormat::kCostGraph);
  EXPECT_EQ(format_of(write("graph.txt", "node1 -- Input0 -- forward_compute_time=0.000\n")),
            GraphFormat::kPipedream);
}

TEST_F(GraphFormats, RefusesOthers) {
  for (const char* text : {"", "{}", "[1]", "{\"format\": \"other\"}", "hello", "node", "{\"a\\"}) {
    const std::string path = write("other.json", text);
    expect_error(open_graph_file(path), ErrorCode::kSchema, path, "is not a format");
  }
  expect_error(open_graph_file("/nowhere/g.json"), ErrorCode::kNotFound, "/nowhere/g.json");
}

TEST_F(GraphFormats, RefusesANameThatTheKeysContradict) {
  const std::string path =
      write("e.json", "{\"schema\": \"plimsoll.cost_graph/1\", \"maxFPGAs\": 1}");
  expect_error(open_graph_file(path), ErrorCode::kSchema, path,
               "calls itself plimsoll.cost_graph/1");
}

TEST_F(GraphFormats, ReadsOperators) {
  for (const char* name : {"tiny-conv.pt2", "tiny-conv.onnx", "dlrm-forward.json"}) {
    const auto file = open_graph_file(graph_path(name));
    ASSERT_TRUE(file.has_value());
    EXPECT_TRUE(has_operators(file->format));
    const auto imported = read_operators(*file);
    ASSERT_TRUE(imported.has_value()) << format_error(imported.error());
    EXPECT_GT(imported->graph.num_nodes(), 10);
  }
  const std::string path = write("b.json", "{\"maxDevices\": 8}");
  const auto file = open_graph_file(path);
  EXPECT_FALSE(has_operators(file->format));
  expect_error(read_operators(*file), ErrorCode::kUsage, path, "costs, not operators");
}

}  // namespace
}  // namespace plimsoll::io
