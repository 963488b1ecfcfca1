#include "plimsoll/io/model_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "io/documents/descriptions.h"
#include "io/json/json_writer.h"

namespace plimsoll::io {
namespace {

using embedding::ConstraintMap;
using embedding::Model;
using embedding::Module;
using embedding::ParameterConstraints;
using embedding::Table;

// By table name: where its constraints stand in the document.
using ConstraintPointers = std::map<std::string, std::string>;

// The pointer of "t/batch_sizes", a place among the constraints. A name may hold slashes, so the
// longest that fits is meant.
std::string constraint_pointer(const ConstraintPointers& pointers, std::string_view place) {
  const ConstraintPointers::value_type* found = nullptr;
  for (const auto& candidate : pointers) {
    const std::string& name = candidate.first;
    const bool fits =
        place.starts_with(name) && (place.size() == name.size() || place[name.size()] == '/');
    if (fits && (found == nullptr || name.size() > found->first.size())) found = &candidate;
  }
  if (found == nullptr) return fmt::format("/constraints/{}", place);
  return found->second + std::string(place.substr(found->first.size()));
}

ConstraintPointers pointers_of(const ConstraintMap& constraints) {
  ConstraintPointers pointers;
  for (const auto& entry : constraints) {
    pointers[entry.first] = fmt::format("/constraints/{}", escape_pointer(entry.first));
  }
  return pointers;
}

constexpr std::string_view kConstraintsPlace = "constraints/";

// Turns a document into a model, remembering where in the document each table and each constraint
// stands.
class ModelBuilder {
 public:
  ModelBuilder(ModelDocument document, std::string_view file)
      : document_(std::move(document)), file_(file) {}

  Result<Model> build() && {
    model_ = std::move(document_.model);
    constraint_pointers_ = pointers_of(model_.constraints);
    if (document_.tables && document_.modules) {
      return fail(ErrorCode::kConflict, document_place(file_, "/tables"),
                  "both 'tables' and 'modules' are given", "move the tables into a module");
    }
    if (!document_.tables && !document_.modules) {
      return fail(ErrorCode::kSchema, document_place(file_, ""),
                  "neither 'modules' nor 'tables' is given", "add \"modules\"");
    }
    if (document_.tables) {
      PLIMSOLL_RETURN_IF_ERROR(add_module(ModuleEntry{{}, *std::move(document_.tables)}, ""));
    } else {
      for (std::size_t i = 0; i < document_.modules->size(); ++i) {
        PLIMSOLL_RETURN_IF_ERROR(
            add_module(std::move((*document_.modules)[i]), fmt::format("/modules/{}", i)));
      }
    }
    if (Result<void> valid = embedding::validate(model_); !valid) {
      Error error = std::move(valid).error();
      error.place = document_place(file_, pointer_of_model_place(error.place));
      return tl::unexpected<Error>(std::move(error));
    }
    return std::move(model_);
  }

 private:
  Result<void> add_module(ModuleEntry entry, std::string pointer) {
    Module module = std::move(entry.module);
    module_pointers_.push_back(pointer);
    auto& pointers = table_pointers_.emplace_back();
    for (std::size_t i = 0; i < entry.tables.size(); ++i) {
      TableEntry& table = entry.tables[i];
      const std::string table_pointer = fmt::format("{}/tables/{}", pointer, i);
      const std::int64_t count = table.count.value_or(1);
      num_tables_ += count;
      if (num_tables_ > kMaxTables) {
        return fail(ErrorCode::kValue, document_place(file_, table_pointer + "/count"),
                    fmt::format("more than {} tables in all", kMaxTables));
      }
      for (std::int64_t k = 0; k < count; ++k) {
        Table copy = table.table;
        if (table.count) {
          const std::string suffix = fmt::format("_{}", k);
          copy.name += suffix;
          for (std::string& feature : copy.feature_names) feature += suffix;
        }
        if (table.constraints) {
          PLIMSOLL_RETURN_IF_ERROR(
              add_constraints(copy.name, *table.constraints, table_pointer + "/constraints"));
        }
        module.tables.push_back(std::move(copy));
        pointers.push_back(table_pointer);
      }
    }
    model_.modules.push_back(std::move(module));
    return {};
  }

  Result<void> add_constraints(const std::string& name, const ParameterConstraints& constraints,
                               const std::string& pointer) {
    const auto [it, is_new] = model_.constraints.emplace(name, constraints);
    if (is_new) {
      constraint_pointers_[name] = pointer;
    } else if (it->second != constraints) {
      return fail(
          ErrorCode::kConflict, document_place(file_, pointer),
          fmt::format("table '{}' has other constraints at '{}'", name, constraint_pointers_[name]),
          "constraints belong to a table's name; give them once");
    }
    return {};
  }

  // "modules/0/tables/7/name", "constraints/t/batch_sizes": as embedding::validate says it.
  std::string pointer_of_model_place(std::string_view place) const {
    const auto take = [&place](std::string_view word) {
      if (!place.starts_with(word)) return false;
      place.remove_prefix(word.size());
      return true;
    };
    const auto take_index = [&place](std::size_t size) -> std::optional<std::size_t> {
      const std::size_t length = std::min(place.find('/'), place.size());
      std::size_t index = 0;
      for (const char c : place.substr(0, length)) {
        if (c < '0' || c > '9' || index > size) return std::nullopt;
        index = index * 10 + static_cast<std::size_t>(c - '0');
      }
      if (length == 0 || index >= size) return std::nullopt;
      place.remove_prefix(length);
      return index;
    };
    if (take(kConstraintsPlace)) return constraint_pointer(constraint_pointers_, place);
    if (!take("modules")) return place.empty() ? "" : fmt::format("/{}", place);
    if (!take("/")) return document_.tables ? "/tables" : "/modules";
    const auto module = take_index(module_pointers_.size());
    if (!module) return document_.tables ? "/tables" : "/modules";
    if (!take("/tables/")) return module_pointers_[*module] + std::string(place);
    const auto table = take_index(table_pointers_[*module].size());
    if (!table) return module_pointers_[*module] + "/tables";
    return table_pointers_[*module][*table] + std::string(place);
  }

  ModelDocument document_;
  std::string_view file_;
  Model model_;
  std::int64_t num_tables_ = 0;
  std::vector<std::string> module_pointers_;
  std::vector<std::vector<std::string>> table_pointers_;
  ConstraintPointers constraint_pointers_;
};

}  // namespace

Result<Model> read_model(std::string_view text, std::string_view file) {
  PLIMSOLL_ASSIGN(ModelDocument document, read_document<ModelDocument>(text, file, kModelSchema));
  return ModelBuilder(std::move(document), file).build();
}

std::string write_model(const Model& model) {
  ModelDocument document;
  document.model = model;
  document.modules.emplace();
  for (Module& module : document.model.modules) {
    ModuleEntry& entry = document.modules->emplace_back();
    for (Table& table : module.tables) entry.tables.push_back({std::move(table), {}, {}});
    module.tables.clear();
    entry.module = std::move(module);
  }
  return write_document(document);
}

Result<ConstraintMap> read_constraints(std::string_view text, std::string_view file) {
  PLIMSOLL_ASSIGN(ConstraintsDocument document,
                  read_document<ConstraintsDocument>(text, file, kConstraintsSchema));
  // A model of constraints alone: the checks of lists and ranges are the model's.
  Model model;
  model.constraints = std::move(document.constraints);
  if (Result<void> valid = embedding::validate(model); !valid) {
    Error error = std::move(valid).error();
    std::string_view place = error.place;
    if (place.starts_with(kConstraintsPlace)) place.remove_prefix(kConstraintsPlace.size());
    error.place = document_place(file, constraint_pointer(pointers_of(model.constraints), place));
    return tl::unexpected<Error>(std::move(error));
  }
  return std::move(model.constraints);
}

std::string write_constraints(const ConstraintMap& constraints) {
  return write_document(ConstraintsDocument{std::string(kConstraintsSchema), constraints});
}

}  // namespace plimsoll::io
