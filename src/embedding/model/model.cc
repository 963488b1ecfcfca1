#include "plimsoll/embedding/model.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <limits>
#include <unordered_map>

#include "embedding/model/sharder.h"

namespace plimsoll::embedding {
namespace {

constexpr Bytes kMaxBytes = std::numeric_limits<Bytes>::max();

// Rounds up to the 16-byte rows of packed FBGEMM weights.
std::int64_t align_16(std::int64_t bytes) { return (bytes + 15) / 16 * 16; }

struct PackedWidth {
  std::int64_t columns;   // as the wrapped tensor reports them
  int elements_per_byte;  // sub-byte wrappers count elements, not bytes
};

// Row width of quantised weights (docs/mathematics/torchrec-planner.md#tables-and-features): scale
// and bias take 4 bytes, half and float types none.
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
  const Int128 elements = Int128{rows} * columns * element_size;  // bytes except for sub-byte types
  // Quantised modules add 4 bytes a row; leave room for them.
  if (elements > kMaxBytes - Int128{rows} * 4) {
    return fail(ErrorCode::kOverflow, "num_embeddings",
                fmt::format("{} rows of {} columns do not fit in 2^63 - 1 bytes", rows, columns),
                "give fewer rows or columns");
  }
  return TableShape{rows, columns, element_size, static_cast<Bytes>(elements / elements_per_byte)};
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

}  // namespace

std::string table_fqn(const std::string& module_path, const std::string& table_name) {
  return module_path + "." + table_name;
}

Optimizer find_trained_optimizer(const Model& model, const Module& module, const Table& table) {
  if (table.optimizer) return *table.optimizer;
  if (model.optimizer) return *model.optimizer;
  return module.sharder.optimizer.value_or(Optimizer::kNone);
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
