// What a shard costs: milliseconds by component and bytes by tier, bit for bit as the chosen
// TorchRec release computes them.
//
// The cost of a shard depends on its table, its option and its size alone, so one call serves every
// equal shard. Sources: docs/mathematics/torchrec-planner.md#milliseconds-of-a-shard,
// docs/mathematics/torchrec-planner.md#bytes-of-a-shard. Evaluation order is part of the contract.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "plimsoll/core/result.h"
#include "plimsoll/embedding/cost_model.h"
#include "plimsoll/embedding/model.h"
#include "plimsoll/embedding/option_set.h"
#include "plimsoll/topology/topology.h"

#pragma GCC visibility push(default)
namespace plimsoll::embedding {

using topology::ComputeDevice;
using topology::Topology;

// How the model will run (the reference's defaults).
struct RunMode {
  bool inference = false;
  PipelineType pipeline_type = PipelineType::kNone;
  bool run_embedding_at_peak_memory = false;
  bool operator==(const RunMode&) const = default;
};

// Bytes per element that each collective carries, after quantisation.
struct CommsElementSizes {
  double forward_all_to_all = 4;
  double backward_all_to_all = 4;
  double forward_reduce_scatter = 4;
  double backward_reduce_scatter = 4;
  bool operator==(const CommsElementSizes&) const = default;
};

// Everything the formulas know of one table, whatever the option; made once per table.
struct TableProfile {
  TableShape shape;
  ModuleKind module_kind = ModuleKind::kEmbeddingBagCollection;
  bool is_pooled = true;
  bool is_weighted = false;
  Optimizer optimizer = Optimizer::kNone;
  std::vector<double> pooling_factors{1.0};    // L_f; all three lists of one length
  std::vector<double> num_poolings{1.0};       // N_f
  std::vector<std::int64_t> batch_sizes{512};  // B_f
  std::optional<double> output_element_size;   // bytes; absent: the element size. Storage only
  std::optional<CacheParams> cache_params;     // of the option
  SharderParams sharder;
  CommsElementSizes comms;
  std::optional<KeyValueParams> key_value_params;
  bool use_virtual_table = false;  // of the constraint: forces the key-value storage rule
  std::optional<DynamicEmbedding> dynamic_embedding;  // as an option decides it
  bool operator==(const TableProfile&) const = default;
};

// Element sizes for a sharder's quantised communication.
CommsElementSizes comms_element_sizes(const SharderParams& sharder, bool is_pooled,
                                      int element_size, ComputeDevice device);

// Error kValue: feature lists whose lengths differ, a data type without bit width, a bad table
// shape.
Result<TableProfile> make_table_profile(const CostModel& cost_model, const Topology& topology,
                                        const Model& model, const Module& module,
                                        const Table& table, std::int64_t batch_size);

// The same with the table's constraints in hand, whatever they were looked up by.
Result<TableProfile> make_table_profile(const CostModel& cost_model, const Topology& topology,
                                        std::optional<Optimizer> default_optimizer,
                                        const Module& module, const Table& table,
                                        const ParameterConstraints& constraints,
                                        std::int64_t batch_size);

// The bytes of one shard by cause; together they are what the reference counts.
struct StorageParts {
  Storage weights;  // of a cached or key-value table, HBM holds the cached rows; a dynamic table's
                    // rows hold keys and optimizer state too
  Storage optimizer_state;
  Storage cache_state;   // bookkeeping of a cache
  Storage input_output;  // what the pipeline holds of inputs and outputs
  StorageParts& operator+=(const StorageParts& other) {
    weights += other.weights;
    optimizer_state += other.optimizer_state;
    cache_state += other.cache_state;
    input_output += other.input_output;
    return *this;
  }
  bool operator==(const StorageParts&) const = default;
};

// Estimates the shards of one option. Derive from it to plan with times and bytes of your own, such
// as measured ones (EnumerationOptions::estimator).
class ShardEstimator {
 public:
  virtual ~ShardEstimator() = default;
  virtual std::string_view name() const = 0;  // part of the context's hash
  // Sets `perf` and `storage` of every run, whose counts, sizes and offsets are given. `profile` is
  // the table's as the option makes it (profile_of). An error ends the planning.
  virtual Result<void> estimate(const TableOptions& table, const TableProfile& profile,
                                const Option& option, std::span<ShardRun> runs) const = 0;
};

// A release's own, by its cost model.
class Estimator : public ShardEstimator {
 public:
  // Copies its arguments; cheap to copy itself.
  Estimator(const CostModel& cost_model, const Topology& topology, const RunMode& mode);

  std::string_view name() const override { return cost_model_.name; }
  // shard_perf of the first run, which is that of all, and shard_storage of each.
  Result<void> estimate(const TableOptions& table, const TableProfile& profile,
                        const Option& option, std::span<ShardRun> runs) const override;

  // Bytes per millisecond of the device for this kernel. Error kPlanner (kind "other") or kValue: a
  // pair without bandwidth.
  Result<double> device_bandwidth(ComputeKernel kernel, std::optional<double> cache_load_factor,
                                  bool prefetch_pipeline) const;

  // Milliseconds of one shard of `rows` x `columns`. Errors as above; kValue for a negative cost
  // where the release asserts that.
  Result<Perf> shard_perf(const TableProfile& table, ShardingType type, ComputeKernel kernel,
                          std::int64_t rows, std::int64_t columns) const;

  // Bytes of one shard, by cause and together. Error kOverflow where a size does not fit in 63
  // bits.
  Result<StorageParts> shard_storage_parts(const TableProfile& table, ShardingType type,
                                           ComputeKernel kernel, std::int64_t rows,
                                           std::int64_t columns) const;
  Result<Storage> shard_storage(const TableProfile& table, ShardingType type, ComputeKernel kernel,
                                std::int64_t rows, std::int64_t columns) const;

  // Input and output bytes of one shard. `output_element_size` as in the profile.
  struct Io {
    Bytes input = 0;
    Bytes output = 0;
  };
  Result<Io> shard_io(const TableProfile& table, ShardingType type, std::int64_t rows,
                      std::int64_t columns, double output_element_size) const;

  const CostModel& cost_model() const { return cost_model_; }
  const Topology& topology() const { return topology_; }
  const RunMode& mode() const { return mode_; }

 private:
  CostModel cost_model_;
  Topology topology_;
  RunMode mode_;
};

// The parameters of the reference's perf_func_emb_wall_time, under its names. Lists of features
// have one length.
struct EmbWallTimeParameters {
  std::vector<std::array<std::int64_t, 2>> shard_sizes;  // rows and columns of every shard
  ComputeKernel compute_kernel = ComputeKernel::kFused;
  ComputeDevice compute_device = ComputeDevice::kCuda;
  ShardingType sharding_type = ShardingType::kTableWise;
  std::vector<std::int64_t> batch_sizes;  // of every feature, per rank
  int world_size = 1;                     // >= 1
  int local_world_size = 1;               // >= 1
  std::vector<double> input_lengths;      // of every feature, ids in a pooling
  double input_data_type_size = 8;        // bytes of an id
  double table_data_type_size = 4;        // bytes of an element, as all below
  double output_data_type_size = 4;       // no formula of the reference reads it
  double fwd_a2a_comm_data_type_size = 4;
  double bwd_a2a_comm_data_type_size = 4;
  double fwd_sr_comm_data_type_size = 4;
  double bwd_sr_comm_data_type_size = 4;
  std::vector<double> num_poolings;                            // of every feature, per sample
  double hbm_mem_bw = topology::kDefaultHbmMemBw;              // > 0, bytes per millisecond
  double ddr_mem_bw = topology::kDefaultDdrMemBw;              // > 0
  double hbm_to_ddr_mem_bw = topology::kDefaultHbmToDdrMemBw;  // > 0
  topology::Comms comms_bandwidths;  // release 1.2 has intra_host_bw and inter_host_bw alone
  double bwd_compute_multiplier = 2;
  double weighted_feature_bwd_compute_multiplier = 1;
  bool is_pooled = true;
  bool is_weighted = false;
  std::optional<double> caching_ratio;
  bool is_inference = false;
  bool prefetch_pipeline = false;
  double expected_cache_fetches = 0;           // rows per global batch
  double uneven_sharding_perf_multiplier = 1;  // no formula of the reference reads it
};

// Milliseconds of every shard from numbers alone, without a model and a topology: the reference's
// classmethod of that name up to release 1.5, by the formulas of any release. Errors: those of
// Estimator::shard_perf; kValue for lists of different lengths, ranks below 1, and bandwidths that
// are not positive.
Result<std::vector<Perf>> perf_func_emb_wall_time(const CostModel& cost_model,
                                                  const EmbWallTimeParameters& parameters);

}  // namespace plimsoll::embedding
#pragma GCC visibility pop
