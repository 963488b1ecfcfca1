// ONNX models: the operators of a `.onnx` file, without its weights.
//
// The file is read by libprotobuf's CodedInputStream with a reader of its own for the few messages
// that matter; weights and whatever else is not needed are passed over by seeking, external data
// are never opened. The graph becomes
//   * a get_attr for each initializer and each Constant: a parameter where it is of a floating type
//     and has more than one element, else, and where it is the mean or variance of a batch
//     normalization, a buffer; a placeholder for every other input;
//   * one operator a node, under the node's name or that of its first output, its target the
//     operator's type ("MatMul", "com.microsoft.FusedMatMul"); Reshape, Squeeze, Unsqueeze, Flatten
//     and Identity are views;
//   * one getitem for each output of a node that has several;
//   * If, Loop and Scan are one opaque operator, which also reads what its subgraphs read;
//   * modules from the exporter's `pkg.torch.onnx.name_scopes`, or from names like "/layer1/Conv".
// Sizes come from `value_info`, inputs, outputs and initializers. Nodes out of order are put in
// order. Flops of matrix products, convolutions, attention and recurrent layers; times are not
// known. Warnings: `symbolic_size` (counts as 1), `unknown_size` (a value without shape, counts as
// 0), `unknown_dtype`, `external_data`.
// Source: https://github.com/onnx/onnx/blob/v1.18.0/onnx/onnx.proto and
// docs/mathematics/placements.md#files-of-other-programs.
#pragma once

#include <string>
#include <string_view>

#include "plimsoll/core/result.h"
#include "plimsoll/io/imported_graph.h"

namespace plimsoll::io {

// Errors at "file.onnx", "file.onnx@<byte>" or "file.onnx:node 'name'": kNotFound, kIo (also: 2 GiB
// or longer), kSyntax (no protobuf, truncated, nested too deeply), kSchema (no graph), kValue (a
// negative size, a value that nobody gives), kConflict (a name twice, a cycle), kOverflow.
Result<ImportedGraph> read_onnx_file(const std::string& path);
Result<ImportedGraph> read_onnx(std::string_view bytes, std::string_view file);

}  // namespace plimsoll::io
