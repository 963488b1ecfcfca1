// What a model must keep before anything is planned, and what is odd about it.

#include <fmt/format.h>

#include <limits>
#include <set>
#include <string_view>

#include "embedding/model/sharder.h"
#include "plimsoll/embedding/model.h"

namespace plimsoll::embedding {
namespace {

bool needs_equal_widths(ModuleKind kind) {
  return is_embedding_collection_interface(kind) ||
         kind == ModuleKind::kManagedCollisionEmbeddingCollection ||
         kind == ModuleKind::kItepEmbeddingCollection ||
         kind == ModuleKind::kPecEmbeddingCollection;
}

Result<void> validate_stats(const CacheStats& stats, const std::string& place) {
  if (!(stats.expected_lookups >= 0)) {
    return fail(ErrorCode::kValue, place + "/expected_lookups", "must be at least 0");
  }
  if (stats.constant_miss_rate &&
      !(*stats.constant_miss_rate >= 0 && *stats.constant_miss_rate <= 1)) {
    return fail(ErrorCode::kValue, place + "/constant_miss_rate", "must lie in [0, 1]");
  }
  if (!stats.histogram.empty() && !(stats.height > 0)) {
    return fail(ErrorCode::kValue, place + "/height", "a histogram needs a height above 0");
  }
  return {};
}

Result<void> validate_constraints(const ParameterConstraints& c, const std::string& place) {
  const std::size_t features = c.pooling_factors.empty() ? 1 : c.pooling_factors.size();
  const auto check_list = [&](const auto& list, std::string_view name,
                              bool check_length) -> Result<void> {
    for (const auto value : list) {
      if (!(value >= 0) || static_cast<double>(value) > 1e15) {
        return fail(ErrorCode::kValue, fmt::format("{}/{}", place, name),
                    "entries must be finite and at least 0");
      }
    }
    if (check_length && !list.empty() && list.size() != features) {
      return fail(ErrorCode::kValue, fmt::format("{}/{}", place, name),
                  fmt::format("{} entries for {} feature(s)", list.size(), features),
                  "pooling_factors, num_poolings and batch_sizes need one entry a feature");
    }
    return {};
  };
  PLIMSOLL_RETURN_IF_ERROR(check_list(c.pooling_factors, "pooling_factors", false));
  PLIMSOLL_RETURN_IF_ERROR(check_list(c.num_poolings, "num_poolings", true));
  PLIMSOLL_RETURN_IF_ERROR(check_list(c.batch_sizes, "batch_sizes", true));
  if (c.min_partition && *c.min_partition < 0) {
    return fail(ErrorCode::kValue, place + "/min_partition", "must be at least 0");
  }
  if (c.output_dtype && !bit_width(*c.output_dtype)) {
    return fail(ErrorCode::kValue, place + "/output_dtype",
                fmt::format("{} has no bit width", to_string(*c.output_dtype)),
                "use fp32, fp16, bf16, int8, uint8, nfp8, int4 or int2");
  }
  if (c.cache_params) {
    const CacheParams& cache = *c.cache_params;
    if (cache.load_factor && !(*cache.load_factor >= 0 && *cache.load_factor <= 1)) {
      return fail(ErrorCode::kValue, place + "/cache_params/load_factor", "must lie in [0, 1]");
    }
    if (cache.multipass_num_passes && *cache.multipass_num_passes < 0) {
      return fail(ErrorCode::kValue, place + "/cache_params/multipass_num_passes",
                  "must be at least 0");
    }
    if (cache.stats) {
      PLIMSOLL_RETURN_IF_ERROR(validate_stats(*cache.stats, place + "/cache_params/stats"));
    }
  }
  if (c.key_value_params && c.key_value_params->max_l1_cache_size &&
      (*c.key_value_params->max_l1_cache_size < 0 ||
       *c.key_value_params->max_l1_cache_size > (std::int64_t{1} << 42))) {
    return fail(ErrorCode::kValue, place + "/key_value_params/max_l1_cache_size",
                "must be a number of megabytes from 0 to 2^42");
  }
  return {};
}

Result<void> validate_table(const Module& module, const Table& table, const std::string& place) {
  const auto bad = [&](std::string_view field, std::string message, std::string remedy = {}) {
    return fail(ErrorCode::kValue, fmt::format("{}/{}", place, field), std::move(message),
                std::move(remedy));
  };
  if (table.name.empty()) return bad("name", "a table needs a name");
  if (table.num_embeddings < 0) return bad("num_embeddings", "must be at least 0");
  if (table.num_embeddings == 0 && module.kind != ModuleKind::kEmbeddingBag) {
    return bad("num_embeddings", fmt::format("{} cannot be built with a table of no rows",
                                             module_class_name(module.kind)));
  }
  if (table.embedding_dim < 1 || table.embedding_dim > std::numeric_limits<std::int32_t>::max()) {
    return bad("embedding_dim", "must lie in 1..2^31 - 1");
  }
  if (is_fused(module.kind) && table.embedding_dim % 4 != 0) {
    return bad("embedding_dim", fmt::format("{} needs widths that are multiples of 4, not {}",
                                            module_class_name(module.kind), table.embedding_dim));
  }
  if (table.element_size && (*table.element_size < 1 || *table.element_size > 16)) {
    return bad("element_size", "must lie in 1..16 bytes");
  }
  if (table.total_num_buckets && *table.total_num_buckets < 1) {
    return bad("total_num_buckets", "must be at least 1");
  }
  if (table.use_virtual_table && !table.total_num_buckets) {
    return bad("total_num_buckets", "a virtual table needs its number of buckets");
  }
  if (table.dynamic_embedding) {
    const DynamicEmbedding& dynamic = *table.dynamic_embedding;
    if (module.kind != ModuleKind::kEmbeddingBagCollection &&
        module.kind != ModuleKind::kEmbeddingCollection) {
      return bad("dynamic_embedding",
                 fmt::format("{} holds no dynamic tables", module_class_name(module.kind)),
                 "give it to an embedding_bag_collection or embedding_collection");
    }
    if (dynamic.load_factor && !(*dynamic.load_factor >= 0 && *dynamic.load_factor <= 1)) {
      return bad("dynamic_embedding/load_factor", "must lie in [0, 1]");
    }
    if (dynamic.bucket_capacity < 1) {
      return bad("dynamic_embedding/bucket_capacity", "must be at least 1");
    }
  }
  if (module.kind == ModuleKind::kEmbeddingTowerCollection && (!table.tower || *table.tower < 0)) {
    return bad("tower", "a table of an embedding_tower_collection needs the index of its tower");
  }
  if (module.kind != ModuleKind::kEmbeddingTowerCollection && table.tower) {
    return bad("tower", "only tables of an embedding_tower_collection lie in a tower");
  }
  auto shape = table_shape(module, table);
  if (!shape) {
    Error error = std::move(shape).error();
    error.place = fmt::format("{}/{}", place, error.place);
    return tl::unexpected<Error>(std::move(error));
  }
  return {};
}

Result<void> validate_module(const Module& module, const std::string& place) {
  if (module.dense_parameter_bytes < 0 || module.dense_buffer_bytes < 0) {
    return fail(ErrorCode::kValue, place, "dense bytes must be at least 0");
  }
  std::set<std::string> names;
  for (std::size_t t = 0; t < module.tables.size(); ++t) {
    const Table& table = module.tables[t];
    const std::string table_place = fmt::format("{}/tables/{}", place, t);
    PLIMSOLL_RETURN_IF_ERROR(validate_table(module, table, table_place));
    if (!names.insert(table.name).second) {
      return fail(ErrorCode::kConflict, table_place + "/name",
                  fmt::format("two tables named '{}' in one module", table.name),
                  "give each its own name");
    }
    if (needs_equal_widths(module.kind) &&
        table.embedding_dim != module.tables.front().embedding_dim) {
      return fail(ErrorCode::kConflict, table_place + "/embedding_dim",
                  fmt::format("width {} beside {} in one {}", table.embedding_dim,
                              module.tables.front().embedding_dim, module_class_name(module.kind)),
                  "give tables of different widths modules of their own");
    }
  }
  return {};
}

// No module lies inside another.
Result<void> validate_paths(const std::set<std::string>& paths) {
  for (const std::string& path : paths) {
    for (std::size_t dot = path.find('.'); dot != std::string::npos;
         dot = path.find('.', dot + 1)) {
      if (paths.contains(path.substr(0, dot))) {
        return fail(ErrorCode::kConflict, "modules",
                    fmt::format("module '{}' lies inside module '{}', whose sharder would hide it",
                                path, path.substr(0, dot)));
      }
    }
    if (!path.empty() && paths.contains("")) {
      return fail(
          ErrorCode::kConflict, "modules",
          fmt::format("module '{}' lies inside the root module, whose sharder would hide it",
                      path));
    }
  }
  return {};
}

}  // namespace

Result<void> validate(const Model& model) {
  std::set<std::string> paths;
  for (std::size_t m = 0; m < model.modules.size(); ++m) {
    const Module& module = model.modules[m];
    const std::string place = fmt::format("modules/{}", m);
    if (!paths.insert(module.path).second) {
      return fail(ErrorCode::kConflict, place + "/path",
                  fmt::format("two modules at path '{}'", module.path), "give each its own path");
    }
    PLIMSOLL_RETURN_IF_ERROR(validate_module(module, place));
  }
  PLIMSOLL_RETURN_IF_ERROR(validate_paths(paths));
  if (model.dense_parameter_bytes < 0) {
    return fail(ErrorCode::kValue, "dense_parameter_bytes", "must be at least 0");
  }
  if (model.dense_buffer_bytes < 0) {
    return fail(ErrorCode::kValue, "dense_buffer_bytes", "must be at least 0");
  }
  if (model.batch_size && *model.batch_size < 0) {
    return fail(ErrorCode::kValue, "batch_size", "must be at least 0");
  }
  for (const auto& [name, constraints] : model.constraints) {
    PLIMSOLL_RETURN_IF_ERROR(validate_constraints(constraints, "constraints/" + name));
  }
  return {};
}

std::vector<Warning> find_model_warnings(const Model& model) {
  std::vector<Warning> warnings;
  std::set<std::string, std::less<>> names;
  for (const Module& module : model.modules) {
    for (const Table& table : module.tables) {
      names.insert(table.name);
      const auto found = model.constraints.find(table.name);
      const bool has_factors =
          found != model.constraints.end() && !found->second.pooling_factors.empty();
      if (!has_factors && table.feature_names.size() > 1) {
        warnings.push_back({"features_without_pooling_factors", table_fqn(module.path, table.name),
                            fmt::format("{} features but no pooling factors: rated as one feature "
                                        "with one id per sample, as TorchRec does",
                                        table.feature_names.size())});
      }
    }
  }
  for (const auto& [name, constraints] : model.constraints) {
    if (!names.contains(name)) {
      warnings.push_back({"constraint_without_table", name, "no table has this name; ignored"});
    }
  }
  return warnings;
}

}  // namespace plimsoll::embedding
