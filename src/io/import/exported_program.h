// Archives of torch.export: the operators of a `.pt2` file, without its weights.
//
// The archive is a zip with one folder (torch 2.8 and later: "<stem>/models/<name>.json", and which
// weights share a file in "<stem>/data/weights/<name>_weights_config.json"), or, older,
// "serialized_exported_program.json" at its root. Nothing else in it is opened. The JSON's graph
// becomes the graph that `ep.module()` has:
//   * lifted parameters, buffers and constants are get_attr nodes by the signature, their FQN the
//     target; other inputs are placeholders;
//   * an operator with several outputs gets one getitem a part, under the part's name;
//   * a higher-order operator is one opaque operator that reads what it is given;
//   * `metadata.nn_module_stack` gives the module, its innermost entry;
//   * a symbolic size counts as its hint, with a warning;
//   * flops of matrix products, convolutions and attention, bytes moved and views by rules of torch
//     operators (aten_operators.h); times are not known.
// Keys that are not known are passed over; of arguments of unknown kind a warning tells. Warnings:
// `symbolic_size`, `unknown_argument`, `unknown_dtype`, `unknown_size`.
// Source: docs/mathematics/placements.md#files-of-other-programs.
#pragma once

#include <string>
#include <string_view>

#include "plimsoll/core/result.h"
#include "plimsoll/io/imported_graph.h"

namespace plimsoll::io {

// Errors: kNotFound, kIo (no file, no zip, a damaged one); kSchema (no exported program in it, or
// JSON of another shape), kSyntax, kValue, kConflict (several models; a name twice), kOverflow, at
// "file.pt2:entry#/json/pointer".
Result<ImportedGraph> read_exported_program_file(const std::string& path);
Result<ImportedGraph> read_exported_program(std::string_view bytes, std::string_view file);

}  // namespace plimsoll::io
