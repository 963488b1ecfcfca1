#include "embedding/report/stats_tables.h"

#include <algorithm>
#include <charconv>
#include <map>

#include "core/text_columns.h"
#include "embedding/model/sharder.h"
#include "embedding/report/stats_numbers.h"

namespace plimsoll::embedding {
namespace {

using TableRow = std::vector<std::string>;

std::string one_digit(double value) {
  if (value >= 1) return fmt::format("{:.0f}", value);
  const std::string digit = fmt::format("{:.1g}", value);
  double read = 0;
  std::from_chars(digit.data(), digit.data() + digit.size(), read);
  return fmt::format("{:g}", read);
}

std::string perf_text(const Perf& perf) {
  TableRow parts;
  for (double Perf::*component : kPerfComponents) parts.push_back(one_digit(perf.*component));
  return fmt::format("{} ({})", rounded(perf.total()), fmt::join(parts, ","));
}

// "512 * 3, 256": the last run is written without blanks.
std::string batch_sizes_text(const std::vector<std::int64_t>& sizes) {
  std::string text;
  for (std::size_t i = 0; i < sizes.size();) {
    std::size_t end = i;
    while (end < sizes.size() && sizes[end] == sizes[i]) ++end;
    if (i > 0) text += ", ";
    text += std::to_string(sizes[i]);
    if (end - i > 1) text += (end < sizes.size() ? " * " : "*") + std::to_string(end - i);
    i = end;
  }
  return text;
}

// Cells right-aligned in columns three wider than their longest.
std::vector<std::string> format_table(const std::vector<TableRow>& rows) {
  const std::vector<std::size_t> widths = column_widths(rows);
  std::vector<std::string> lines;
  for (const TableRow& row : rows) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i) line += pad_left(row[i], widths[i] + 3);
    lines.push_back(std::move(line));
  }
  return lines;
}

// A header cell with the rule below it.
struct Column {
  std::string_view title;
  std::size_t dashes;
};

std::vector<TableRow> header_rows(const std::vector<Column>& columns) {
  TableRow titles, rules;
  for (const Column& column : columns) {
    titles.emplace_back(column.title);
    rules.emplace_back(column.dashes, '-');
  }
  return {titles, rules};
}

std::string cache_load_factor_text(const PlacedOption& table) {
  if (table.option->compute_kernel != ComputeKernel::kFusedUvmCaching) return "None";
  const std::optional<double> factor = table.option->cache_load_factor
                                           ? table.option->cache_load_factor
                                           : table.profile->sharder.cache_load_factor;
  return factor ? python_repr(*factor) : "None";
}

TableRow parameter_row(const CostModel& cost_model, const StatsFigures& figures,
                       const PlacedOption& table) {
  const TableProfile& profile = *table.profile;
  const ShardingType type = table.option->sharding_type;

  Perf perf;
  for_each_placed_shard(table, [&](const ShardRun& run, std::int32_t) { perf += run.perf; });
  const Storage storage = table.shards.total_storage();
  TableRow tiers{gib_text(storage.hbm), gib_text(storage.ddr)};
  if (cost_model.report_ssd) tiers.push_back(gib_text(storage.ssd));

  std::vector<double> indices;
  for (std::size_t f = 0; f < profile.pooling_factors.size(); ++f) {
    indices.push_back(profile.pooling_factors[f] * profile.num_poolings[f]);
  }
  std::string width = std::to_string(profile.shape.columns);
  if (is_column_cut(type)) width += fmt::format(" ({})", table.shards.runs.front().columns);
  const std::string sharder = cost_model.report_sharder_by_module
                                  ? fmt::format("{}Sharder", module_class_name(profile.module_kind))
                                  : std::string(sharder_class_name(profile.module_kind));

  return {table.table->fqn,
          std::string(abbreviation(type)),
          std::string(to_string(table.option->compute_kernel)),
          perf_text(perf),
          fmt::format("({})", fmt::join(tiers, ", ")),
          cache_load_factor_text(table),
          rounded(sum(profile.pooling_factors)),
          rounded(sum(profile.num_poolings)),
          rounded(sum(indices)),
          profile.is_pooled ? "pooled" : "sequence",
          profile.is_weighted ? "weighted" : "unweighted",
          sharder,
          std::to_string(profile.pooling_factors.size()),
          width,
          std::to_string(profile.shape.rows),
          figures.has_plan ? collapse({table.ranks.begin(), table.ranks.end()}) : "None"};
}

}  // namespace

std::vector<std::string> format_rank_table(const PlanningProblem& problem, double percentage,
                                           const StatsFigures& figures) {
  std::vector<TableRow> rows = header_rows({{"Rank", 6},
                                            {"HBM (GB)", 10},
                                            {"DDR (GB)", 10},
                                            {"Perf (ms)", 11},
                                            {"Input (MB)", 12},
                                            {"Output (MB)", 13},
                                            {"Shards", 8}});
  const topology::ComputeDevice device =
      memory_device(problem.cost_model, problem.topology.compute_device);
  const bool has_hbm =
      device == topology::ComputeDevice::kCuda || device == topology::ComputeDevice::kMtia;
  // Types that the plan uses are listed on every rank. Without a plan nothing is counted.
  std::map<std::string_view, ShardingType> used_types;
  if (figures.has_plan) {
    for (const PlacedOption& table : figures.tables) {
      const ShardingType type = table.option->sharding_type;
      used_types[abbreviation(type)] = type;
    }
  }
  for (std::size_t r = 0; r < figures.ranks.size(); ++r) {
    const RankFigures& rank = figures.ranks[r];
    const Storage& cap = problem.topology.devices[r];
    const double usable = (1 - percentage) * static_cast<double>(cap.hbm);
    const double hbm_share = has_hbm && usable != 0 ? static_cast<double>(rank.hbm) / usable : 0.0;
    const double ddr_share =
        cap.ddr > 0 ? static_cast<double>(rank.ddr) / static_cast<double>(cap.ddr) : 0.0;
    TableRow types;
    for (const auto& [name, type] : used_types) {
      types.push_back(fmt::format("{}: {}", name, rank.num_shards[static_cast<std::size_t>(type)]));
    }
    rows.push_back({std::to_string(r),
                    fmt::format("{} ({})", rounded(gib(rank.hbm)), percent(hbm_share)),
                    fmt::format("{} ({})", rounded(gib(rank.ddr)), percent(ddr_share)),
                    perf_text(rank.perf), rounded(figures.has_plan ? rank.input_mib : 0, 2),
                    rounded(figures.has_plan ? rank.output_mib : 0, 2),
                    fmt::format("{}", fmt::join(types, " "))});
  }
  return format_table(rows);
}

std::vector<std::string> format_parameter_table(const CostModel& cost_model,
                                                const StatsFigures& figures) {
  std::vector<Column> columns{{"FQN", 5},
                              {"Sharding", 10},
                              {"Compute Kernel", 16},
                              {"Perf (ms)", 11},
                              {"Storage (HBM, DDR)", 20},
                              {"Cache Load Factor", 19},
                              {"Sum Pooling Factor", 20},
                              {"Sum Num Poolings", 18},
                              {"Num Indices", 13},
                              {"Output", 8},
                              {"Weighted", 10},
                              {"Sharder", 9},
                              {"Features", 10},
                              {"Emb Dim (CW Dim)", 18},
                              {"Hash Size", 11},
                              {"Ranks", 7}};
  if (cost_model.report_ssd) columns[4] = {"Storage (HBM, DDR, SSD)", 25};
  const auto has_batch_sizes = [](const PlacedOption& table) {
    return table.constraints != nullptr && !table.constraints->batch_sizes.empty();
  };
  const bool any_batch_sizes =
      std::any_of(figures.tables.begin(), figures.tables.end(), has_batch_sizes);
  if (any_batch_sizes) columns.push_back({"Batch Sizes", 13});

  std::vector<TableRow> rows = header_rows(columns);
  for (const PlacedOption& table : figures.tables) {
    rows.push_back(parameter_row(cost_model, figures, table));
    if (any_batch_sizes) {
      rows.back().push_back(
          has_batch_sizes(table) ? batch_sizes_text(table.constraints->batch_sizes) : "n/a");
    }
  }
  return format_table(rows);
}

}  // namespace plimsoll::embedding
