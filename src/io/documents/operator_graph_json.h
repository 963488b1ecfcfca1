// The operator graphs of real models as JSON: "plimsoll-fx-graph", version 1.
//
// One object: `format`, `version`, `name`, `fields` (the names of the columns of `rows`), string
// tables `targets`, `modules` and `dtypes`, `ties` (pairs of rows that are one tensor), `rows` in
// graph order, and for people `source`, `units`, `flag_bits`, `names`. The columns, each at most
// once, the first five required:
//   name          text, or 0 for "n<row>"
//   op            placeholder, get_attr, call_function, call_method, call_module, output
//   target        index into `targets`
//   inputs        rows, distinct, each before its reader
//   output_size   bytes of all outputs
//   module, dtype index into their tables
//   flops, bytes_moved
//   ms_<class>    a known time on that class of devices, or null
//   memory        a measured number of bytes held, or null
//   flags         1 parameter, 2 buffer or constant, 4 view, 8 backward, 16 tied to an earlier row,
//                 32 mutating (also told from the target's name)
// Strictness as in model_json.h. The format is ours: docs/formats.md#operator-graphs.
#pragma once

#include <string>
#include <string_view>

#include "plimsoll/core/result.h"
#include "plimsoll/partition/operator_graph.h"

namespace plimsoll::io {

// Besides the shape: what partition::validate says; flag 16 where a tie says it, and only there.
Result<partition::OperatorGraph> read_operator_graph(std::string_view text, std::string_view file);

// Reads back as the same graph. Precondition: a valid graph.
std::string write_operator_graph(const partition::OperatorGraph& graph);

}  // namespace plimsoll::io
