// Documents that come with the library: public models, module statistics, operator graphs,
// and the JSON Schemas of our documents.
#pragma once

#include <span>
#include <string_view>

#include "plimsoll/checkpoint/module_stats.h"
#include "plimsoll/core/result.h"
#include "plimsoll/embedding/machine_model.h"
#include "plimsoll/embedding/model.h"

#pragma GCC visibility push(default)
namespace plimsoll::io {

struct ShippedDocument {
  std::string_view id;           // "mlperf-dlrm-dcnv2"
  std::string_view description;  // one line
  std::string_view text;
};

std::span<const ShippedDocument> shipped_models();        // plimsoll.model/1, by id, ascending
std::span<const ShippedDocument> shipped_module_stats();  // plimsoll.module_stats/1, as above
std::span<const ShippedDocument> shipped_machines();      // plimsoll.machine/1, as above
std::span<const ShippedDocument> shipped_graphs();        // of dnn_partitioning_json.h, as above

// Error kNotFound with a suggestion.
Result<embedding::Model> load_shipped_model(std::string_view id);
Result<checkpoint::ModuleStats> load_shipped_module_stats(std::string_view id);
Result<embedding::MachineModel> load_shipped_machine(std::string_view id);
Result<std::string_view> find_shipped_graph(std::string_view id);  // its text

struct Schema {
  std::string_view name;  // "model", "plan", "module_stats", ...
  std::string_view text;  // JSON Schema, draft 2020-12
};

std::span<const Schema> schemas();  // by name, ascending

// Error kNotFound with a suggestion.
Result<std::string_view> find_schema(std::string_view name);

}  // namespace plimsoll::io
#pragma GCC visibility pop
