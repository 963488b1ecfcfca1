#include "plimsoll/io/shipped.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "core/suggest.h"
#include "io/documents/embedded_texts.h"
#include "plimsoll/io/machine_json.h"
#include "plimsoll/io/model_json.h"
#include "plimsoll/io/module_stats_json.h"

namespace plimsoll::io {
namespace {

// The entry of that name, by the member `name_of`.
template <class Entry>
Result<Entry> find_entry(std::span<const Entry> entries, std::string_view Entry::*name_of,
                         std::string_view name, std::string_view what) {
  const auto it = std::find_if(entries.begin(), entries.end(),
                               [&](const Entry& entry) { return entry.*name_of == name; });
  if (it != entries.end()) return *it;
  std::vector<std::string> names;
  for (const Entry& entry : entries) names.emplace_back(entry.*name_of);
  return fail(ErrorCode::kNotFound, std::string(name), fmt::format("no {} has this name", what),
              suggest(name, names));
}

}  // namespace

std::span<const ShippedDocument> shipped_models() { return embedded_models(); }
std::span<const ShippedDocument> shipped_module_stats() { return embedded_module_stats(); }
std::span<const ShippedDocument> shipped_machines() { return embedded_machines(); }
std::span<const ShippedDocument> shipped_graphs() { return embedded_graphs(); }

Result<embedding::Model> load_shipped_model(std::string_view id) {
  PLIMSOLL_ASSIGN(const ShippedDocument model,
                  find_entry(shipped_models(), &ShippedDocument::id, id, "shipped model"));
  return read_model(model.text, fmt::format("{}.json", model.id));
}

Result<checkpoint::ModuleStats> load_shipped_module_stats(std::string_view id) {
  PLIMSOLL_ASSIGN(
      const ShippedDocument stats,
      find_entry(shipped_module_stats(), &ShippedDocument::id, id, "shipped module statistics"));
  return read_module_stats(stats.text, fmt::format("{}.json", stats.id));
}

Result<embedding::MachineModel> load_shipped_machine(std::string_view id) {
  PLIMSOLL_ASSIGN(
      const ShippedDocument machine,
      find_entry(shipped_machines(), &ShippedDocument::id, id, "shipped machine model"));
  return read_machine(machine.text, fmt::format("{}.json", machine.id));
}

Result<std::string_view> find_shipped_graph(std::string_view id) {
  PLIMSOLL_ASSIGN(const ShippedDocument graph,
                  find_entry(shipped_graphs(), &ShippedDocument::id, id, "shipped graph"));
  return graph.text;
}

std::span<const Schema> schemas() { return embedded_schemas(); }

Result<std::string_view> find_schema(std::string_view name) {
  PLIMSOLL_ASSIGN(const Schema schema, find_entry(schemas(), &Schema::name, name, "schema"));
  return schema.text;
}

}  // namespace plimsoll::io
