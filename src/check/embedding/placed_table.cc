// Ranks and shards side by side.
//
// A plan lists runs of ranks and runs of shard sizes, each in shard order; cut where either ends,
// they become blocks of equal shards on consecutive ranks. Numbers in a foreign plan may be
// anything, so places are computed in 128 bits and ranks beyond the machine are cut off before
// anything is expanded.

#include <fmt/format.h>

#include <algorithm>

#include "check/embedding/rules.h"
#include "plimsoll/core/units.h"

namespace plimsoll::check {
namespace {

// A block whose numbers have not been judged yet.
struct RawBlock {
  std::int64_t count;
  std::int64_t first_rank;
  std::int64_t rows, columns, column, row_stride;
  Int128 row;
};

std::vector<RawBlock> pair_runs(const embedding::TableSharding& sharding) {
  std::vector<RawBlock> blocks;
  std::size_t r = 0, s = 0;
  std::int64_t ranks_used = 0, shards_used = 0;
  while (r < sharding.ranks.size() && s < sharding.shards.size()) {
    const embedding::RankRun& ranks = sharding.ranks[r];
    const embedding::ShardSizeRun& shards = sharding.shards[s];
    const std::int64_t count = std::min(ranks.count - ranks_used, shards.count - shards_used);
    if (count > 0) {
      blocks.push_back({count, ranks.first + ranks_used, shards.rows, shards.columns, shards.column,
                        shards.row_stride, shards.row + Int128{shards_used} * shards.row_stride});
      ranks_used += count;
      shards_used += count;
    }
    if (ranks_used >= ranks.count) ++r, ranks_used = 0;
    if (shards_used >= shards.count) ++s, shards_used = 0;
  }
  return blocks;
}

template <class Runs>
std::optional<std::int64_t> sum_counts(const Runs& runs) {
  std::int64_t sum = 0;
  for (const auto& run : runs) {
    if (run.count < 1 || __builtin_add_overflow(sum, std::int64_t{run.count}, &sum)) return {};
  }
  return sum;
}

bool check_counts(const TableCase& table, Findings& findings) {
  const auto num_ranks = sum_counts(table.sharding->ranks);
  const auto num_shards = sum_counts(table.sharding->shards);
  if (!num_ranks || !num_shards) {
    findings.add(FindingCode::kWrongShardCount, table.fqn, std::nullopt,
                 "runs of at least one shard", "a run of none or far too many",
                 "a run of shards or ranks has an impossible length");
    return false;
  }
  if (*num_ranks != *num_shards) {
    findings.add(
        FindingCode::kWrongShardCount, table.fqn, std::nullopt,
        fmt::format("{} ranks", *num_shards), fmt::format("{} ranks", *num_ranks),
        fmt::format("{} shards on {} ranks: one rank a shard is needed", *num_shards, *num_ranks));
    return false;
  }
  return true;
}

// The part of the block on ranks 0..world_size-1; `first_bad` becomes a rank beyond, if any.
RawBlock cut_to_machine(RawBlock block, std::int64_t world_size,
                        std::optional<std::int64_t>& first_bad) {
  const std::int64_t begin = block.first_rank, end = block.first_rank + block.count;
  const std::int64_t kept_begin = std::clamp<std::int64_t>(begin, 0, world_size);
  const std::int64_t kept_end = std::clamp<std::int64_t>(end, kept_begin, world_size);
  if (kept_end - kept_begin < end - begin && !first_bad) {
    first_bad = kept_begin > begin || kept_begin == kept_end ? begin : kept_end;
  }
  block.row += Int128{kept_begin - begin} * block.row_stride;
  block.first_rank = kept_begin;
  block.count = kept_end - kept_begin;
  return block;
}

bool is_inside(const TableCase& table, const RawBlock& block, std::int64_t i) {
  const Int128 row = block.row + Int128{i} * block.row_stride;
  return block.rows >= 0 && block.columns >= 1 && block.column >= 0 && row >= 0 &&
         row + block.rows <= table.rows() &&
         Int128{block.column} + block.columns <= table.columns();
}

ShardBlock part_of(const RawBlock& block, std::int64_t begin, std::int64_t count) {
  return {count,
          static_cast<std::int32_t>(block.first_rank + begin),
          block.rows,
          block.columns,
          static_cast<std::int64_t>(block.row + Int128{begin} * block.row_stride),
          block.column,
          block.row_stride};
}

}  // namespace

PlacedTable place_shards(const TableCase& table, Findings& findings) {
  PlacedTable placed;
  placed.ranks_are_sound = check_counts(table, findings);

  std::optional<std::int64_t> bad_rank;
  std::optional<ShardBlock> bad_shard;
  std::int64_t num_bad_shards = 0;
  for (const RawBlock& listed : pair_runs(*table.sharding)) {
    const RawBlock block = cut_to_machine(listed, table.topology->world_size, bad_rank);
    if (block.count == 0) continue;
    // Places are linear in i: with both ends inside, all shards are.
    if (is_inside(table, block, 0) && is_inside(table, block, block.count - 1)) {
      placed.blocks.push_back(part_of(block, 0, block.count));
      continue;
    }
    for (std::int64_t i = 0; i < block.count; ++i) {
      if (is_inside(table, block, i)) {
        placed.blocks.push_back(part_of(block, i, 1));
      } else {
        if (!bad_shard) bad_shard = part_of(block, i, 1);
        ++num_bad_shards;
      }
    }
  }

  if (bad_rank) {
    placed.ranks_are_sound = false;
    findings.add(FindingCode::kRankOutOfRange, table.fqn, static_cast<int>(*bad_rank),
                 fmt::format("0 to {}", table.topology->world_size - 1),
                 fmt::format("{}", *bad_rank), fmt::format("rank {} does not exist", *bad_rank));
  }
  if (bad_shard) {
    placed.shapes_are_sound = false;
    findings.add(FindingCode::kShardOutOfTable, table.fqn, bad_shard->first_rank,
                 fmt::format("within {} x {}", table.rows(), table.columns()),
                 fmt::format("{} x {} at ({}, {})", bad_shard->rows, bad_shard->columns,
                             bad_shard->row, bad_shard->column),
                 fmt::format("{} shard(s) do not lie inside the table, the first on rank {}",
                             num_bad_shards, bad_shard->first_rank));
  }
  return placed;
}

}  // namespace plimsoll::check
