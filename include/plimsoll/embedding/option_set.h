// The options of every table: the only input of every embedding search.
//
// An option's shards are runs of equal shards, never one object per rank: row-wise on 4,096 ranks
// is two runs. Shards are ordered column block by column block, and within a block by rows; every
// column block of an option repeats the same runs. Arrays are flat, an option names ranges in them.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "plimsoll/core/result.h"
#include "plimsoll/embedding/model.h"
#include "plimsoll/embedding/types.h"
#include "plimsoll/topology/storage.h"

#pragma GCC visibility push(default)
namespace plimsoll::embedding {

using topology::Storage;

// Milliseconds by component. input_dist_comms is recorded from release 1.5 on and never part of the
// total.
struct Perf {
  double fwd_compute = 0;
  double fwd_comms = 0;
  double bwd_compute = 0;
  double bwd_comms = 0;
  double prefetch_compute = 0;
  double input_dist_comms = 0;

  // In the reference's order of additions; parity depends on it.
  double total() const {
    return fwd_compute + bwd_compute + fwd_comms + bwd_comms + prefetch_compute;
  }
  Perf& operator+=(const Perf& other) {
    fwd_compute += other.fwd_compute;
    fwd_comms += other.fwd_comms;
    bwd_compute += other.bwd_compute;
    bwd_comms += other.bwd_comms;
    prefetch_compute += other.prefetch_compute;
    input_dist_comms += other.input_dist_comms;
    return *this;
  }
  bool operator==(const Perf&) const = default;
};

// The same where kernels run `speed` times as fast; collectives take as long as they take.
inline Perf at_speed(const Perf& perf, double speed) {
  Perf result = perf;
  result.fwd_compute /= speed;
  result.bwd_compute /= speed;
  result.prefetch_compute /= speed;
  return result;
}

// `count` equal shards on consecutive positions of a row cut. The i-th starts at row first_row + i
// * row_stride.
struct ShardRun {
  std::int64_t count = 0;       // >= 1
  std::int64_t rows = 0;        // >= 0
  std::int64_t columns = 0;     // >= 1
  std::int64_t first_row = 0;   // offset of the first shard of the run, in the first column block
  std::int64_t row_stride = 0;  // rows for row cuts, 0 for replicas (data_parallel)
  Storage storage;              // of one shard
  Perf perf;                    // of one shard
  bool operator==(const ShardRun&) const = default;
};

// View of the runs of one option; totals are closed forms and exact.
struct ShardRuns {
  std::span<const ShardRun> runs;  // of one column block, rows ascending
  std::int64_t column_blocks = 1;  // >= 1; block b starts at column b * columns

  std::int64_t shards_per_block() const {
    std::int64_t count = 0;
    for (const ShardRun& run : runs) count += run.count;
    return count;
  }
  std::int64_t num_shards() const { return column_blocks * shards_per_block(); }
  // Sum over all shards. Exact for options of the enumerator, which refuses those whose total does
  // not fit in 64 bits; others may stop at their end (storage.h).
  Storage total_storage() const {
    Storage total;
    for (const ShardRun& run : runs) total += run.storage.times(run.count).times(column_blocks);
    return total;
  }
  Storage max_storage() const;  // componentwise
  // Component sums over all shards, added shard after shard as the reference does (not a product:
  // rounding differs).
  double total_perf() const;
  double max_perf() const;  // largest shard total
};

struct Option {
  std::int32_t table = 0;  // index into OptionSet::tables
  ShardingType sharding_type = ShardingType::kTableWise;
  ComputeKernel compute_kernel = ComputeKernel::kFused;
  PartitionBy partition_by = PartitionBy::kDevice;
  std::int64_t first_run = 0;  // into OptionSet::runs
  std::int32_t num_runs = 0;
  std::int32_t column_blocks = 1;
  std::optional<double> cache_load_factor;                     // of the option's own cache_params
  std::optional<DynamicEmbeddingMode> dynamic_embedding_mode;  // of dynamic embedding tables
  bool operator==(const Option&) const = default;
};

// One table of the search space: what all its options share.
struct TableOptions {
  std::string fqn;
  std::string name;
  std::string module_path;
  std::string dependency;         // co-location group; empty: none
  std::int32_t module = -1;       // index into Model::modules, -1 where there is no model (a dump)
  std::int32_t table = -1;        // index into Module::tables
  std::int32_t first_option = 0;  // options of a table are contiguous, in search-space order
  std::int32_t num_options = 0;
  TableShape shape;
  bool is_pooled = true;
  bool is_weighted = false;
  std::vector<double> pooling_factors;
  bool operator==(const TableOptions&) const = default;
};

struct OptionSet {
  int world_size = 1;
  int local_world_size = 1;
  int group_size = 1;
  std::vector<TableOptions> tables;  // search-space order
  std::vector<Option> options;       // tables in order, types within a table, kernels within a type
  std::vector<ShardRun> runs;
  std::vector<double> rank_speeds;  // [world_size] Topology::device_speeds; empty: all 1
  // As the release has it (CostModel); true where that is not known.
  bool key_value_columns_on_distinct_ranks = true;
  bool buckets = true;

  // May no two shards of the option share a rank? Of column_wise with kernel key_value alone, not
  // of table_column_wise nor of virtual tables.
  bool wants_distinct_ranks(const Option& option) const {
    return key_value_columns_on_distinct_ranks && option.column_blocks > 1 &&
           option.sharding_type == ShardingType::kColumnWise &&
           option.compute_kernel == ComputeKernel::kKeyValue;
  }

  // What a shard of the run takes on the rank.
  Perf perf_on(const ShardRun& run, std::size_t rank) const {
    return rank_speeds.empty() ? run.perf : at_speed(run.perf, rank_speeds[rank]);
  }
  ShardRuns shards(const Option& option) const {
    return {std::span(runs).subspan(static_cast<std::size_t>(option.first_run),
                                    static_cast<std::size_t>(option.num_runs)),
            option.column_blocks};
  }
  ShardRuns shards(std::int32_t option) const {
    return shards(options[static_cast<std::size_t>(option)]);
  }
};

}  // namespace plimsoll::embedding
#pragma GCC visibility pop
