#include "io/export/what_if_page.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "io/export/html_page.h"
#include "io/export/html_text.h"
#include "io/export/vega_chart.h"

namespace plimsoll::io {
namespace {

using study::WhatIf;
using study::WhatIfRow;

// "dgx-h100:4" and "gb200-nvl72@32" without the number of hosts or ranks.
std::string kind_of(const std::string& on) { return on.substr(0, on.find_last_of(":@")); }

std::string rate_text(double samples_per_s) {
  return count_text(static_cast<std::int64_t>(samples_per_s));
}

std::string point_text(const WhatIfRow& row) {
  return fmt::format("{}, {} samples per rank: {} samples/s, {}{}", row.point.on,
                     count_text(row.point.batch_size), rate_text(*row.samples_per_s),
                     ms_text(*row.ms),
                     row.price ? fmt::format(", {:.6g} an hour", *row.price) : "");
}

ScatterChart chart_of(const WhatIf& sweep) {
  const bool is_priced = has_prices(sweep.rows);
  ScatterChart chart;
  chart.title = fmt::format("Samples per second for {}, of every point that has a plan",
                            is_priced ? "the price of an hour" : "the number of ranks");
  chart.x_name = is_priced ? "price of an hour" : "ranks";
  chart.y_name = "samples/s";
  chart.line_name = "front";
  for (const WhatIfRow& row : sweep.rows) {
    if (!row.samples_per_s || !row.ms || (is_priced && !row.price)) continue;
    const std::string kind = kind_of(row.point.on);
    auto group = std::find_if(chart.groups.begin(), chart.groups.end(),
                              [&kind](const auto& one) { return one.first == kind; });
    if (group == chart.groups.end()) {
      group = chart.groups.emplace(chart.groups.end(), kind, std::vector<ScatterPoint>());
    }
    const double x = is_priced ? *row.price : static_cast<double>(row.point.ranks);
    group->second.push_back({x, *row.samples_per_s, point_text(row)});
    if (row.is_pareto) chart.line.emplace_back(x, *row.samples_per_s);
  }
  std::sort(chart.line.begin(), chart.line.end());
  return chart;
}

// Where a plan is missing, a number that sorts below the others.
NumberCell number_cell(std::optional<double> value, const std::string& text) {
  return value ? NumberCell{*value, text} : NumberCell{-1, "-"};
}

PageTable table_of(const WhatIf& sweep) {
  const bool is_priced = has_prices(sweep.rows);
  PageTable table{
      "Every point", {"machine", "ranks", "batch", "ms", "gap", "memory", "samples/s"}, {}};
  if (is_priced) table.header.insert(table.header.end(), {"price/h", "per 1M samples"});
  table.header.emplace_back("");
  for (const WhatIfRow& row : sweep.rows) {
    const auto number = [](std::optional<double> value) {
      return number_cell(value, value ? fmt::format("{:.6g}", *value) : "");
    };
    std::vector<PageCell> cells{
        row.point.on,
        NumberCell{static_cast<double>(row.point.ranks), count_text(row.point.ranks)},
        NumberCell{static_cast<double>(row.point.batch_size), count_text(row.point.batch_size)},
        number_cell(row.ms, row.ms ? ms_number(*row.ms) : ""),
        number_cell(row.gap, gap_text(row)),
        row.ms ? bytes_cell(row.memory) : NumberCell{-1, "-"},
        number_cell(row.samples_per_s, row.samples_per_s ? rate_text(*row.samples_per_s) : "")};
    if (is_priced) cells.insert(cells.end(), {number(row.price), number(row.price_per_million)});
    cells.emplace_back(std::string(remark_of(row)));
    table.rows.push_back(std::move(cells));
  }
  return table;
}

std::string content_of(const WhatIf& sweep, std::string_view title, bool has_script) {
  const auto count = [&sweep](const auto& is_counted) {
    return count_text(std::count_if(sweep.rows.begin(), sweep.rows.end(), is_counted));
  };
  std::string html = fmt::format("<h1>{}</h1>\n<p class=\"soft\">A sweep of {} points",
                                 escape_html(title), count([](const WhatIfRow&) { return true; }));
  if (sweep.stop != StopReason::kFinished) html += ", stopped before its end";
  html +=
      fmt::format("</p>\n<p class=\"verdict\">{} points have a plan; {} are on the front.</p>\n",
                  count([](const WhatIfRow& row) { return row.ms.has_value(); }),
                  count([](const WhatIfRow& row) { return row.is_pareto; }));
  html += fmt::format(
      "<p class=\"soft\">On the front no other point has more samples per second {}.</p>\n",
      has_prices(sweep.rows) ? "for the same price or less" : "on as many ranks or fewer");
  if (const std::string drawn = draw_scatter(chart_of(sweep)); has_script && !drawn.empty()) {
    html += "<h2>The front</h2>\n" + drawn;
  }
  return html + "<h2>Points</h2>\n" + html_of(table_of(sweep), has_script);
}

}  // namespace

std::string write_what_if_page(const WhatIf& sweep, std::string_view title) {
  return whole_page(title, content_of(sweep, title, true));
}

std::string write_what_if_fragment(const WhatIf& sweep, std::string_view title) {
  return page_body(content_of(sweep, title, false));
}

}  // namespace plimsoll::io
