// How a table is cut into shards.
//
// Problem. Sizes and offsets of the shards of one table under one sharding type, as the reference
// cuts them. Method. Runs of equal row blocks, repeated by every column block. O(1) runs except for
// cuts in proportion to custom memory, O(W). Source:
// docs/mathematics/torchrec-planner.md#cutting-shards.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "embedding/model/sharder.h"
#include "plimsoll/core/checked.h"
#include "plimsoll/embedding/enumerator.h"

namespace plimsoll::embedding {
namespace {

constexpr std::int64_t kMinColumnWidth = 128;

// Appends shards below one another; equal neighbours become one run.
class RowRuns {
 public:
  RowRuns(std::int64_t columns, std::vector<ShardRun>& runs) : columns_(columns), runs_(runs) {}

  void append(std::int64_t count, std::int64_t rows) {
    if (count <= 0) return;
    if (!runs_.empty() && runs_.back().rows == rows) {
      runs_.back().count += count;
    } else {
      ShardRun run;
      run.count = count;
      run.rows = rows;
      run.columns = columns_;
      run.first_row = next_row_;
      run.row_stride = rows;
      runs_.push_back(run);
    }
    // Replicas all begin at row 0; how far they would reach below one another is not used.
    next_row_ = saturated_add(next_row_, saturated_multiply(count, rows));
  }

 private:
  std::int64_t columns_;
  std::int64_t next_row_ = 0;
  std::vector<ShardRun>& runs_;
};

// Blocks of ceil(rows / ranks); the rank after the last full block takes the rest, later ranks
// nothing.
Result<void> cut_evenly(std::int64_t rows, std::int64_t ranks, RowRuns& runs) {
  const auto block =
      static_cast<std::int64_t>(std::ceil(static_cast<double>(rows) / static_cast<double>(ranks)));
  if (block == 0) {
    return fail(ErrorCode::kZeroDivision, "", "a table without rows cannot be cut by rows",
                "give it rows, or constrain its sharding types");
  }
  const std::int64_t full = std::min(rows / block, ranks);
  runs.append(full, block);
  if (full < ranks) {
    runs.append(1, rows - block * full);
    runs.append(ranks - full - 1, 0);
  }
  return {};
}

void cut_buckets_evenly(std::int64_t buckets, std::int64_t bucket_rows, std::int64_t ranks,
                        RowRuns& runs) {
  const std::int64_t extra = buckets % ranks;
  runs.append(extra, (buckets / ranks + 1) * bucket_rows);
  runs.append(ranks - extra, buckets / ranks * bucket_rows);
}

// In proportion to the ranks' memory before any reservation; the last rank takes the rest.
void cut_by_memory(const std::vector<Bytes>& caps, std::int64_t buckets, std::int64_t bucket_rows,
                   std::int64_t rows, RowRuns& runs) {
  Int128 total = 0;
  for (const Bytes cap : caps) total += cap;
  std::int64_t taken = 0;
  for (std::size_t rank = 0; rank + 1 < caps.size(); ++rank) {
    const double share = static_cast<double>(caps[rank]) / static_cast<double>(total);
    const auto part = static_cast<std::int64_t>(static_cast<double>(buckets) * share) * bucket_rows;
    runs.append(1, part);
    taken += part;
  }
  runs.append(1, rows - taken);
}

std::vector<Bytes> custom_caps(const CostModel& cost_model, const Topology& topology) {
  std::vector<Bytes> caps;
  const bool in_ddr = memory_device(cost_model, topology.compute_device) == ComputeDevice::kCpu;
  if (in_ddr && topology.has_custom_ddr) {
    for (const Storage& device : topology.devices) caps.push_back(device.ddr);
  } else if (!in_ddr && topology.has_custom_hbm) {
    for (const Storage& device : topology.devices) caps.push_back(device.hbm);
  }
  return caps;
}

// The least divisor of `number` that is at least `least`; both > 0, least <= number. Beyond the
// root divisors are the number over small ones: O(sqrt(number)) time.
std::int64_t least_divisor(std::int64_t number, std::int64_t least) {
  std::int64_t divisor = least;
  for (; divisor <= number / divisor; ++divisor) {
    if (number % divisor == 0) return divisor;
  }
  std::int64_t part = number / divisor;
  while (number % part != 0) --part;
  return number / part;
}

Result<void> cut_row_wise(const CostModel& cost_model, const Topology& topology, std::int64_t rows,
                          std::optional<std::int64_t> num_buckets, RowRuns& runs) {
  const std::int64_t ranks = topology.world_size;
  const std::vector<Bytes> caps = custom_caps(cost_model, topology);
  if (!num_buckets && caps.empty()) return cut_evenly(rows, ranks, runs);
  const std::int64_t buckets = num_buckets.value_or(rows);
  if (num_buckets) {
    if (rows % buckets != 0) {
      return fail(ErrorCode::kValue, "",
                  fmt::format("{} rows are not divisible by {} buckets", rows, buckets),
                  "choose a number of buckets that divides the rows");
    }
    if (cost_model.fewer_buckets_than_ranks_is_error && buckets < ranks) {
      return fail(
          ErrorCode::kValue, "",
          fmt::format("Number of buckets ({}) must be >= the number of ranks ({})", buckets, ranks),
          "give at least one bucket a rank");
    }
  }
  const std::int64_t bucket_rows = num_buckets ? rows / buckets : 1;
  if (caps.empty()) {
    cut_buckets_evenly(buckets, bucket_rows, ranks, runs);
    return {};
  }
  if (std::all_of(caps.begin(), caps.end(), [](Bytes cap) { return cap == 0; })) {
    return fail(ErrorCode::kZeroDivision, "", "no rank has memory to cut rows in proportion to",
                "give some rank a capacity above 0");
  }
  cut_by_memory(caps, buckets, bucket_rows, rows, runs);
  return {};
}

}  // namespace

Result<std::optional<std::int64_t>> find_num_buckets(const CostModel& cost_model,
                                                     const Topology& topology, const Module& module,
                                                     const Table& table) {
  if (!cost_model.buckets) return std::nullopt;
  if (module.kind == ModuleKind::kEmbeddingBagCollection ||
      module.kind == ModuleKind::kEmbeddingCollection) {
    return table.use_virtual_table ? table.total_num_buckets : std::nullopt;
  }
  const bool is_managed = module.kind == ModuleKind::kManagedCollisionEmbeddingBagCollection ||
                          module.kind == ModuleKind::kManagedCollisionEmbeddingCollection;
  if (!is_managed || !cost_model.managed_collision_buckets) return std::nullopt;
  const std::int64_t buckets = table.total_num_buckets.value_or(1);  // a collision module's default
  if (buckets % topology.world_size != 0) {
    return fail(ErrorCode::kValue, "",
                fmt::format("Table '{}' has uneven buckets per rank ({} buckets across {} ranks), "
                            "but uneven-bucket planning is disabled. Enable JK "
                            "'pytorch/torchrec:enable_uneven_buckets_mpzch' to shard tables with "
                            "uneven buckets per rank.",
                            table.name, buckets, topology.world_size),
                "give its collision module a multiple of the number of ranks as buckets");
  }
  return std::nullopt;  // whole buckets on every rank: rows are cut as without any
}

std::int64_t column_width(std::int64_t columns, std::optional<std::int64_t> min_partition) {
  const std::int64_t smallest =
      min_partition && *min_partition != 0 ? *min_partition : kMinColumnWidth;
  if (columns % 4 != 0 || smallest >= columns) return columns;
  return 4 * least_divisor(columns / 4, (smallest + 3) / 4);
}

Result<Cut> cut_table(const CostModel& cost_model, const Topology& topology, ShardingType type,
                      const TableShape& shape, std::optional<std::int64_t> min_partition,
                      std::optional<std::int64_t> num_buckets) {
  Cut cut;
  const std::int64_t width =
      is_column_cut(type) ? column_width(shape.columns, min_partition) : shape.columns;
  const auto column_blocks = checked_narrow<std::int32_t>(shape.columns / width);
  if (!column_blocks) {
    return fail(
        ErrorCode::kOverflow, "",
        fmt::format("{} column shards of one table are more than 2^31 - 1", shape.columns / width),
        "raise min_partition, or leave the types out that cut columns");
  }
  cut.column_blocks = *column_blocks;
  RowRuns runs(width, cut.runs);
  switch (type) {
    case ShardingType::kDataParallel:
      runs.append(topology.world_size, shape.rows);
      cut.runs.front().row_stride = 0;
      break;
    case ShardingType::kTableWise:
    case ShardingType::kColumnWise:
    case ShardingType::kTableColumnWise:
      runs.append(1, shape.rows);
      break;
    case ShardingType::kRowWise:
      PLIMSOLL_RETURN_IF_ERROR(cut_row_wise(cost_model, topology, shape.rows, num_buckets, runs));
      break;
    case ShardingType::kTableRowWise:
    case ShardingType::kGridShard:
      PLIMSOLL_RETURN_IF_ERROR(cut_evenly(shape.rows, topology.group_size(), runs));
      break;
  }
  return cut;
}

}  // namespace plimsoll::embedding
