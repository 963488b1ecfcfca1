// What is given: modules, their tables, and what the user says about each table.
//
// A model is a flat list of modules in registration order; the tree that the reference walks is
// rebuilt from their dotted paths. Everything that costs nothing but is needed to judge or to write
// a plan (pooling mode, feature names, pass-through parameters) is kept too. Source:
// docs/mathematics/torchrec-planner.md#tables-and-features.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "plimsoll/core/outcome.h"
#include "plimsoll/core/result.h"
#include "plimsoll/core/units.h"
#include "plimsoll/embedding/types.h"

#pragma GCC visibility push(default)
namespace plimsoll::embedding {

// How a cache behaves (docs/mathematics/torchrec-planner.md#hit-rate-of-a-cache): the miss rate as
// a function of the cache load factor. A constant wins over a histogram.
struct CacheStats {
  double expected_lookups = 0;               // >= 0, distinct ids per global batch
  double cacheability = 0;                   // 0 very cacheable ... 1 hard
  std::optional<double> constant_miss_rate;  // in [0, 1]
  // Counts by LRU cache size: bins equal bins over cache sizes 0..height.
  std::vector<double> histogram;
  double height = 0;  // > 0 where histogram is given
  // With neither: 0.
  double expected_miss_rate(double load_factor) const;
  bool operator==(const CacheStats&) const = default;
};

struct CacheParams {
  std::optional<CacheAlgorithm> algorithm;
  std::optional<double> load_factor;  // in [0, 1]
  std::optional<double> reserved_memory;
  std::optional<DataType> precision;
  std::optional<bool> prefetch_pipeline;
  std::optional<CacheStats> stats;
  std::optional<int> multipass_num_passes;  // >= 0
  bool operator==(const CacheParams&) const = default;
};

// Pass-through except for max_l1_cache_size.
struct KeyValueParams {
  std::optional<std::int64_t> max_l1_cache_size;    // MB of 2^20 bytes
  std::optional<std::int64_t> l2_cache_size;        // GB
  std::map<std::string, std::string> pass_through;  // other fields, as JSON texts
  bool operator==(const KeyValueParams&) const = default;
};

// Per table name. Absent and empty lists mean the same, as in the reference.
struct ParameterConstraints {
  std::vector<ShardingType> sharding_types;
  std::vector<ComputeKernel> compute_kernels;
  std::optional<std::int64_t> min_partition;  // 0 means absent
  std::vector<double> pooling_factors;        // L_f; empty: one feature of 1.0
  std::vector<double> num_poolings;           // N_f; empty: 1.0 each
  std::vector<std::int64_t> batch_sizes;      // B_f; empty: the planner's
  bool is_weighted = false;
  std::optional<CacheParams> cache_params;
  std::optional<bool> enforce_hbm;
  std::optional<bool> stochastic_rounding;
  std::optional<BoundsCheckMode> bounds_check_mode;
  std::vector<std::string> feature_names;
  std::optional<DataType> output_dtype;
  std::optional<std::string> device_group;  // "cuda", "cpu", ...
  std::optional<KeyValueParams> key_value_params;
  bool use_virtual_table = false;
  bool operator==(const ParameterConstraints&) const = default;
};
using ConstraintMap = std::map<std::string, ParameterConstraints, std::less<>>;

// A hash table whose rows come and go while it trains (NVIDIA's dynamicemb, as TorchEasyRec's
// planner knows it; docs/embedding.md#torcheasyrec). Its rows are at most the table's
// num_embeddings. In a plan, mode and load factor are decided.
struct DynamicEmbedding {
  std::optional<DynamicEmbeddingMode> mode;  // absent: both are tried
  // HBM's share of the values, in [0, 1]; absent: that of the table's cache_params, and without
  // those .1, .2, ..., 1 are tried.
  std::optional<double> load_factor;
  std::int64_t bucket_capacity = 128;  // rows, >= 1
  bool operator==(const DynamicEmbedding&) const = default;
};

struct Table {
  std::string name;                 // unique within its module; constraints are looked up by it
  std::int64_t num_embeddings = 0;  // rows, >= 0
  std::int64_t embedding_dim = 0;   // columns, >= 1
  DataType data_type = DataType::kFp32;
  Pooling pooling = Pooling::kSum;
  std::vector<std::string> feature_names;
  std::optional<int> element_size;     // bytes; absent: from module kind and data type
  std::optional<Optimizer> optimizer;  // absent: the model's
  bool use_virtual_table =
      false;  // of the table configuration; with total_num_buckets it rules the row-wise cut
  // In a managed-collision module: of its collision module, whose default is 1.
  std::optional<std::int64_t> total_num_buckets;
  std::vector<double> num_poolings;  // on the option itself (release 1.4 on); empty: absent
  std::optional<int> tower;  // embedding_tower_collection: index of the tower that holds it, >= 0
  // Row_wise with kernel customized_kernel alone, on cuda, in an embedding_bag_collection or
  // embedding_collection.
  std::optional<DynamicEmbedding> dynamic_embedding;
  bool operator==(const Table&) const = default;
};

// Bytes an element that each collective carries, as a sharder's own codecs have it; absent: the
// table's element size.
struct CodecBytes {
  std::optional<double> forward_all_to_all, backward_all_to_all;          // >= 1
  std::optional<double> forward_reduce_scatter, backward_reduce_scatter;  // >= 1; of pooled outputs
  bool operator==(const CodecBytes&) const = default;
};

// What the module's sharder was built with (fused_params and quantised communication).
struct SharderParams {
  std::optional<double> cache_load_factor;
  bool prefetch_pipeline = false;
  std::optional<int> multipass_num_passes;
  std::optional<CommsPrecision> forward_comms, backward_comms;  // both or neither
  std::optional<CodecBytes> codec_bytes;  // wins over the two, which mean the standard registry
  // Of fused_params: what tables are trained with that name none of their own. The estimators do
  // not count its state.
  std::optional<Optimizer> optimizer;
  bool operator==(const SharderParams&) const = default;
};

struct Module {
  std::string path;  // dotted; "" is the root itself
  ModuleKind kind = ModuleKind::kEmbeddingBagCollection;
  bool is_weighted = false;
  // Towers wrap another collection: is it an EmbeddingCollection (sequence) or an
  // EmbeddingBagCollection?
  bool holds_embedding_collection = false;
  // Tables with a feature processor under the legacy attribute count as weighted.
  std::vector<std::string> legacy_feature_processor_tables;
  std::vector<Table> tables;  // registration order
  SharderParams sharder;
  Bytes dense_parameter_bytes = 0;  // >= 0; parameters of the module beside its tables (a tower's
                                    // interaction, a collision module)
  Bytes dense_buffer_bytes = 0;     // >= 0
  bool operator==(const Module&) const = default;
};

struct Model {
  std::string name;
  std::vector<Module> modules;      // registration order, paths unique
  Bytes dense_parameter_bytes = 0;  // >= 0; everything that is not sharded
  Bytes dense_buffer_bytes = 0;     // >= 0
  std::optional<Optimizer> optimizer;
  std::optional<std::int64_t> batch_size;  // per rank, a suggestion of the model's author
  ConstraintMap constraints;  // by table name; unknown names are ignored (and warned of)
};

// path + "." + name; a table of the root has a leading dot.
std::string table_fqn(const std::string& module_path, const std::string& table_name);

// What the runtime trains a table with: the table's own optimizer, else the model's, else that of
// the sharder's fused_params, else none.
Optimizer find_trained_optimizer(const Model& model, const Module& module, const Table& table);

// What the user says about one table. Constraints by fqn win over those for all tables, which a
// dynamic table is spared, and these over the model's own by name. The estimators look up by name
// alone, so what only they read (numbers of poolings, batch sizes, weights, virtual tables) is
// always that of the name (quirks of TorchEasyRec's set-up;
// docs/mathematics/torchrec-planner.md#torcheasyrecs-setting).
ParameterConstraints find_constraints(const Model& model, const ConstraintMap& fqn_constraints,
                                      const std::optional<ParameterConstraints>& global_constraints,
                                      const std::string& module_path, const Table& table);

// The parameter that the planner sees.
struct TableShape {
  std::int64_t rows = 0;
  std::int64_t columns = 0;  // of quantised modules: packed, aligned row width
  int element_size = 4;      // bytes
  Bytes bytes = 0;           // of the whole tensor; sub-byte types pack 2 or 4 elements into one
  bool operator==(const TableShape&) const = default;
};
// Error kOverflow where the size does not fit in 63 bits, kValue for a width the packed type cannot
// hold.
Result<TableShape> table_shape(const Module& module, const Table& table);

bool is_pooled(const Module& module, const std::string& name_or_path);
bool is_weighted(const Module& module, const Table& table, const ParameterConstraints& constraints);

// Structural checks that hold for every use of a model: unique paths and names, sizes that fit,
// equal lengths of feature lists, equal widths within an EmbeddingCollection, known towers. Error
// with place "modules/<i>/tables/<j>/<field>".
Result<void> validate(const Model& model);

// Legal oddities: constraints without a table, features without pooling factors.
std::vector<Warning> find_model_warnings(const Model& model);

// The nodes of the module tree in the order the reference's enumerator visits them: default LIFO,
// or breadth first. Indices into `modules`.
std::vector<int> visit_order(const Model& model, bool breadth_first);

// The tables of a module in the order its class registers them. Fused and quantised modules bring
// together what one kernel holds, groups in order of their first table: by data type and pooling
// mode (fused bags), data type (fused and quantised sequences) or pooling mode (quantised bags);
// quantised ones by virtual tables too. Indices into `tables`.
std::vector<int> table_order(const Module& module);

}  // namespace plimsoll::embedding
#pragma GCC visibility pop
