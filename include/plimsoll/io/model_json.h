// Models and constraints as JSON: "plimsoll.model/1", "plimsoll.constraints/1".
//
// Keys are the field names of embedding::Model and its parts. A reader takes the text and the name
// of its file (for error places, "file#/json/pointer") and stops at the first error. It refuses
// unknown and duplicate keys, numbers that do not fit, null, NaN, nesting deeper than 128 and text
// after the document. Sizes are integers or strings with a unit ("4 GiB"). The key "schema" may be
// left out, but when present it must name the kind. Shorthands of a model document: `tables` at the
// top level without `modules` is one EmbeddingBagCollection at the root; a table's `count` n stands
// for n equal tables, whose names and feature names get the suffixes _0 to _{n-1}; a table's own
// `constraints` are those of its name.
#pragma once

#include <string>
#include <string_view>

#include "plimsoll/core/result.h"
#include "plimsoll/embedding/model.h"

#pragma GCC visibility push(default)
namespace plimsoll::io {

// Errors: kSyntax (not JSON), kSchema (wrong shape), kValue (out of range), kOverflow, kConflict
// (`tables` beside `modules`, constraints of one name that differ), and those of
// embedding::validate, placed in the document.
Result<embedding::Model> read_model(std::string_view text, std::string_view file);
std::string write_model(const embedding::Model& model);

// A constraints document: {"schema": ..., "constraints": {table name: constraints}}. Whether
// a key is an fqn instead is for the caller to say.
Result<embedding::ConstraintMap> read_constraints(std::string_view text, std::string_view file);
std::string write_constraints(const embedding::ConstraintMap& constraints);

}  // namespace plimsoll::io
#pragma GCC visibility pop
