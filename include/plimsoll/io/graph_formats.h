// Which of the known formats a graph's file is in, by its content first and its name second.
#pragma once

#include <string>
#include <string_view>

#include "plimsoll/core/result.h"
#include "plimsoll/io/imported_graph.h"

#pragma GCC visibility push(default)
namespace plimsoll::io {

enum class GraphFormat {
  kOperatorGraph,    // operator_graph_json.h
  kExportedProgram,  // exported_program.h
  kOnnx,             // onnx_model.h
  kDnnPartitioning,  // dnn_partitioning_json.h
  kCostGraph,        // cost_graph_json.h
  kFxPartitioner,    // fx_graph_json.h
  kPipedream,        // PipeDream's graph.txt
  kPiper,            // Piper's JSON
};
std::string_view to_string(GraphFormat format);  // "fx_graph", "pt2", "onnx", "dnn_partitioning",
                                                 // "cost_graph", "fx_partitioner", "pipedream",
                                                 // "piper"

struct GraphFile {
  GraphFormat format = GraphFormat::kOperatorGraph;
  std::string path;
  std::string text;  // of the formats that are text, the whole file; else empty
};

// A zip is an exported program; JSON is told by its top-level keys, PipeDream's text by its first
// line; anything else by the name's end (.onnx). "-" reads standard input, for text only. Errors:
// kNotFound, kIo; kSchema where it is none of these.
Result<GraphFile> open_graph_file(const std::string& path);

// The same of a text that is there already. Error kSchema.
Result<GraphFile> recognize_graph(std::string text, const std::string& name);

// Whether the format holds operators, whose costs are made (operator_costs.h), or costs themselves.
bool has_operators(GraphFormat format);

// The operators of a file whose format has some. Errors as the readers say; kUsage for others.
Result<ImportedGraph> read_operators(const GraphFile& file);

}  // namespace plimsoll::io
#pragma GCC visibility pop
