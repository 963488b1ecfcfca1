// What is wanted of ONNX's messages, as read from a file.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "io/import/tensor_value.h"
#include "io/import/wire_reader.h"
#include "plimsoll/core/result.h"

namespace plimsoll::io {

// A dimension of a value: known, or a name, or nothing.
struct OnnxDimension {
  std::optional<std::int64_t> value;
  std::string symbol;
};

struct OnnxValueInfo {
  std::string name;
  std::int64_t elem_type = 0;  // 0: not a tensor, or not said
  bool has_shape = false;
  std::vector<OnnxDimension> dimensions;
};

// An initializer or an attribute's tensor, without its data.
struct OnnxTensor {
  std::string name;
  std::int64_t data_type = 0;
  std::vector<std::int64_t> sizes;  // of a sparse one, of what it holds
  bool is_external = false;
  std::optional<std::vector<std::int64_t>> index_sizes;  // of a sparse one
};

struct OnnxNode {
  std::string name, op_type, domain;
  std::vector<std::string> inputs;    // empty: left out
  std::vector<std::string> outputs;   // empty: left out
  std::vector<std::string> captured;  // what subgraphs read from outside
  std::map<std::string, std::int64_t> ints;
  std::optional<OnnxTensor> tensor;  // a Constant's value
  std::string name_scopes;           // the exporter's metadata
};

struct OnnxGraph {
  std::string name;
  std::vector<OnnxNode> nodes;
  std::vector<OnnxTensor> initializers;
  std::vector<OnnxValueInfo> inputs, outputs, values;
};

// The graph of a model. Error kSyntax as the reader has it; kSchema without a graph or with two.
Result<OnnxGraph> read_onnx_graph(WireReader& reader, std::string_view file);

}  // namespace plimsoll::io
