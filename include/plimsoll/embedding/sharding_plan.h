// The decision alone: which table is cut how, and which rank holds which shard. Checkable without
// the search that made it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "plimsoll/embedding/model.h"
#include "plimsoll/embedding/option_set.h"
#include "plimsoll/embedding/types.h"
#include "plimsoll/topology/topology.h"

#pragma GCC visibility push(default)
namespace plimsoll::embedding {

// `count` consecutive shards on the ranks first, first + 1, ...
struct RankRun {
  std::int32_t first = 0;
  std::int32_t count = 1;
  bool operator==(const RankRun&) const = default;
};

// Size and place of `count` shards in shard order; the i-th starts at row row + i * row_stride.
struct ShardSizeRun {
  std::int64_t count = 1;
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::int64_t row = 0;
  std::int64_t column = 0;
  std::int64_t row_stride = 0;
  bool operator==(const ShardSizeRun&) const = default;
};

struct TableSharding {
  std::string module_path;
  std::string table;
  ShardingType sharding_type = ShardingType::kTableWise;
  ComputeKernel compute_kernel = ComputeKernel::kFused;
  std::vector<RankRun> ranks;        // one rank per shard, in shard order
  std::vector<ShardSizeRun> shards;  // all shards in shard order; for data_parallel the replicas
  // Passed through from the constraints.
  std::optional<CacheParams> cache_params;
  std::optional<bool> enforce_hbm;
  std::optional<bool> stochastic_rounding;
  std::optional<BoundsCheckMode> bounds_check_mode;
  std::optional<DataType> output_dtype;
  std::optional<KeyValueParams> key_value_params;
  std::optional<DynamicEmbedding> dynamic_embedding;  // the table's, with what the plan decides

  std::string fqn() const { return table_fqn(module_path, table); }
  std::int64_t num_shards() const;
  bool operator==(const TableSharding&) const = default;
};

struct ShardingPlan {
  int world_size = 1;
  int local_world_size = 1;
  topology::ComputeDevice compute_device = topology::ComputeDevice::kCuda;
  std::vector<TableSharding> tables;  // plan order

  // The tables of one module, in plan order; empty: the plan has no such module.
  std::vector<TableSharding> plan_for_module(std::string_view module_path) const;
  bool operator==(const ShardingPlan&) const = default;
};

// One shard after another, as the reference lists them.
struct PlacedShard {
  std::int64_t rows = 0, columns = 0, row = 0, column = 0;
  std::int32_t rank = -1;
};
std::vector<PlacedShard> expand_shards(const TableSharding& sharding);
// Values that two shards of one table have in common.
std::int64_t shared_values(const PlacedShard& a, const PlacedShard& b);

// "rank:3/cuda:3", "rank:3/cpu".
std::string placement_text(const ShardingPlan& plan, std::int32_t rank);

// The printed form of the reference's tutorial: per module a table of types, kernels and ranks and
// a table of shards.
std::string print_plan(const ShardingPlan& plan);

}  // namespace plimsoll::embedding
#pragma GCC visibility pop
