#include "plimsoll/embedding/model.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <limits>
#include <set>
#include <string_view>
#include <unordered_map>

#include "plimsoll/embedding/sharder.h"

namespace plimsoll::embedding {
namespace {

constexpr Bytes kMaxBytes = std::numeric_limits<Bytes>::max();

// Rounds up to the 16-byte rows of packed FBGEMM weights.
std::int64_t align_16(std::int64_t bytes) { return (bytes + 15) / 16 * 16; }

struct PackedWidth {
  std::int64_t columns;   // as the wrapped tensor reports them
  int elements_per_byte;  // sub-byte wrappers count elements, not bytes
};

// Row width of quantised weights (section 1.1): scale and bias take 4 bytes, half and float types
// none.
Result<PackedWidth> packed_width(const Table& table) {
  const std::int64_t dim = table.embedding_dim;
  switch (table.data_type) {
    case DataType::kFp32:
      return PackedWidth{align_16(4 * dim), 1};
    case DataType::kFp16:
      return PackedWidth{align_16(2 * dim), 1};
    case DataType::kInt8:
    case DataType::kUint8:
      return PackedWidth{align_16(dim + 4), 1};
    case DataType::kInt4:
      if (dim % 2 != 0) {
        return fail(ErrorCode::kValue, "embedding_dim",
                    fmt::format("int4 tables need an even width, not {}", dim));
      }
      return PackedWidth{2 * align_16(dim / 2 + 4), 2};
    case DataType::kInt2:
      if (dim % 4 != 0) {
        return fail(ErrorCode::kValue, "embedding_dim",
                    fmt::format("int2 tables need a width that is a multiple of 4, not {}", dim));
      }
      return PackedWidth{4 * align_16(dim / 4 + 4), 4};
    case DataType::kBf16:
    case DataType::kNfp8:
    case DataType::kInt32:
    case DataType::kInt64:
      break;
  }
  return fail(ErrorCode::kValue, "data_type",
              fmt::format("a quantised module cannot hold {}", to_string(table.data_type)),
              "use fp32, fp16, int8, uint8, int4 or int2");
}

Result<TableShape> make_shape(std::int64_t rows, std::int64_t columns, int element_size,
                              int elements_per_byte) {
  const Int128 bytes = Int128{rows} * columns * element_size / elements_per_byte;
  // Quantised modules add 4 bytes a row; leave room for them.
  if (bytes > kMaxBytes - Int128{rows} * 4) {
    return fail(ErrorCode::kOverflow, "num_embeddings",
                fmt::format("{} rows of {} columns do not fit in 2^63 - 1 bytes", rows, columns),
                "give fewer rows or columns");
  }
  return TableShape{rows, columns, element_size, static_cast<Bytes>(bytes)};
}

// A node of the module tree; the root has index 0.
struct TreeNode {
  int module = -1;            // index into Model::modules, -1 for a plain container
  std::vector<int> children;  // registration order
};

std::vector<TreeNode> build_tree(const Model& model) {
  std::vector<TreeNode> nodes{{-1, {}}};
  std::unordered_map<std::string, int> by_path{{"", 0}};
  for (std::size_t m = 0; m < model.modules.size(); ++m) {
    const std::string& path = model.modules[m].path;
    int node = 0;
    for (std::size_t begin = 0; begin < path.size();) {
      const std::size_t end = std::min(path.find('.', begin), path.size());
      const auto [found, is_new] =
          by_path.try_emplace(path.substr(0, end), static_cast<int>(nodes.size()));
      if (is_new) {
        nodes[static_cast<std::size_t>(node)].children.push_back(found->second);
        nodes.push_back({-1, {}});
      }
      node = found->second;
      begin = end + 1;
    }
    nodes[static_cast<std::size_t>(node)].module = static_cast<int>(m);
  }
  return nodes;
}

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

}  // namespace

std::string table_fqn(const std::string& module_path, const std::string& table_name) {
  return module_path + "." + table_name;
}

ParameterConstraints find_constraints(const Model& model, const ConstraintMap& fqn_constraints,
                                      const std::optional<ParameterConstraints>& global_constraints,
                                      const std::string& module_path, const Table& table) {
  const auto by_name = model.constraints.find(table.name);
  const ParameterConstraints* const named =
      by_name == model.constraints.end() ? nullptr : &by_name->second;
  const auto by_fqn = fqn_constraints.find(table_fqn(module_path, table.name));
  const ParameterConstraints* further = nullptr;
  if (by_fqn != fqn_constraints.end()) {
    further = &by_fqn->second;
  } else if (global_constraints && !table.dynamic_embedding) {
    further = &*global_constraints;
  }
  if (further == nullptr) return named == nullptr ? ParameterConstraints{} : *named;
  ParameterConstraints merged = *further;
  const ParameterConstraints estimated = named == nullptr ? ParameterConstraints{} : *named;
  merged.num_poolings = estimated.num_poolings;
  merged.batch_sizes = estimated.batch_sizes;
  merged.is_weighted = estimated.is_weighted;
  merged.use_virtual_table = estimated.use_virtual_table;
  return merged;
}

Result<TableShape> table_shape(const Module& module, const Table& table) {
  if (is_quantised(module.kind)) {
    PLIMSOLL_ASSIGN(const PackedWidth packed, packed_width(table));
    return make_shape(table.num_embeddings, packed.columns, 1, packed.elements_per_byte);
  }
  // An unsharded collection materialises fp32 tables as fp32 and all others as fp16; fused ones do
  // not look at the type.
  const bool is_single = table.data_type == DataType::kFp32 || is_fused(module.kind);
  const int element_size = table.element_size.value_or(is_single ? 4 : 2);
  return make_shape(table.num_embeddings, table.embedding_dim, element_size, 1);
}

bool is_pooled(const Module& module, const std::string& name_or_path) {
  if (is_embedding_collection_interface(module.kind) ||
      module.kind == ModuleKind::kManagedCollisionEmbeddingCollection) {
    return false;
  }
  const bool holds_collection = module.kind == ModuleKind::kItepEmbeddingCollection ||
                                module.kind == ModuleKind::kPecEmbeddingCollection ||
                                ((module.kind == ModuleKind::kEmbeddingTower ||
                                  module.kind == ModuleKind::kEmbeddingTowerCollection) &&
                                 module.holds_embedding_collection);
  if (!holds_collection) return true;
  // Quirk: a wrapper counts as a sequence module only if a parameter of the wrapped collection
  // contains the wrapper's own path, which an ordinary path never does and the empty path of the
  // root always does.
  return std::none_of(module.tables.begin(), module.tables.end(), [&](const Table& table) {
    return fmt::format("embeddings.{}.weight", table.name).find(name_or_path) != std::string::npos;
  });
}

bool is_weighted(const Module& module, const Table& table,
                 const ParameterConstraints& constraints) {
  const auto& processed = module.legacy_feature_processor_tables;
  if (std::find(processed.begin(), processed.end(), table.name) != processed.end()) return true;
  // Quirk: feature-processed modules and towers do not show the interface, so only the constraint
  // counts for them.
  return is_embedding_bag_interface(module.kind) ? module.is_weighted : constraints.is_weighted;
}

Result<void> validate(const Model& model) {
  std::set<std::string> paths;
  for (std::size_t m = 0; m < model.modules.size(); ++m) {
    const Module& module = model.modules[m];
    const std::string place = fmt::format("modules/{}", m);
    if (!paths.insert(module.path).second) {
      return fail(ErrorCode::kConflict, place + "/path",
                  fmt::format("two modules at path '{}'", module.path), "give each its own path");
    }
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
        return fail(
            ErrorCode::kConflict, table_place + "/embedding_dim",
            fmt::format("width {} beside {} in one {}", table.embedding_dim,
                        module.tables.front().embedding_dim, module_class_name(module.kind)),
            "give tables of different widths modules of their own");
      }
    }
  }
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
                            fmt::format("{} features but no pooling factors: costed as one feature "
                                        "with one id a sample, as the reference does",
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

std::vector<int> table_order(const Module& module) {
  using enum ModuleKind;
  const bool by_type = is_fused(module.kind) || module.kind == kQuantEmbeddingCollection ||
                       module.kind == kQuantManagedCollisionEmbeddingCollection;
  const bool by_pooling = module.kind == kFusedEmbeddingBagCollection ||
                          module.kind == kQuantEmbeddingBagCollection ||
                          module.kind == kQuantFeatureProcessedEmbeddingBagCollection ||
                          module.kind == kQuantManagedCollisionEmbeddingBagCollection;
  const bool by_virtual = is_quantised(module.kind);
  const auto is_alike = [&](const Table& a, const Table& b) {
    return (!by_type || a.data_type == b.data_type) && (!by_pooling || a.pooling == b.pooling) &&
           (!by_virtual || a.use_virtual_table == b.use_virtual_table);
  };
  std::vector<std::vector<int>> groups;
  for (std::size_t t = 0; t < module.tables.size(); ++t) {
    auto group = std::find_if(groups.begin(), groups.end(), [&](const std::vector<int>& members) {
      return is_alike(module.tables[static_cast<std::size_t>(members.front())], module.tables[t]);
    });
    if (group == groups.end()) group = groups.emplace(groups.end());
    group->push_back(static_cast<int>(t));
  }
  std::vector<int> order;
  for (const std::vector<int>& group : groups)
    order.insert(order.end(), group.begin(), group.end());
  return order;
}

std::vector<int> visit_order(const Model& model, bool breadth_first) {
  const std::vector<TreeNode> nodes = build_tree(model);
  std::vector<int> order;
  std::deque<int> worklist{0};
  while (!worklist.empty()) {
    const int next = breadth_first ? worklist.front() : worklist.back();
    if (breadth_first) {
      worklist.pop_front();
    } else {
      worklist.pop_back();
    }
    const TreeNode& node = nodes[static_cast<std::size_t>(next)];
    if (node.module >= 0) {
      order.push_back(node.module);
      continue;
    }
    worklist.insert(worklist.end(), node.children.begin(), node.children.end());
  }
  return order;
}

}  // namespace plimsoll::embedding
