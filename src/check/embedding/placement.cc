// Do cuts and ranks suit the sharding type?
//
// Cuts: column cuts keep all rows, row cuts all columns, and the shards of a column block of
// grid_shard one width. Ranks: data_parallel and row_wise: one shard on every rank. table_wise:
// one shard. table_row_wise: one on every rank of one group of hosts. grid_shard: the same for
// every column block, each in a group of its own choice. column_wise and table_column_wise: any
// ranks, repeats included, except for key_value columns. Groups are consecutive slices of G ranks;
// ranks left over belong to none.

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "check/embedding/rules.h"

namespace plimsoll::check {
namespace {

using embedding::ShardingType;

std::vector<std::int32_t> ranks_of(const PlacedTable& placed) {
  std::vector<std::int32_t> ranks;
  for (const ShardBlock& block : placed.blocks) {
    for (std::int64_t i = 0; i < block.count; ++i) {
      ranks.push_back(block.first_rank + static_cast<std::int32_t>(i));
    }
  }
  return ranks;
}

// The group of hosts that holds the rank, -1 for a left-over rank.
int group_of(const topology::Topology& topology, std::int32_t rank) {
  const int group = rank / topology.group_size();
  return group < topology.num_groups() ? group : -1;
}

void check_count(const TableCase& table, std::int64_t expected, std::int64_t found,
                 std::string_view where, Findings& findings) {
  if (expected == found) return;
  findings.add(FindingCode::kWrongShardCount, table.fqn, std::nullopt,
               fmt::format("{} shards", expected), fmt::format("{} shards", found),
               fmt::format("{} needs {} shard(s){}, not {}",
                           to_string(table.sharding->sharding_type), expected, where, found));
}

// Reports the first rank of `members` outside [first, first + count), the first inside that comes
// twice and the first that does not come; then, for row cuts, an order other than ascending.
void check_one_each(const TableCase& table, const std::vector<std::int32_t>& members,
                    std::int32_t first, std::int32_t count, Findings& findings) {
  const std::string expected =
      fmt::format("each of the ranks {} to {} once", first, first + count - 1);
  const auto type = to_string(table.sharding->sharding_type);
  std::vector<int> times(static_cast<std::size_t>(count));
  bool is_right = true;
  for (const std::int32_t rank : members) {
    if (rank < first || rank >= first + count) {
      findings.add(FindingCode::kWrongGroup, table.fqn, rank, expected,
                   fmt::format("rank {}", rank),
                   fmt::format("{} lies on ranks {} to {} here, not on rank {}", type, first,
                               first + count - 1, rank));
      return;
    }
    if (++times[static_cast<std::size_t>(rank - first)] == 2 && is_right) {
      is_right = false;
      findings.add(FindingCode::kWrongGroup, table.fqn, rank, expected,
                   fmt::format("rank {} more than once", rank),
                   fmt::format("{} puts one shard on a rank, and rank {} has several", type, rank));
    }
  }
  if (const auto missing = std::find(times.begin(), times.end(), 0); missing != times.end()) {
    const int rank = first + static_cast<int>(missing - times.begin());
    findings.add(FindingCode::kWrongGroup, table.fqn, rank, expected,
                 fmt::format("{} rank(s) without a shard", std::count(missing, times.end(), 0)),
                 fmt::format("{} needs a shard on every rank, and rank {} has none", type, rank));
    return;
  }
  if (!is_right || table.sharding->sharding_type == ShardingType::kDataParallel) return;
  for (std::size_t i = 0; i < members.size(); ++i) {
    const int natural = first + static_cast<int>(i);
    if (members[i] == natural) continue;
    findings.warn(FindingCode::kPermutedRanks, table.fqn, members[i],
                  fmt::format("the plan puts a {} shard on rank {}, the runtime on rank {}", type,
                              members[i], natural));
    return;
  }
}

// `members` on the ranks of one group, one each.
void check_one_group(const TableCase& table, const std::vector<std::int32_t>& members,
                     Findings& findings) {
  if (members.empty()) return;
  const int group_size = table.topology->group_size();
  const int group = group_of(*table.topology, members.front());
  if (group < 0) {
    findings.add(
        FindingCode::kWrongGroup, table.fqn, members.front(),
        fmt::format("one of {} host groups of {}", table.topology->num_groups(), group_size),
        fmt::format("rank {}", members.front()),
        fmt::format("rank {} belongs to no host group, and {} needs a whole one", members.front(),
                    to_string(table.sharding->sharding_type)));
    return;
  }
  check_one_each(table, members, group * group_size, group_size, findings);
}

// Coverage has been judged already; this says whether the pieces are those of the type.
void check_cut(const TableCase& table, const PlacedTable& placed, Findings& findings) {
  const ShardingType type = table.sharding->sharding_type;
  const bool keeps_rows =
      type == ShardingType::kColumnWise || type == ShardingType::kTableColumnWise;
  const bool keeps_columns = type == ShardingType::kRowWise || type == ShardingType::kTableRowWise;
  std::map<std::int64_t, std::int64_t> grid_widths;  // by first column
  for (const ShardBlock& block : placed.blocks) {
    std::int64_t rows = block.rows, columns = block.columns;  // as the type would have them
    if (keeps_rows) rows = table.rows();
    if (keeps_columns) columns = table.columns();
    if (type == ShardingType::kGridShard) {
      columns = grid_widths.try_emplace(block.column, block.columns).first->second;
    }
    if (rows == block.rows && columns == block.columns) continue;
    findings.add(
        FindingCode::kWrongCut, table.fqn, block.first_rank, fmt::format("{} x {}", rows, columns),
        fmt::format("{} x {}", block.rows, block.columns),
        fmt::format("{} cuts differently: the shard on rank {} is {} x {} instead of {} x {}",
                    to_string(type), block.first_rank, block.rows, block.columns, rows, columns));
    return;
  }
}

void check_grid(const TableCase& table, const PlacedTable& placed, Findings& findings) {
  std::map<std::int64_t, std::vector<std::int32_t>> ranks_by_column;  // in listed order
  for (const ShardBlock& block : placed.blocks) {
    for (std::int64_t i = 0; i < block.count; ++i) {
      ranks_by_column[block.column].push_back(block.first_rank + static_cast<std::int32_t>(i));
    }
  }
  for (const auto& [column, ranks] : ranks_by_column) {
    check_count(table, table.topology->group_size(), static_cast<std::int64_t>(ranks.size()),
                fmt::format(" in the block at column {}", column), findings);
    check_one_group(table, ranks, findings);
  }
}

void check_columns(const TableCase& table, std::vector<std::int32_t> ranks, Findings& findings) {
  const auto& sharding = *table.sharding;
  if (sharding.sharding_type == ShardingType::kColumnWise &&
      sharding.compute_kernel == embedding::ComputeKernel::kKeyValue &&
      table.cost_model->key_value_columns_on_distinct_ranks) {
    std::sort(ranks.begin(), ranks.end());
    const auto twin = std::adjacent_find(ranks.begin(), ranks.end());
    if (twin != ranks.end()) {
      findings.add(FindingCode::kColumnsShareRank, table.fqn, *twin, "a rank for each shard",
                   fmt::format("rank {} more than once", *twin),
                   fmt::format("column shards of kernel key_value need a rank each, and rank {} "
                               "has several",
                               *twin));
    }
  }
  if (sharding.sharding_type == ShardingType::kTableColumnWise) {
    const int group = group_of(*table.topology, ranks.front());
    for (const std::int32_t rank : ranks) {
      if (group >= 0 && group_of(*table.topology, rank) == group) continue;
      findings.warn(FindingCode::kColumnsAcrossHosts, table.fqn, rank,
                    fmt::format("table_column_wise on ranks {} and {}, which share no host group: "
                                "the runtime treats it as column_wise",
                                ranks.front(), rank));
      return;
    }
  }
}

}  // namespace

void check_placement(const TableCase& table, const PlacedTable& placed, Findings& findings) {
  if (!placed.is_sound()) return;  // whatever is lost there would be reported again here
  const std::vector<std::int32_t> ranks = ranks_of(placed);
  const auto num_shards = static_cast<std::int64_t>(ranks.size());
  const topology::Topology& topology = *table.topology;
  if (ranks.empty()) {
    findings.add(FindingCode::kWrongShardCount, table.fqn, std::nullopt, "at least one shard",
                 "0 shards", "the table has no shard");
    return;
  }
  check_cut(table, placed, findings);
  switch (table.sharding->sharding_type) {
    case ShardingType::kDataParallel:
    case ShardingType::kRowWise:
      check_count(table, topology.world_size, num_shards, ", one a rank", findings);
      check_one_each(table, ranks, 0, topology.world_size, findings);
      break;
    case ShardingType::kTableWise:
      check_count(table, 1, num_shards, "", findings);
      break;
    case ShardingType::kTableRowWise:
      check_count(table, topology.group_size(), num_shards, ", one a rank of a host group",
                  findings);
      check_one_group(table, ranks, findings);
      break;
    case ShardingType::kColumnWise:
    case ShardingType::kTableColumnWise:
      check_columns(table, ranks, findings);
      break;
    case ShardingType::kGridShard:
      check_grid(table, placed, findings);
      break;
  }
}

void check_colocation(const std::vector<TableCase>& cases, const std::vector<PlacedTable>& placed,
                      Findings& findings) {
  using embedding::ModuleKind;
  struct Home {
    std::int32_t rank;
    const std::string* table;
  };
  std::map<std::pair<const embedding::Module*, int>, Home> homes;  // looked up, never iterated
  for (std::size_t c = 0; c < cases.size(); ++c) {
    const TableCase& table = cases[c];
    const ModuleKind kind = table.module->kind;
    if (kind != ModuleKind::kEmbeddingTower && kind != ModuleKind::kEmbeddingTowerCollection) {
      continue;
    }
    const int tower = kind == ModuleKind::kEmbeddingTower ? 0 : table.table->tower.value_or(0);
    for (const std::int32_t rank : ranks_of(placed[c])) {
      const Home& home =
          homes.try_emplace({table.module, tower}, Home{rank, &table.fqn}).first->second;
      const int group = group_of(*table.topology, home.rank);
      if (group >= 0 && group_of(*table.topology, rank) == group) continue;
      findings.add(FindingCode::kColocationBroken, table.fqn, rank,
                   fmt::format("the host group of rank {}", home.rank),
                   fmt::format("rank {}", rank),
                   fmt::format("a tower lives on one host group, and this one holds {} on rank {} "
                               "and {} on rank {}",
                               *home.table, home.rank, table.fqn, rank));
      break;
    }
  }
}

}  // namespace plimsoll::check
