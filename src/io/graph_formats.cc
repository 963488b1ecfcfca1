#include "plimsoll/io/graph_formats.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <optional>
#include <vector>

#include "plimsoll/io/exported_program.h"
#include "plimsoll/io/files.h"
#include "plimsoll/io/onnx_model.h"
#include "plimsoll/io/operator_graph_json.h"

namespace plimsoll::io {
namespace {

constexpr std::string_view kRemedy =
    "give a plimsoll-fx-graph, dnn-partitioning or plimsoll.fx_graph/1 JSON, a .pt2 archive, an "
    ".onnx model, "
    "PipeDream's graph.txt or Piper's JSON";

// The keys of a JSON object, as far as it goes; its reader will say what is wrong with it.
std::vector<std::string_view> top_level_keys(std::string_view text) {
  std::vector<std::string_view> keys;
  int depth = 0;
  std::string_view last;  // the last string at depth 1
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '"') {
      const std::size_t first = i + 1;
      for (i = first; i < text.size() && text[i] != '"'; ++i) {
        if (text[i] == '\\') ++i;
      }
      if (depth == 1) last = text.substr(first, std::min(i, text.size()) - first);
    } else if (c == '{' || c == '[') {
      ++depth;
    } else if (c == '}' || c == ']') {
      --depth;
    } else if (c == ':' && depth == 1) {
      keys.push_back(last);
    }
  }
  return keys;
}

std::optional<GraphFormat> find_json_format(std::string_view text) {
  const std::vector<std::string_view> keys = top_level_keys(text);
  const auto has = [&](std::string_view key) {
    return std::find(keys.begin(), keys.end(), key) != keys.end();
  };
  if (has("rows") && has("fields")) return GraphFormat::kOperatorGraph;
  if (has("maxFPGAs") || has("maxSizePerFPGA")) return GraphFormat::kDnnPartitioning;
  if (has("nodes") && has("devices")) return GraphFormat::kFxPartitioner;
  if (has("maxDevices") || has("mbsInBatch")) return GraphFormat::kPiper;
  return {};
}

std::optional<GraphFormat> find_text_format(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos) return {};
  if (text[first] == '{') return find_json_format(text);
  const std::string_view line = text.substr(first, text.find('\n', first) - first);
  if (line.starts_with("node") && line.find(" -- ") != line.npos) return GraphFormat::kPipedream;
  return {};
}

// The first bytes of a regular file that can be opened; else nothing, and reading it will say why.
std::string read_head(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) return {};
  std::array<char, 4> head{};
  std::ifstream file(path, std::ios::binary);
  file.read(head.data(), head.size());
  return {head.data(), static_cast<std::size_t>(std::max<std::streamsize>(0, file.gcount()))};
}

}  // namespace

std::string_view to_string(GraphFormat format) {
  switch (format) {
    case GraphFormat::kOperatorGraph:
      return "fx_graph";
    case GraphFormat::kExportedProgram:
      return "pt2";
    case GraphFormat::kOnnx:
      return "onnx";
    case GraphFormat::kDnnPartitioning:
      return "dnn_partitioning";
    case GraphFormat::kFxPartitioner:
      return "fx_partitioner";
    case GraphFormat::kPipedream:
      return "pipedream";
    case GraphFormat::kPiper:
      return "piper";
  }
  return "";
}

Result<GraphFile> open_graph_file(const std::string& path) {
  GraphFile file;
  file.path = path;
  if (path != "-") {
    const std::string head = read_head(path);
    const bool is_zip = head.starts_with("PK\x03\x04") || head.starts_with("PK\x05\x06");
    if (is_zip || path.ends_with(".pt2")) {
      file.format = GraphFormat::kExportedProgram;
      return file;
    }
    if (path.ends_with(".onnx")) {
      file.format = GraphFormat::kOnnx;
      return file;
    }
  }
  PLIMSOLL_ASSIGN(std::string text, read_text_file(path));
  return recognize_graph(std::move(text), path);
}

Result<GraphFile> recognize_graph(std::string text, const std::string& name) {
  const std::optional<GraphFormat> format = find_text_format(text);
  if (format) return GraphFile{*format, name, std::move(text)};
  return fail(ErrorCode::kSchema, name, "is in no format of graphs that is known here",
              std::string(kRemedy));
}

bool has_operators(GraphFormat format) {
  switch (format) {
    case GraphFormat::kOperatorGraph:
    case GraphFormat::kExportedProgram:
    case GraphFormat::kOnnx:
      return true;
    case GraphFormat::kDnnPartitioning:
    case GraphFormat::kFxPartitioner:
    case GraphFormat::kPipedream:
    case GraphFormat::kPiper:
      return false;
  }
  return false;
}

Result<ImportedGraph> read_operators(const GraphFile& file) {
  switch (file.format) {
    case GraphFormat::kOperatorGraph: {
      ImportedGraph result;
      PLIMSOLL_ASSIGN(result.graph, read_operator_graph(file.text, file.path));
      return result;
    }
    case GraphFormat::kExportedProgram:
      return read_exported_program_file(file.path);
    case GraphFormat::kOnnx:
      return read_onnx_file(file.path);
    case GraphFormat::kDnnPartitioning:
    case GraphFormat::kFxPartitioner:
    case GraphFormat::kPipedream:
    case GraphFormat::kPiper:
      break;
  }
  return fail(ErrorCode::kUsage, file.path,
              "holds costs, not operators (" + std::string(to_string(file.format)) + ")",
              "give a traced model");
}

}  // namespace plimsoll::io
