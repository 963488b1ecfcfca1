#include "plimsoll/embedding/types.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <string>

namespace plimsoll::embedding {
namespace {

// Names in declared order; the position is the enumerator's value.
template <class Enum>
struct Names;

#define PLIMSOLL_ENUM_NAMES(Enum, ...)                                     \
  template <>                                                              \
  struct Names<Enum> {                                                     \
    static const auto& values() {                                          \
      static const auto names = std::to_array<std::string>({__VA_ARGS__}); \
      return names;                                                        \
    }                                                                      \
  }

PLIMSOLL_ENUM_NAMES(ShardingType, "data_parallel", "table_wise", "column_wise", "row_wise",
                    "table_row_wise", "table_column_wise", "grid_shard");
PLIMSOLL_ENUM_NAMES(ComputeKernel, "dense", "fused", "fused_uvm", "fused_uvm_caching", "quant",
                    "quant_uvm", "quant_uvm_caching", "key_value", "customized_kernel",
                    "ssd_virtual_table", "dram_virtual_table", "dram_ssd_virtual_table",
                    "fused_triton", "unfused_tpu");
PLIMSOLL_ENUM_NAMES(PartitionBy, "device", "host", "uniform", "multi_host");
PLIMSOLL_ENUM_NAMES(DataType, "fp32", "fp16", "bf16", "int8", "uint8", "nfp8", "int4", "int2",
                    "int32", "int64");
PLIMSOLL_ENUM_NAMES(Pooling, "sum", "mean");
PLIMSOLL_ENUM_NAMES(Optimizer, "none", "sgd", "adam", "rowwise_adagrad", "other");
PLIMSOLL_ENUM_NAMES(PipelineType, "none", "train_base", "train_sparse_dist",
                    "train_prefetch_sparse_dist");
PLIMSOLL_ENUM_NAMES(CacheAlgorithm, "lru", "lfu");
PLIMSOLL_ENUM_NAMES(BoundsCheckMode, "fatal", "warning", "ignore", "none", "v2_ignore",
                    "v2_warning", "v2_fatal");
PLIMSOLL_ENUM_NAMES(DynamicEmbeddingMode, "hybrid", "caching");
PLIMSOLL_ENUM_NAMES(CommsPrecision, "fp32", "fp16", "bf16", "fp8", "int8", "mx4");
PLIMSOLL_ENUM_NAMES(ModuleKind, "embedding_bag_collection", "embedding_bag", "embedding_collection",
                    "feature_processed_embedding_bag_collection", "fused_embedding_bag_collection",
                    "fused_embedding_collection", "quant_embedding_bag_collection",
                    "quant_embedding_collection",
                    "quant_feature_processed_embedding_bag_collection",
                    "managed_collision_embedding_bag_collection",
                    "managed_collision_embedding_collection",
                    "quant_managed_collision_embedding_bag_collection",
                    "quant_managed_collision_embedding_collection", "embedding_tower",
                    "embedding_tower_collection", "itep_embedding_bag_collection",
                    "itep_embedding_collection", "pec_embedding_collection");
#undef PLIMSOLL_ENUM_NAMES

// Lower case without underscores: "EXACT_ROWWISE_ADAGRAD" and "RowWiseAdagrad" compare alike.
std::string fold(std::string_view name) {
  std::string folded;
  for (const char c : name) {
    if (c != '_' && c != '-') {
      folded += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    }
  }
  return folded;
}

// Classes of the framework and of its kernels library; all but four cost alike.
std::optional<Optimizer> find_optimizer_class(std::string_view name) {
  const std::string folded = fold(name);
  const auto is_one_of = [&folded](std::initializer_list<std::string_view> names) {
    return std::find(names.begin(), names.end(), folded) != names.end();
  };
  if (is_one_of({"none"})) return Optimizer::kNone;
  if (is_one_of({"sgd", "exactsgd"})) return Optimizer::kSgd;
  if (is_one_of({"adam"})) return Optimizer::kAdam;
  if (is_one_of({"rowwiseadagrad", "exactrowwiseadagrad"})) return Optimizer::kRowWiseAdagrad;
  if (is_one_of({"other", "adagrad", "exactadagrad", "lamb", "partialrowwiselamb",
                 "partialrowwiseadam", "larssgd", "lars", "adamw", "adamax", "adadelta", "rmsprop",
                 "shampoo", "ensemblerowwiseadagrad"})) {
    return Optimizer::kOther;
  }
  return std::nullopt;
}

}  // namespace

#define PLIMSOLL_ENUM_FUNCTIONS(Enum)                              \
  std::string_view to_string(Enum value) {                         \
    return Names<Enum>::values()[static_cast<std::size_t>(value)]; \
  }                                                                \
  template <>                                                      \
  std::span<const std::string> enum_names<Enum>() {                \
    return Names<Enum>::values();                                  \
  }

#define PLIMSOLL_FIND_ENUM(Enum)                                    \
  template <>                                                       \
  std::optional<Enum> find_enum<Enum>(std::string_view name) {      \
    const auto& names = Names<Enum>::values();                      \
    const auto found = std::find(names.begin(), names.end(), name); \
    if (found == names.end()) return std::nullopt;                  \
    return static_cast<Enum>(found - names.begin());                \
  }

PLIMSOLL_ENUM_FUNCTIONS(ShardingType)
PLIMSOLL_FIND_ENUM(ShardingType)
PLIMSOLL_ENUM_FUNCTIONS(ComputeKernel)
PLIMSOLL_ENUM_FUNCTIONS(PartitionBy)
PLIMSOLL_FIND_ENUM(PartitionBy)
PLIMSOLL_ENUM_FUNCTIONS(DataType)
PLIMSOLL_FIND_ENUM(DataType)
PLIMSOLL_ENUM_FUNCTIONS(Pooling)
PLIMSOLL_FIND_ENUM(Pooling)
PLIMSOLL_ENUM_FUNCTIONS(Optimizer)
PLIMSOLL_ENUM_FUNCTIONS(PipelineType)
PLIMSOLL_FIND_ENUM(PipelineType)
PLIMSOLL_ENUM_FUNCTIONS(CacheAlgorithm)
PLIMSOLL_FIND_ENUM(CacheAlgorithm)
PLIMSOLL_ENUM_FUNCTIONS(BoundsCheckMode)
PLIMSOLL_FIND_ENUM(BoundsCheckMode)
PLIMSOLL_ENUM_FUNCTIONS(DynamicEmbeddingMode)
PLIMSOLL_FIND_ENUM(DynamicEmbeddingMode)
PLIMSOLL_ENUM_FUNCTIONS(CommsPrecision)
PLIMSOLL_FIND_ENUM(CommsPrecision)
PLIMSOLL_ENUM_FUNCTIONS(ModuleKind)
PLIMSOLL_FIND_ENUM(ModuleKind)
#undef PLIMSOLL_ENUM_FUNCTIONS
#undef PLIMSOLL_FIND_ENUM

// Early releases of TorchRec wrote "batched_fused" where later ones write "fused". They said so of
// the kernels up to quant_uvm_caching, which are declared first.
template <>
std::optional<ComputeKernel> find_enum<ComputeKernel>(std::string_view name) {
  constexpr std::string_view kBatched = "batched_";
  std::span<const std::string> names = enum_names<ComputeKernel>();
  if (name.starts_with(kBatched)) {
    name.remove_prefix(kBatched.size());
    names = names.first(static_cast<std::size_t>(ComputeKernel::kQuantUvmCaching) + 1);
  }
  const auto found = std::find(names.begin(), names.end(), name);
  if (found == names.end()) return std::nullopt;
  return static_cast<ComputeKernel>(found - names.begin());
}

template <>
std::optional<Optimizer> find_enum<Optimizer>(std::string_view name) {
  return find_optimizer_class(name);
}

PartitionBy partition_by(ShardingType type) {
  switch (type) {
    case ShardingType::kTableWise:
    case ShardingType::kColumnWise:
      return PartitionBy::kDevice;
    case ShardingType::kTableRowWise:
    case ShardingType::kTableColumnWise:
      return PartitionBy::kHost;
    case ShardingType::kRowWise:
    case ShardingType::kDataParallel:
      return PartitionBy::kUniform;
    case ShardingType::kGridShard:
      return PartitionBy::kMultiHost;
  }
  return PartitionBy::kDevice;
}

std::string_view abbreviation(ShardingType type) {
  switch (type) {
    case ShardingType::kDataParallel:
      return "DP";
    case ShardingType::kTableWise:
      return "TW";
    case ShardingType::kColumnWise:
      return "CW";
    case ShardingType::kRowWise:
      return "RW";
    case ShardingType::kTableRowWise:
      return "TWRW";
    case ShardingType::kTableColumnWise:
      return "TWCW";
    case ShardingType::kGridShard:
      return "GS";
  }
  return "";
}

std::optional<int> bit_width(DataType type) {
  switch (type) {
    case DataType::kFp32:
      return 32;
    case DataType::kFp16:
    case DataType::kBf16:
      return 16;
    case DataType::kInt8:
    case DataType::kUint8:
    case DataType::kNfp8:
      return 8;
    case DataType::kInt4:
      return 4;
    case DataType::kInt2:
      return 2;
    case DataType::kInt32:
    case DataType::kInt64:
      return std::nullopt;
  }
  return std::nullopt;
}

bool is_uvm_caching(ComputeKernel kernel) {
  return kernel == ComputeKernel::kFusedUvmCaching || kernel == ComputeKernel::kQuantUvmCaching;
}

bool is_key_value(ComputeKernel kernel) {
  return kernel == ComputeKernel::kKeyValue || kernel == ComputeKernel::kSsdVirtualTable ||
         kernel == ComputeKernel::kDramVirtualTable ||
         kernel == ComputeKernel::kDramSsdVirtualTable;
}

bool is_cached(ComputeKernel kernel) { return is_uvm_caching(kernel) || is_key_value(kernel); }

bool is_row_cut(ShardingType type) {
  return type == ShardingType::kRowWise || type == ShardingType::kTableRowWise ||
         type == ShardingType::kGridShard;
}

bool is_column_cut(ShardingType type) {
  return type == ShardingType::kColumnWise || type == ShardingType::kTableColumnWise ||
         type == ShardingType::kGridShard;
}

}  // namespace plimsoll::embedding
