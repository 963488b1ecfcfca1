// How the statistics report is laid out.
//
// Problem. Print the figures of a plan exactly as TorchRec's EmbeddingStats prints them.
// Method. The two tables are formatted first, because they rule the width of the page; then every
// section writes its lines. O(shards) time and memory.
// Promises. Line for line the text of the release whose cost model is given.
// Quirks that are kept: a title padded one blank too wide, tiers of memory pressure that name
// positions in a shrinking list instead of ranks, "rank []" for nobody, and batch sizes whose last
// run lacks its blanks.
// Source: specification of the reference planner, section 11; release notes, section 7.1.

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "embedding/stats_figures.h"
#include "embedding/text_columns.h"
#include "plimsoll/core/python_text.h"
#include "plimsoll/embedding/sharder.h"
#include "plimsoll/embedding/stats.h"

namespace plimsoll::embedding {
namespace {

using Row = std::vector<std::string>;

constexpr std::size_t kMinWidth = 90;
constexpr double kBytesPerGib = 1024.0 * 1024.0 * 1024.0;
constexpr double kBytesPerMib = 1024.0 * 1024.0;
constexpr int kNumTiers = 5;
constexpr std::size_t kNumTopTables = 5;

// ---- Numbers ----

std::string rounded(double value, int digits = 3) {
  return python_repr(python_round(value, digits));
}

double gib(WideBytes bytes) { return static_cast<double>(bytes) / kBytesPerGib; }

std::string gib_text(WideBytes bytes) { return rounded(gib(bytes)) + " GB"; }

std::string percent(double share) { return fmt::format("{:.0f}%", share * 100); }

std::string one_digit(double value) {
  if (value >= 1) return fmt::format("{:.0f}", value);
  const std::string digit = fmt::format("{:.1g}", value);
  double read = 0;
  std::from_chars(digit.data(), digit.data() + digit.size(), read);
  return fmt::format("{:g}", read);
}

std::string perf_text(const Perf& perf) {
  Row parts;
  for (double Perf::*component : kPerfComponents) parts.push_back(one_digit(perf.*component));
  return fmt::format("{} ({})", rounded(perf.total()), fmt::join(parts, ","));
}

// math.isclose of mebibytes with an absolute tolerance of 1 and the default relative one.
bool is_close_in_mib(WideBytes a, WideBytes b) {
  const double x = static_cast<double>(a) / kBytesPerMib;
  const double y = static_cast<double>(b) / kBytesPerMib;
  const double distance = std::abs(x - y);
  return distance <= std::abs(1e-9 * x) || distance <= std::abs(1e-9 * y) || distance <= 1.0;
}

// The positions that are close to `value`.
std::vector<std::int64_t> positions_near(const std::vector<WideBytes>& bytes, WideBytes value) {
  std::vector<std::int64_t> near;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    if (is_close_in_mib(bytes[i], value)) near.push_back(static_cast<std::int64_t>(i));
  }
  return near;
}

// One run of more than one rank as "2-5", anything else as "0,2,3".
std::string collapse(std::vector<std::int64_t> ranks) {
  std::sort(ranks.begin(), ranks.end());
  bool is_run = ranks.size() > 1;
  for (std::size_t i = 1; i < ranks.size(); ++i) is_run = is_run && ranks[i] == ranks[i - 1] + 1;
  if (is_run) return fmt::format("{}-{}", ranks.front(), ranks.back());
  return fmt::format("{}", fmt::join(ranks, ","));
}

std::string_view rank_word(std::size_t count) { return count > 1 ? "ranks" : "rank"; }

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
std::vector<std::string> format_table(const std::vector<Row>& rows) {
  const std::vector<std::size_t> widths = column_widths(rows);
  std::vector<std::string> lines;
  for (const Row& row : rows) {
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

std::vector<Row> header_rows(const std::vector<Column>& columns) {
  Row titles, rules;
  for (const Column& column : columns) {
    titles.emplace_back(column.title);
    rules.emplace_back(column.dashes, '-');
  }
  return {titles, rules};
}

// ---- The two tables ----

std::vector<std::string> format_rank_table(const PlanningProblem& problem, double percentage,
                                           const StatsFigures& figures) {
  std::vector<Row> rows = header_rows({{"Rank", 6},
                                       {"HBM (GB)", 10},
                                       {"DDR (GB)", 10},
                                       {"Perf (ms)", 11},
                                       {"Input (MB)", 12},
                                       {"Output (MB)", 13},
                                       {"Shards", 8}});
  const topology::ComputeDevice device = problem.topology.compute_device;
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
    Row types;
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

double sum(const std::vector<double>& values) {
  double total = 0;
  for (const double value : values) total += value;
  return total;
}

std::string cache_load_factor_text(const PlacedOption& table) {
  if (table.option->compute_kernel != ComputeKernel::kFusedUvmCaching) return "None";
  const std::optional<double> factor = table.option->cache_load_factor
                                           ? table.option->cache_load_factor
                                           : table.profile->sharder.cache_load_factor;
  return factor ? python_repr(*factor) : "None";
}

Row parameter_row(const CostModel& cost_model, const StatsFigures& figures,
                  const PlacedOption& table) {
  const TableProfile& profile = *table.profile;
  const ShardingType type = table.option->sharding_type;

  Perf perf;
  for_each_placed_shard(table, [&](const ShardRun& run, std::int32_t) { perf += run.perf; });
  const Storage storage = table.shards.total_storage();
  Row tiers{gib_text(storage.hbm), gib_text(storage.ddr)};
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

  std::vector<Row> rows = header_rows(columns);
  for (const PlacedOption& table : figures.tables) {
    rows.push_back(parameter_row(cost_model, figures, table));
    if (any_batch_sizes) {
      rows.back().push_back(
          has_batch_sizes(table) ? batch_sizes_text(table.constraints->batch_sizes) : "n/a");
    }
  }
  return format_table(rows);
}

// ---- The page ----

class Page {
 public:
  explicit Page(std::size_t width) : width_(width) {}

  void rule() { lines_.emplace_back(width_, '#'); }
  void blank() { lines_.push_back("#" + std::string(width_ - 2, ' ') + "#"); }
  void line(std::string_view text) { lines_.push_back("# " + pad_right(text, width_ - 3) + "#"); }
  void indented(std::string_view text) {
    lines_.push_back("#    " + pad_right(text, width_ - 6) + "#");
  }
  // One blank too wide for the page, as the reference pads this title.
  void wide_line(std::string_view text) {
    lines_.push_back("# " + pad_right(text, width_ - 2) + "#");
  }
  void centred(std::string_view text) {
    const std::size_t inside = width_ - 2;
    const std::size_t left = (inside - std::min(inside, text.size())) / 2;
    lines_.push_back("#" + pad_right(std::string(left, ' ') + std::string(text), inside) + "#");
  }
  std::size_t width() const { return width_; }
  std::vector<std::string> take() { return std::move(lines_); }

 private:
  std::size_t width_;
  std::vector<std::string> lines_;
};

void print_header(const PlanningResult& result, double seconds, Page& page) {
  page.rule();
  page.centred("--- Planner Statistics ---");
  page.centred(
      fmt::format("--- Evaluated {} proposal(s), found {} possible plan(s), ran for {:.2f}s ---",
                  result.num_proposals, result.num_plans, seconds));
  page.centred(std::string(page.width() - 4, '-'));
}

void print_rank_table(const std::vector<std::string>& table, Page& page) {
  for (const std::string& row : table) page.line(row);
  page.blank();
  page.line(
      "Perf: Total perf (Forward compute, Forward comms, Backward compute, Backward comms, "
      "Prefetch compute)");
  page.line("Input: MB/iteration, Output: MB/iteration, Shards: number of tables");
  page.line("HBM: estimated peak memory usage for shards, dense tensors, and features (KJT)");
}

void print_kernels(const CostModel& cost_model, const StatsFigures& figures, Page& page) {
  const auto block = [&](std::string_view title, auto&& text_of) {
    page.blank();
    page.line(title);
    for (const auto& [name, kernel] : figures.kernels) {
      page.indented(fmt::format("{}: {}", name, text_of(kernel)));
    }
  };
  block("Compute Kernels Count:",
        [](const KernelFigures& kernel) { return std::to_string(kernel.num_tables); });
  if (cost_model.report_kernel_breakdown) {
    block("Compute Kernels Embedding Weights:",
          [](const KernelFigures& kernel) { return gib_text(kernel.weights); });
    block("Compute Kernels Optimizer State:",
          [](const KernelFigures& kernel) { return gib_text(kernel.optimizer_state); });
  }
  block(cost_model.report_kernel_breakdown
            ? "Compute Kernels Total Estimated Memory (weights + optimizer + IO + pipeline):"
            : "Compute Kernels Storage:",
        [&](const KernelFigures& kernel) {
          std::string text =
              fmt::format("HBM: {}, DDR: {}", gib_text(kernel.hbm), gib_text(kernel.ddr));
          if (cost_model.report_ssd) text += ", SSD: " + gib_text(kernel.ssd);
          return text;
        });
  if (!cost_model.report_kernel_constraints) return;

  std::int64_t num_tables = 0;
  std::int64_t num_hardcoded = 0;
  for (const auto& [name, kernel] : figures.kernels) {
    num_tables += kernel.num_tables;
    num_hardcoded += kernel.num_hardcoded;
  }
  page.blank();
  page.line("Compute Kernel Constraints:");
  page.indented(
      fmt::format("Hardcoded: {}, Auto-selected: {}", num_hardcoded, num_tables - num_hardcoded));
  for (const auto& [name, kernel] : figures.kernels) {
    if (kernel.num_hardcoded == 0) continue;
    page.indented(fmt::format("Hardcoded {}: {}", name, kernel.num_hardcoded));
  }
}

void print_imbalance(const StatsFigures& figures, Page& page) {
  bool is_printed = false;
  const auto block = [&](std::string_view title, const std::vector<double>& shares) {
    is_printed = true;
    page.blank();
    page.line(fmt::format("{} Imbalance Statistics", title));
    const Imbalance metrics = imbalance_of_shares(shares);
    page.line(fmt::format("Total Variation: {:.3f}", metrics.total_variation));
    page.line(fmt::format("Total Distance: {:.3f}", metrics.total_distance));
    page.line(fmt::format("Chi Divergence: {:.3f}", metrics.chi_divergence));
    page.line(fmt::format("KL Divergence: {:.3f}", metrics.kl_divergence));
  };
  const auto bytes_block = [&](std::string_view title, WideBytes RankFigures::*tier) {
    WideBytes total = 0;
    for (const RankFigures& rank : figures.ranks) total += rank.*tier;
    if (total <= 0) return;
    std::vector<double> shares;
    for (const RankFigures& rank : figures.ranks) {
      shares.push_back(static_cast<double>(rank.*tier) / static_cast<double>(total));
    }
    block(title, shares);
  };
  std::vector<double> perfs;
  for (const RankFigures& rank : figures.ranks) perfs.push_back(rank.perf.total());
  const double total = sum(perfs);
  if (total > 0) {
    for (double& perf : perfs) perf /= total;
    block("Total Perf", perfs);
  }
  bytes_block("HBM", &RankFigures::hbm);
  bytes_block("DDR", &RankFigures::ddr);
  if (!is_printed) return;
  page.blank();
  page.line("Imbalance stats range 0-1, higher means more imbalanced");
}

// "0.5 ms on ranks 0,2": the greatest value and who has it.
std::string greatest_text(const std::vector<double>& perfs, const std::vector<bool>& is_float) {
  const auto greatest = std::max_element(perfs.begin(), perfs.end());
  std::vector<std::int64_t> ranks;
  for (std::size_t r = 0; r < perfs.size(); ++r) {
    if (perfs[r] == *greatest) ranks.push_back(static_cast<std::int64_t>(r));
  }
  const bool prints_as_float = is_float[static_cast<std::size_t>(greatest - perfs.begin())];
  return fmt::format("{} ms on {} {}", prints_as_float ? rounded(*greatest) : "0",
                     rank_word(ranks.size()), collapse(ranks));
}

void print_maxima(const StatsFigures& figures, Page& page) {
  std::vector<double> totals;
  for (const RankFigures& rank : figures.ranks) totals.push_back(rank.perf.total());
  const double mean = exact_mean(totals);
  const double greatest = *std::max_element(totals.begin(), totals.end());
  const double excess = mean > 0 ? (greatest - mean) / mean * 100 : 0.0;

  page.blank();
  page.line("Maximum of Total Perf: " +
            greatest_text(totals, std::vector<bool>(totals.size(), true)));
  page.line(fmt::format("Mean Total Perf: {} ms", rounded(mean)));
  page.line(fmt::format("Max Total Perf is {:.3g}% greater than the mean", excess));

  constexpr std::array<std::string_view, kNumPerfComponents> kTitles{
      "Forward Compute", "Forward Comms", "Backward Compute", "Backward Comms", "Prefetch Compute"};
  double sum_of_maxima = 0;
  for (std::size_t c = 0; c < kNumPerfComponents; ++c) {
    std::vector<double> perfs;
    std::vector<bool> is_float;
    for (const RankFigures& rank : figures.ranks) {
      perfs.push_back(rank.perf.*kPerfComponents[c]);
      is_float.push_back(rank.is_float[c]);
    }
    sum_of_maxima += *std::max_element(perfs.begin(), perfs.end());
    page.line(fmt::format("Maximum of {}: {}", kTitles[c], greatest_text(perfs, is_float)));
  }
  page.line(fmt::format("Sum of Maxima: {} ms", rounded(sum_of_maxima)));
}

// "1.461 GB on rank [1]": everybody near `value`.
std::string hbm_text(const std::vector<WideBytes>& bytes, WideBytes value) {
  const std::vector<std::int64_t> ranks = positions_near(bytes, value);
  return fmt::format("{} on {} {}", gib_text(value), rank_word(ranks.size()), python_list(ranks));
}

void print_distribution(const StatsFigures& figures, Page& page) {
  std::vector<WideBytes> sparse, used;
  WideBytes total = 0;
  for (const RankFigures& rank : figures.ranks) {
    sparse.push_back(rank.sparse_hbm);
    used.push_back(rank.hbm);
    total += rank.hbm;
  }
  const auto [least_sparse, most_sparse] = std::minmax_element(sparse.begin(), sparse.end());
  std::vector<WideBytes> sorted = used;
  std::sort(sorted.begin(), sorted.end());
  const WideBytes greatest = sorted.back();
  const double mean =
      total > 0 ? divide_exactly(static_cast<Uint128>(total), static_cast<Uint128>(sorted.size()))
                : 0.0;
  const double excess = mean > 0 ? (static_cast<double>(greatest) - mean) / mean * 100 : 0.0;

  page.blank();
  page.wide_line("Estimated Sharding Distribution");
  page.line("Sparse only Max HBM: " + hbm_text(sparse, *most_sparse));
  page.line("Sparse only Min HBM: " + hbm_text(sparse, *least_sparse));
  page.line("Max HBM: " + hbm_text(used, greatest));
  page.line("Min HBM: " + hbm_text(used, sorted.front()));
  page.line("Mean HBM: " + hbm_text(used, python_round(mean)));
  page.line("Low Median HBM: " + hbm_text(used, sorted[(sorted.size() - 1) / 2]));
  page.line("High Median HBM: " + hbm_text(used, sorted[sorted.size() / 2]));
  const CriticalPath& path = figures.critical_path;
  page.line("Critical Path (comms): " + rounded(path.comms));
  page.line("Critical Path (compute): " + rounded(path.compute));
  page.line("Critical Path (comms + compute): " + rounded(path.comms + path.compute));
  page.line(fmt::format("Max HBM is {:.3g}% greater than the mean", excess));
}

// The fullest ranks in tiers of equal use, fullest last. A tier leaves the list before the next is
// looked for, and what is printed are positions in the list that is left.
void print_pressure(const StatsFigures& figures, Page& page) {
  std::vector<WideBytes> left;
  for (const RankFigures& rank : figures.ranks) left.push_back(rank.hbm);
  page.blank();
  page.blank();
  page.line("Top HBM Memory Usage Estimation: " +
            gib_text(*std::max_element(left.begin(), left.end())));

  std::vector<std::string> tiers;
  for (int tier = 1; tier <= kNumTiers && !left.empty(); ++tier) {
    const WideBytes greatest = *std::max_element(left.begin(), left.end());
    const std::vector<std::int64_t> positions = positions_near(left, greatest);
    tiers.push_back(fmt::format("Top Tier #{} Estimated Peak HBM Pressure: {} on {} {}", tier,
                                gib_text(greatest), rank_word(positions.size()),
                                collapse(positions)));
    std::erase_if(left, [&](WideBytes bytes) { return is_close_in_mib(bytes, greatest); });
  }
  for (auto tier = tiers.rbegin(); tier != tiers.rend(); ++tier) page.line(*tier);
}

void print_reservation(const PlanningProblem& problem, const Reservation& reservation,
                       const StatsFigures& figures, Page& page) {
  const Storage& device = problem.topology.devices.front();
  const double hbm = static_cast<double>(device.hbm);
  const double reserved = reservation.percentage;
  const auto whole_gib = [](double bytes) {
    return rounded(std::trunc(bytes) / kBytesPerGib) + " GB";
  };
  page.blank();
  page.line("Reserved Memory:");
  page.indented("HBM: " + whole_gib(reserved * hbm));
  page.indented("Percent of Total HBM: " + percent(reserved));
  page.line("Planning Memory:");
  page.indented(
      fmt::format("HBM: {}, DDR: {}", whole_gib((1 - reserved) * hbm), gib_text(device.ddr)));
  page.indented("Percent of Total HBM: " + percent(1 - reserved));

  if (reservation.options.kind != ReservationKind::kHeuristical &&
      !problem.cost_model.inference_and_fixed_report_ids) {
    return;
  }
  const auto block = [&](std::string_view title, const Storage& storage) {
    page.blank();
    page.line(title);
    page.indented(fmt::format("HBM: {}, DDR: {}", gib_text(storage.hbm), gib_text(storage.ddr)));
  };
  block("Dense Storage (per rank): ", figures.dense);
  block("KJT Storage (per rank): ", figures.kjt);
}

void print_top_tables(const StatsFigures& figures, Page& page) {
  page.blank();
  page.line("Top 5 Tables Causing Max Perf:");
  const auto& slow = figures.max_perf_tables;
  for (std::size_t i = 0; i < std::min(kNumTopTables, slow.size()); ++i) {
    page.indented(slow[i]->table->name);
  }
  page.line("Top 5 Tables Causing Max HBM:");
  const auto& large = figures.max_hbm_tables;
  for (std::size_t i = 0; i < std::min(kNumTopTables, large.size()); ++i) {
    const PlacedOption& table = *large[i];
    page.indented(fmt::format(
        "{}: {} on {} {}", table.table->name, gib_text(table.shards.runs.front().storage.hbm),
        rank_word(table.ranks.size()), python_list({table.ranks.begin(), table.ranks.end()})));
  }
}

}  // namespace

StatsReport make_stats_report(const PlanningProblem& problem, const PlanningResult& result,
                              const StatsOptions& options) {
  StatsReport report;
  report.width = options.min_width;
  // Nothing to shard, or the reference gave up before any search: reserving failed, or a stored
  // plan did not match.
  if (!result.reservation || result.enumeration.options.tables.empty() ||
      result.best.first_rank.empty()) {
    return report;
  }

  const CostModel& cost_model = problem.cost_model;
  const StatsFigures figures = compute_stats_figures(problem, result);
  const std::vector<std::string> rank_table =
      format_rank_table(problem, result.reservation->percentage, figures);
  std::vector<std::string> parameter_table;
  std::size_t width =
      std::max(kMinWidth, static_cast<std::size_t>(std::max<std::int64_t>(0, options.min_width)));
  // Also where the table is not printed.
  width = std::max(width, text_width(rank_table.front()) + 8);
  if (options.debug) {
    parameter_table = format_parameter_table(cost_model, figures);
    width = std::max(width, text_width(parameter_table.front()) + 6);
  }

  Page page(width);
  print_header(result, options.seconds, page);
  if (figures.has_plan) print_rank_table(rank_table, page);
  if (options.debug) {
    page.blank();
    page.line("Parameter Info:");
    for (const std::string& row : parameter_table) page.line(row);
  }
  page.blank();
  page.line(fmt::format("Batch Size: {}", problem.batch_size > 0 ? problem.batch_size : 512));
  if (!figures.has_plan) {
    page.blank();
    page.line(fmt::format("World Size: {}", problem.topology.world_size));
  }
  print_kernels(cost_model, figures, page);
  if (options.debug) {
    if (figures.has_plan) {
      print_imbalance(figures, page);
      print_maxima(figures, page);
      print_distribution(figures, page);
      print_pressure(figures, page);
    }
    print_reservation(problem, *result.reservation, figures, page);
    if (figures.has_plan) print_top_tables(figures, page);
  }
  page.rule();
  report.width = static_cast<std::int64_t>(width);
  report.lines = page.take();
  return report;
}

}  // namespace plimsoll::embedding
