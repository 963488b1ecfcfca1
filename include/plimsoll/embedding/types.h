// The enumerations of embedding sharding, with the names that plan files use. Source:
// docs/mathematics/torchrec-planner.md#options-of-a-table.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#pragma GCC visibility push(default)
namespace plimsoll::embedding {

enum class ShardingType {
  kDataParallel,
  kTableWise,
  kColumnWise,
  kRowWise,
  kTableRowWise,
  kTableColumnWise,
  kGridShard,
};
inline constexpr int kNumShardingTypes = 7;

enum class ComputeKernel {
  kDense,
  kFused,
  kFusedUvm,
  kFusedUvmCaching,
  kQuant,
  kQuantUvm,
  kQuantUvmCaching,
  kKeyValue,
  kCustomizedKernel,
  kSsdVirtualTable,
  kDramVirtualTable,
  kDramSsdVirtualTable,  // from 1.8
  kFusedTriton,          // from 1.7; no default sharder offers it
  kUnfusedTpu,           // from 1.9
};
inline constexpr int kNumComputeKernels = 14;

enum class PartitionBy { kDevice, kHost, kUniform, kMultiHost };

enum class DataType { kFp32, kFp16, kBf16, kInt8, kUint8, kNfp8, kInt4, kInt2, kInt32, kInt64 };

enum class Pooling { kSum, kMean };  // no cost; needed to judge a plan

// Only the distinction that the storage estimator makes, and the classes that map onto it
// (docs/mathematics/torchrec-planner.md#bytes-of-a-shard).
enum class Optimizer { kNone, kSgd, kAdam, kRowWiseAdagrad, kOther };

enum class PipelineType { kNone, kTrainBase, kTrainSparseDist, kTrainPrefetchSparseDist };

enum class CacheAlgorithm { kLru, kLfu };
enum class BoundsCheckMode { kFatal, kWarning, kIgnore, kNone, kV2Ignore, kV2Warning, kV2Fatal };

// Where the values of a dynamic embedding table lie (docs/embedding.md#torcheasyrec): split between
// HBM and host memory, or all in host memory with a part of them cached in HBM.
enum class DynamicEmbeddingMode { kHybrid, kCaching };

// Codec of a quantised collective.
enum class CommsPrecision { kFp32, kFp16, kBf16, kFp8, kInt8, kMx4 };

enum class ModuleKind {
  kEmbeddingBagCollection,
  kEmbeddingBag,  // nn.EmbeddingBag
  kEmbeddingCollection,
  kFeatureProcessedEmbeddingBagCollection,
  kFusedEmbeddingBagCollection,
  kFusedEmbeddingCollection,
  kQuantEmbeddingBagCollection,
  kQuantEmbeddingCollection,
  kQuantFeatureProcessedEmbeddingBagCollection,
  kManagedCollisionEmbeddingBagCollection,
  kManagedCollisionEmbeddingCollection,
  kQuantManagedCollisionEmbeddingBagCollection,
  kQuantManagedCollisionEmbeddingCollection,
  kEmbeddingTower,
  kEmbeddingTowerCollection,
  kItepEmbeddingBagCollection,
  kItepEmbeddingCollection,
  kPecEmbeddingCollection,  // from 1.9
};

std::string_view to_string(ShardingType value);
std::string_view to_string(ComputeKernel value);
std::string_view to_string(PartitionBy value);
std::string_view to_string(DataType value);
std::string_view to_string(Pooling value);
std::string_view to_string(Optimizer value);
std::string_view to_string(PipelineType value);
std::string_view to_string(CacheAlgorithm value);
std::string_view to_string(BoundsCheckMode value);
std::string_view to_string(DynamicEmbeddingMode value);
std::string_view to_string(CommsPrecision value);
std::string_view to_string(ModuleKind value);

// The enumerator of that name, or nothing. Specialised for every enumeration above. Optimizers are
// also found by their class names (case and underscores ignored: "Adagrad", "row_wise_adagrad",
// "EXACT_SGD", "lamb"); classes the reference does not know map to kOther.
template <class Enum>
std::optional<Enum> find_enum(std::string_view name);

// Every name of the enumeration, in declared order.
template <class Enum>
std::span<const std::string> enum_names();

// How shards of a type are placed.
PartitionBy partition_by(ShardingType type);

// "DP", "TW", "CW", "RW", "TWRW", "TWCW", "GS": the report's abbreviation.
std::string_view abbreviation(ShardingType type);

// Bits of one element; absent for int32 and int64, which the reference cannot look up.
std::optional<int> bit_width(DataType type);

bool is_uvm_caching(ComputeKernel kernel);  // fused_uvm_caching, quant_uvm_caching
bool is_key_value(ComputeKernel kernel);  // key_value and the virtual-table kernels: storage by the
                                          // key-value rule
bool is_cached(ComputeKernel kernel);     // either of the two
bool is_row_cut(ShardingType type);       // row_wise, table_row_wise, grid_shard
bool is_column_cut(ShardingType type);    // column_wise, table_column_wise, grid_shard

}  // namespace plimsoll::embedding
#pragma GCC visibility pop
