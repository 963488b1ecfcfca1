// Documents that come with the library: public models and the JSON Schemas of our documents.
#pragma once

#include <span>
#include <string_view>

#include "plimsoll/core/result.h"
#include "plimsoll/embedding/model.h"

namespace plimsoll::io {

struct ShippedModel {
  std::string_view id;           // "mlperf-dlrm-dcnv2"
  std::string_view description;  // one line
  std::string_view text;         // a plimsoll.model/1 document
};

std::span<const ShippedModel> shipped_models();  // by id, ascending

// Error kNotFound with a suggestion.
Result<embedding::Model> load_shipped_model(std::string_view id);

struct Schema {
  std::string_view name;  // "constraints", "model", "plan", "topology"
  std::string_view text;  // JSON Schema, draft 2020-12
};

std::span<const Schema> schemas();  // by name, ascending

// Error kNotFound with a suggestion.
Result<std::string_view> find_schema(std::string_view name);

}  // namespace plimsoll::io
