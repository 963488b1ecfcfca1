// The plan that is written, and its printed form.
//
// Problem. Unfold a plan's runs to one shard after another, and print it as TorchRec prints plans.
// Method. Tables are grouped by module in order of first appearance; every module prints a table of
// its parameters and one of its shards, each column as wide as its widest cell. O(shards) time and
// memory.
// Promises. The text equals the reference's, character for character.
// Source: docs/mathematics/torchrec-planner.md#the-plan.

#include "plimsoll/embedding/sharding_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>

#include "core/python_text.h"
#include "core/text_columns.h"
#include "plimsoll/core/checked.h"

namespace plimsoll::embedding {
namespace {

using Row = std::vector<std::string>;

std::int64_t overlap(std::int64_t a, std::int64_t a_size, std::int64_t b, std::int64_t b_size) {
  const Int128 end = std::min(Int128{a} + a_size, Int128{b} + b_size);
  const Int128 length = end - std::max(a, b);
  return length > 0 ? static_cast<std::int64_t>(length) : 0;
}

std::string join(const Row& cells) { return fmt::format("{}", fmt::join(cells, " | ")); }

// Header, rule and rows. Without rows the reference knows no columns: header and rule are empty
// lines then (a module whose tables are all data_parallel has no shards to print).
std::string print_table(const Row& headers, const std::vector<Row>& rows) {
  if (rows.empty()) return "\n";
  std::vector<Row> all{headers};
  all.insert(all.end(), rows.begin(), rows.end());
  const std::vector<std::size_t> widths = column_widths(all);

  Row header, rule;
  for (std::size_t i = 0; i < widths.size(); ++i) {
    header.push_back(python_center(headers[i], widths[i]));
    rule.push_back(std::string(widths[i], '-'));
  }
  std::string text = join(header) + '\n' + join(rule);
  for (Row row : rows) {
    for (std::size_t i = 0; i < widths.size(); ++i) row[i] = pad_right(row[i], widths[i]);
    text += '\n';
    text += join(row);
  }
  return text;
}

std::string ranks_text(const std::vector<RankRun>& runs) {
  std::vector<std::int64_t> ranks;
  for (const RankRun& run : runs) {
    for (std::int32_t i = 0; i < run.count; ++i) ranks.push_back(run.first + i);
  }
  return python_list(ranks);
}

std::string print_module(const ShardingPlan& plan, const std::string& path,
                         const std::vector<const TableSharding*>& tables) {
  std::vector<Row> parameters, shards;
  for (const TableSharding* table : tables) {
    parameters.push_back({table->table, std::string(to_string(table->sharding_type)),
                          std::string(to_string(table->compute_kernel)), ranks_text(table->ranks)});
    // Replicas have no sharding spec.
    if (table->sharding_type == ShardingType::kDataParallel) continue;
    for (const PlacedShard& shard : expand_shards(*table)) {
      shards.push_back({table->table, python_list({shard.row, shard.column}),
                        python_list({shard.rows, shard.columns}),
                        placement_text(plan, shard.rank)});
    }
  }
  return "module: " + path + "\n\n" +
         print_table({"param", "sharding type", "compute kernel", "ranks"}, parameters) + "\n\n" +
         print_table({"param", "shard offsets", "shard sizes", "placement"}, shards);
}

}  // namespace

std::vector<TableSharding> ShardingPlan::plan_for_module(std::string_view module_path) const {
  std::vector<TableSharding> of_module;
  std::copy_if(
      tables.begin(), tables.end(), std::back_inserter(of_module),
      [module_path](const TableSharding& table) { return table.module_path == module_path; });
  return of_module;
}

std::int64_t TableSharding::num_shards() const {
  std::int64_t count = 0;
  for (const ShardSizeRun& run : shards) count += run.count;
  return count;
}

std::vector<PlacedShard> expand_shards(const TableSharding& sharding) {
  std::vector<PlacedShard> placed;
  placed.reserve(static_cast<std::size_t>(sharding.num_shards()));
  for (const ShardSizeRun& run : sharding.shards) {
    for (std::int64_t i = 0; i < run.count; ++i) {
      placed.push_back({run.rows, run.columns, run.row + i * run.row_stride, run.column, -1});
    }
  }
  std::size_t next = 0;
  for (const RankRun& run : sharding.ranks) {
    for (std::int32_t i = 0; i < run.count && next < placed.size(); ++i) {
      placed[next++].rank = run.first + i;
    }
  }
  return placed;
}

std::int64_t shared_values(const PlacedShard& a, const PlacedShard& b) {
  return saturated_multiply(overlap(a.row, a.rows, b.row, b.rows),
                            overlap(a.column, a.columns, b.column, b.columns));
}

std::string placement_text(const ShardingPlan& plan, std::int32_t rank) {
  const std::string_view device = topology::to_string(plan.compute_device);
  if (plan.compute_device == topology::ComputeDevice::kCpu) {
    return fmt::format("rank:{}/{}", rank, device);
  }
  return fmt::format("rank:{}/{}:{}", rank, device, rank % plan.local_world_size);
}

std::string print_plan(const ShardingPlan& plan) {
  struct ModuleTables {
    const std::string* path;
    std::vector<const TableSharding*> tables;
  };
  std::vector<ModuleTables> modules;
  std::map<std::string_view, std::size_t> index;
  for (const TableSharding& table : plan.tables) {
    const auto [found, is_new] = index.try_emplace(table.module_path, modules.size());
    if (is_new) modules.push_back({&table.module_path, {}});
    modules[found->second].tables.push_back(&table);
  }
  std::string text;
  for (const ModuleTables& module : modules) {
    if (!text.empty()) text += "\n\n";
    text += print_module(plan, *module.path, module.tables);
  }
  return text;
}

}  // namespace plimsoll::embedding
