#include "plimsoll/io/graph_formats.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <optional>
#include <utility>
#include <vector>

#include "io/documents/operator_graph_json.h"
#include "io/import/exported_program.h"
#include "io/import/onnx_model.h"
#include "io/json/json_reader.h"
#include "plimsoll/io/files.h"

namespace plimsoll::io {
namespace {

constexpr std::string_view kRemedy =
    "give a plimsoll-fx-graph, dnn-partitioning, plimsoll.cost_graph/1 or plimsoll.fx_graph/1 "
    "JSON, a .pt2 archive, an .onnx model, PipeDream's graph.txt or Piper's JSON";

constexpr std::string_view kOperatorGraphName = "plimsoll-fx-graph";
constexpr std::string_view kFxPartitionerName = "plimsoll.fx_graph/1";
constexpr std::string_view kCostGraphName = "plimsoll.cost_graph/1";

// The keys of a JSON object, with their values where these are strings, as far as it goes; its
// reader will say what is wrong with it.
std::vector<std::pair<std::string_view, std::string_view>> top_level_members(
    std::string_view text) {
  std::vector<std::pair<std::string_view, std::string_view>> members;
  int depth = 0;
  std::string_view last;  // the last string at depth 1
  bool is_value = false;
  constexpr auto kIsMark = [] {
    std::array<bool, 256> is_mark{};
    for (const char mark : {'"', '{', '[', '}', ']', ',', ':'}) is_mark[mark] = true;
    return is_mark;
  }();
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (!kIsMark[static_cast<unsigned char>(c)]) continue;
    if (c == '"') {
      const std::size_t first = i + 1;
      for (i = first; i < text.size() && text[i] != '"'; ++i) {
        if (text[i] == '\\') ++i;
      }
      if (depth == 1) last = text.substr(first, std::min(i, text.size()) - first);
      if (depth == 1 && is_value) members.back().second = last;
    } else if (c == '{' || c == '[') {
      ++depth;
    } else if (c == '}' || c == ']') {
      --depth;
    } else if (c == ',' && depth == 1) {
      is_value = false;
    } else if (c == ':' && depth == 1) {
      members.emplace_back(last, std::string_view());
      is_value = true;
    }
  }
  return members;
}

// What a document calls itself, by "schema" or "format", where that is a name of ours: two of them
// are easily taken for each other.
std::optional<GraphFormat> find_declared_format(std::string_view name) {
  if (name == kOperatorGraphName) return GraphFormat::kOperatorGraph;
  if (name == kFxPartitionerName) return GraphFormat::kFxPartitioner;
  if (name == kCostGraphName) return GraphFormat::kCostGraph;
  return {};
}

struct JsonFormat {
  std::optional<GraphFormat> by_keys, declared;
};

JsonFormat find_json_format(std::string_view text) {
  const auto members = top_level_members(text);
  const auto has = [&](std::string_view key) {
    return std::any_of(members.begin(), members.end(),
                       [&](const auto& member) { return member.first == key; });
  };
  JsonFormat format;
  for (const auto& [key, value] : members) {
    if (key != "schema" && key != "format") continue;
    if (const auto declared = find_declared_format(value)) format.declared = declared;
  }
  if (has("rows") && has("fields")) {
    format.by_keys = GraphFormat::kOperatorGraph;
  } else if (has("maxFPGAs") || has("maxSizePerFPGA")) {
    format.by_keys = GraphFormat::kDnnPartitioning;
  } else if (has("nodes") && has("devices")) {
    format.by_keys = GraphFormat::kFxPartitioner;
  } else if (has("nodes") && has("classes")) {
    format.by_keys = GraphFormat::kCostGraph;
  } else if (has("maxDevices") || has("mbsInBatch")) {
    format.by_keys = GraphFormat::kPiper;
  }
  return format;
}

std::optional<GraphFormat> find_text_format(std::string_view text, std::size_t first) {
  const std::string_view line = text.substr(first, text.find('\n', first) - first);
  if (line.starts_with("node") && line.find(" -- ") != line.npos) return GraphFormat::kPipedream;
  return {};
}

// Two formats have nearly one name: a traced model, and what torch.fx's partitioner is given.
tl::unexpected<Error> refuse_mistaken_name(GraphFormat declared, GraphFormat found,
                                           const std::string& name) {
  std::string remedy = "name the format that it is in";
  if (found == GraphFormat::kOperatorGraph) {
    remedy = "a traced model, with rows and fields, calls itself \"format\": \"" +
             std::string(kOperatorGraphName) + "\"";
  } else if (found == GraphFormat::kFxPartitioner) {
    remedy =
        "what torch.fx's partitioner is given, with nodes and devices, calls itself "
        "\"schema\": \"" +
        std::string(kFxPartitionerName) + "\"";
  } else if (found == GraphFormat::kCostGraph) {
    remedy = "a graph with costs, with nodes and classes, calls itself \"schema\": \"" +
             std::string(kCostGraphName) + "\"";
  }
  const std::string_view own_name = declared == GraphFormat::kOperatorGraph ? kOperatorGraphName
                                    : declared == GraphFormat::kCostGraph   ? kCostGraphName
                                                                            : kFxPartitionerName;
  return fail(ErrorCode::kSchema, name,
              "calls itself " + std::string(own_name) + ", and has the keys of another format",
              std::move(remedy));
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
    case GraphFormat::kCostGraph:
      return "cost_graph";
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
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  std::optional<GraphFormat> format;
  if (first != std::string::npos && text[first] == '{') {
    const JsonFormat found = find_json_format(text);
    if (found.declared && found.by_keys && found.declared != found.by_keys) {
      return refuse_mistaken_name(*found.declared, *found.by_keys, name);
    }
    format = found.by_keys ? found.by_keys : found.declared;
  } else if (first != std::string::npos) {
    format = find_text_format(text, first);
  }
  if (format) return GraphFile{*format, name, std::move(text)};
  const auto members = top_level_members(text);
  for (const auto& [key, value] : members) {
    if (key != "schema") continue;
    return fail(ErrorCode::kSchema, name,
                std::string("\"").append(value).append("\" is not an operator graph"),
                what_takes(value));
  }
  std::string remedy(kRemedy);
  for (const auto& [key, value] : members) {
    const std::string other = what_takes_key(key);
    if (!other.empty() && other != what_takes(kCostGraphName)) remedy = other;
  }
  return fail(ErrorCode::kSchema, name, "this is not a format of operator graphs",
              std::move(remedy));
}

bool has_operators(GraphFormat format) {
  switch (format) {
    case GraphFormat::kOperatorGraph:
    case GraphFormat::kExportedProgram:
    case GraphFormat::kOnnx:
      return true;
    case GraphFormat::kDnnPartitioning:
    case GraphFormat::kCostGraph:
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
    case GraphFormat::kCostGraph:
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
