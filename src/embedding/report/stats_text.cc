// How the statistics report is laid out.
//
// Problem. Print the figures of a plan exactly as TorchRec's EmbeddingStats prints them.
// Method. The two tables are formatted first, because they rule the width of the page; then every
// section writes its lines. O(shards) time and memory.
// Promises. Line for line the text of the release whose cost model is given.
// Quirks that are kept: a title padded one blank too wide, tiers of memory pressure that name
// positions in a shrinking list instead of ranks, "rank []" for nobody, and batch sizes whose last
// run lacks its blanks.
// Source: docs/mathematics/torchrec-planner.md#statistics-report.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/text_columns.h"
#include "embedding/report/stats_numbers.h"
#include "embedding/report/stats_tables.h"
#include "plimsoll/core/units.h"
#include "plimsoll/embedding/stats.h"

namespace plimsoll::embedding {
namespace {

constexpr std::size_t kMinWidth = 90;
constexpr int kNumNameTiers = 5;
constexpr std::size_t kNumTopTables = 5;

// math.isclose of mebibytes with an absolute tolerance of 1 and the default relative one.
bool is_close_in_mib(WideBytes a, WideBytes b) {
  const double x = static_cast<double>(a) / static_cast<double>(kMiB);
  const double y = static_cast<double>(b) / static_cast<double>(kMiB);
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

std::string_view rank_word(std::size_t count) { return count > 1 ? "ranks" : "rank"; }

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
  for (int tier = 1; tier <= kNumNameTiers && !left.empty(); ++tier) {
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

class EmbeddingStats : public Stats {
 public:
  EmbeddingStats(std::function<void(std::string_view)> print, bool debug)
      : print_(std::move(print)) {
    options_.debug = debug;
  }

  void log(const PlanningProblem& problem, const PlanningResult& result,
           double run_time_s) override {
    options_.seconds = run_time_s;
    const StatsReport report = make_stats_report(problem, result, options_);
    options_.min_width = report.width;
    for (const std::string& line : report.lines) print_(line);
  }

 private:
  std::function<void(std::string_view)> print_;
  StatsOptions options_;
};

}  // namespace

std::unique_ptr<Stats> make_embedding_stats(std::function<void(std::string_view line)> print,
                                            bool debug) {
  return std::make_unique<EmbeddingStats>(std::move(print), debug);
}

StatsReport make_stats_report(const PlanningProblem& problem, const PlanningResult& result,
                              const StatsOptions& options) {
  StatsReport report;
  report.width = options.min_width;
  if (!result.has_search()) return report;

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
