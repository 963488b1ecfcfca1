#include "plimsoll/embedding/partitioner.h"

#include <fmt/format.h>

#include <array>
#include <vector>

#include "core/suggest.h"
#include "embedding/torchrec/reference_text.h"

namespace plimsoll::embedding {
namespace {

struct ShardPlace {
  ShardRun run;
  std::int64_t row = 0;
  std::int64_t column = 0;
};

// The shard at a position in shard order.
ShardPlace find_shard(const OptionSet& options, std::int32_t option, std::int64_t shard) {
  const ShardRuns shards = options.shards(option);
  const std::int64_t per_block = shards.shards_per_block();
  std::int64_t position = shard % per_block;
  for (const ShardRun& run : shards.runs) {
    if (position < run.count) {
      return {run, run.first_row + position * run.row_stride, shard / per_block * run.columns};
    }
    position -= run.count;
  }
  return {};
}

std::string shard_text(const CostModel& cost_model, const OptionSet& options, std::int32_t option,
                       std::int64_t shard) {
  const ShardPlace place = find_shard(options, option, shard);
  return fmt::format("Shard size: ({}, {}), offset: ({}, {}), storage: {}, perf: {}, rank: None",
                     place.run.rows, place.run.columns, place.row, place.column,
                     storage_repr(cost_model, place.run.storage),
                     perf_repr(cost_model, place.run.perf));
}

std::string group_text(const PartitionFailure& failure, const CostModel& cost_model) {
  std::string members;
  for (std::int64_t i = 0; i < failure.num_options; ++i) {
    if (i > 0) members += ", ";
    members += "<torchrec.distributed.planner.types.ShardingOption object>";
  }
  return fmt::format(
      "ShardingOptionGroup(sharding_options=[{}], storage_sum={}, perf_sum={}, param_count={})",
      members, storage_repr(cost_model, failure.group_storage), python_repr(failure.group_perf),
      failure.param_count);
}

std::string failure_text(const PartitionFailure& failure, const CostModel& cost_model,
                         const OptionSet& options) {
  using Reason = PartitionFailure::Reason;
  const bool has_option = failure.option >= 0;
  const ShardRuns shards = has_option ? options.shards(failure.option) : ShardRuns{};
  const auto table_name = [&] {
    const Option& option = options.options[static_cast<std::size_t>(failure.option)];
    return options.tables[static_cast<std::size_t>(option.table)].name;
  };
  switch (failure.reason) {
    case Reason::kNoRankForShard:
      return fmt::format(
          "Device partition failed. Couldn't find a rank for shard {} of table {}, largest device "
          "storage: {}",
          shard_text(cost_model, options, failure.option, failure.shard), table_name(),
          storage_repr(cost_model, failure.room));
    case Reason::kUniformDoesNotFit:
      return fmt::format(
          "Shard of size {} bytes does not fit on any rank. Device memory cap: {}.",
          storage_repr(cost_model, find_shard(options, failure.option, failure.shard).run.storage),
          storage_repr(cost_model, failure.room));
    case Reason::kUniformShardCount:
      return fmt::format(
          "For a uniform partition, the number of shards ({}) must equal the number of devices "
          "({})",
          shards.num_shards(), failure.num_devices);
    case Reason::kNoHostForGroup:
      return "can't find a host for sharding option group " + group_text(failure, cost_model);
    case Reason::kNoHostsForGrid:
      return "can't find hosts for sharding option group " + group_text(failure, cost_model);
    case Reason::kGridShardCount:
      return fmt::format(
          "Grid Sharding is unable to place shards equally over hosts without overlapping. "
          "num_shards={} % local_world_size={} != 0",
          shards.num_shards(), failure.num_devices);
    case Reason::kGroupOfGrids:
      return fmt::format("Unexpected length for sharding options: {}. Length needs to be 1",
                         failure.num_options);
    case Reason::kTooManyColumnShards:
      return fmt::format("COLUMN_WISE sharding requires num_shards ({}) <= num_devices ({})",
                         shards.num_shards(), failure.num_devices);
    case Reason::kNoRankForColumnShard:
      return fmt::format(
          "COLUMN_WISE partition failed. Couldn't find a suitable rank for shard {} of table {}. "
          "Storage required: {}, available devices: {}",
          shard_text(cost_model, options, failure.option, failure.shard), table_name(),
          storage_repr(cost_model, find_shard(options, failure.option, failure.shard).run.storage),
          failure.num_devices);
    case Reason::kCustom:
      return failure.message;
  }
  return failure.message;
}

const std::array<std::string, 3>& names() {
  static const std::array<std::string, 3> values{"greedy_perf", "greedy_perf_by_perf",
                                                 "memory_balanced"};
  return values;
}

}  // namespace

Error describe(const PartitionFailure& failure, const CostModel& cost_model,
               const OptionSet& options) {
  Error error;
  error.code = ErrorCode::kPlanner;
  error.kind = "partition";
  error.message = failure_text(failure, cost_model, options);
  if (failure.option >= 0) {
    const Option& option = options.options[static_cast<std::size_t>(failure.option)];
    error.place = "table " + options.tables[static_cast<std::size_t>(option.table)].fqn;
    if (failure.rank >= 0) error.place += fmt::format(", rank {}", failure.rank);
  }
  return error;
}

Result<std::unique_ptr<Partitioner>> make_partitioner(std::string_view name,
                                                      const CostModel& cost_model,
                                                      bool balance_modules) {
  if (name == "greedy_perf" || name == "greedy_perf_by_perf") {
    GreedyPerfOptions options;
    options.sort_by = name == "greedy_perf" ? SortBy::kStorage : SortBy::kPerf;
    options.balance_modules = balance_modules;
    return make_greedy_perf_partitioner(cost_model, options);
  }
  if (name == "memory_balanced") {
    MemoryBalancedOptions options;
    options.balance_modules = balance_modules;
    return make_memory_balanced_partitioner(cost_model, options);
  }
  return fail(ErrorCode::kNotFound, "partitioner", "no partitioner '" + std::string(name) + "'",
              suggest(name, partitioner_names()));
}

std::span<const std::string> partitioner_names() { return names(); }

}  // namespace plimsoll::embedding
