#include "io/export/svg_chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "io/export/html_text.h"

namespace plimsoll::io {
namespace {

constexpr double kWidth = 960, kHeight = 260;
constexpr double kLeft = 64, kRight = 12, kTop = 12, kBottom = 34;
constexpr int kNumColours = 8;

std::string colour(std::size_t series) { return fmt::format("var(--c{})", series % kNumColours); }

// The largest of 1, 2 and 5 times a power of ten that gives at least four ticks up to `end`.
double tick_step(double end) {
  if (!(end > 0) || !std::isfinite(end)) return 1;
  const double power = std::pow(10, std::floor(std::log10(end / 4)));
  double step = power;
  for (const double factor : {2.0, 5.0}) {
    if (factor * power <= end / 4) step = factor * power;
  }
  return step;
}

// Bytes are drawn in the unit of the largest one.
struct Scale {
  double divisor = 1;
  std::string unit = "ms";
};
Scale scale_of(ChartUnit unit, double largest) {
  if (unit == ChartUnit::kMs) return {1, "ms"};
  if (unit == ChartUnit::kNumber) {
    for (const auto& [size, name] : {std::pair(1e9, "G"), {1e6, "M"}, {1e3, "k"}}) {
      if (largest >= 10 * size) return {size, name};
    }
    return {1, ""};
  }
  constexpr std::pair<Bytes, const char*> kUnits[] = {
      {kTiB, "TiB"}, {kGiB, "GiB"}, {kMiB, "MiB"}, {kKiB, "KiB"}};
  for (const auto& [size, name] : kUnits) {
    if (largest >= static_cast<double>(size)) return {static_cast<double>(size), name};
  }
  return {1, "B"};
}

std::string value_text(ChartUnit unit, double value) {
  if (unit == ChartUnit::kNumber) return fmt::format("{:.4g}", value);
  return unit == ChartUnit::kMs ? ms_text(value) : bytes_text(static_cast<Bytes>(value));
}

// Maps values to the plot's pixels.
struct Axis {
  double from = 0, to = 1;        // values
  double from_px = 0, to_px = 1;  // where they lie
  double at(double value) const {
    return from_px + (value - from) / (to - from) * (to_px - from_px);
  }
};

std::string text_at(double x, double y, std::string_view anchor, std::string_view text) {
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\">{}</text>", x, y, anchor,
                     escape_html(text));
}

std::string y_ticks(const Axis& axis, const Scale& scale, double right) {
  std::string svg;
  const double step = tick_step(axis.to / scale.divisor);
  for (double tick = 0; tick <= axis.to / scale.divisor * (1 + 1e-9); tick += step) {
    const double y = axis.at(tick * scale.divisor);
    svg += fmt::format("<path class=\"axis\" d=\"M{:.1f} {:.1f}H{:.1f}\"/>", kLeft, y, right);
    svg += text_at(kLeft - 6, y + 4, "end", fmt::format("{:.4g}", tick));
  }
  return svg + text_at(4, kTop + 2, "start", scale.unit);
}

std::string x_ticks(const Axis& axis, const Scale& scale, double height) {
  std::string svg;
  const double step = tick_step((axis.to - axis.from) / scale.divisor);
  const double first = std::ceil(axis.from / scale.divisor / step - 1e-9) * step;
  for (double tick = first; tick <= axis.to / scale.divisor * (1 + 1e-9); tick += step) {
    const double x = axis.at(tick * scale.divisor);
    svg += fmt::format("<path class=\"axis\" d=\"M{:.1f} {:.1f}v4\"/>", x, height - kBottom);
    svg += text_at(x, height - kBottom + 17, "middle",
                   fmt::format("{:.4g} {}", tick == 0 ? 0.0 : tick, scale.unit));
  }
  return svg;
}

std::string open_svg(std::string_view title, double height) {
  return fmt::format("<svg viewBox=\"0 0 {:.0f} {:.0f}\" role=\"img\" aria-label=\"{}\">", kWidth,
                     height, escape_html(title));
}

struct LegendEntry {
  std::string name, swatch;  // inside a viewBox of 12 by 12
};
std::string figure(const std::string& title, const std::string& svg,
                   const std::vector<LegendEntry>& legend) {
  std::string html = "<figure>" + svg;
  if (!legend.empty()) {
    html += "<ul class=\"legend\">";
    for (const LegendEntry& entry : legend) {
      html += fmt::format("<li><svg viewBox=\"0 0 12 12\" aria-hidden=\"true\">{}</svg>{}</li>",
                          entry.swatch, escape_html(entry.name));
    }
    html += "</ul>";
  }
  return html + "<figcaption>" + escape_html(title) + "</figcaption></figure>\n";
}

std::string square(std::size_t series) {
  return fmt::format("<rect width=\"12\" height=\"12\" fill=\"{}\"/>", colour(series));
}

// What events have in common, in the colour of which they are drawn: "forward" of "look-up
// (forward)", else the whole name.
std::string what_of(const std::string& name) {
  const std::size_t open = name.rfind(" (");
  if (open == std::string::npos || !name.ends_with(')')) return name;
  return name.substr(open + 2, name.size() - open - 3);
}

double largest_sum(const StackedChart& chart) {
  double largest = 0;
  for (std::size_t p = 0; p < chart.places.size(); ++p) {
    double sum = 0;
    for (const auto& [name, values] : chart.series) sum += p < values.size() ? values[p] : 0;
    largest = std::max(largest, sum);
  }
  return largest;
}

}  // namespace

std::string draw_stacked(const StackedChart& chart) {
  const std::size_t num_places = chart.places.size();
  double largest = largest_sum(chart);
  if (num_places == 0 || !(largest > 0) || !std::isfinite(largest)) return "";
  for (const double cap : chart.caps) {
    if (std::isfinite(cap)) largest = std::max(largest, cap);
  }
  const Axis y{0, largest * 1.05, kHeight - kBottom, kTop};
  const Axis x{0, static_cast<double>(num_places), kLeft, kWidth - kRight};
  const double width = x.at(1) - x.at(0);
  const double gap = num_places > kMostBars ? 0 : std::min(width * 0.15, 6.0);
  std::string svg = open_svg(chart.title, kHeight);
  svg += y_ticks(y, scale_of(chart.unit, largest), kWidth - kRight);
  std::vector<double> below(num_places, 0);
  std::vector<LegendEntry> legend;
  for (std::size_t s = 0; s < chart.series.size(); ++s) {
    const auto& [name, values] = chart.series[s];
    std::string outline, back;
    for (std::size_t p = 0; p < num_places; ++p) {
      const double value = p < values.size() && std::isfinite(values[p]) ? values[p] : 0;
      const double from = y.at(below[p]), to = y.at(below[p] + value);
      const double left = x.at(static_cast<double>(p));
      below[p] += value;
      if (num_places > kMostBars) {
        outline += fmt::format("{}{:.1f} {:.1f}H{:.1f}", outline.empty() ? "M" : "L", left, to,
                               left + width);
        back = fmt::format("L{:.1f} {:.1f}H{:.1f}", left + width, from, left) + back;
      } else if (value > 0) {
        svg += fmt::format(
            "<rect class=\"box\" x=\"{:.2f}\" y=\"{:.2f}\" width=\"{:.2f}\" height=\"{:.2f}\" "
            "fill=\"{}\"><title>{}, {}: {}</title></rect>",
            left + gap / 2, to, width - gap, from - to, colour(s), escape_html(chart.places[p]),
            escape_html(name), value_text(chart.unit, value));
      }
    }
    if (!outline.empty()) {
      svg += fmt::format("<path fill=\"{}\" d=\"{}{}Z\"/>", colour(s), outline, back);
    }
    legend.push_back({name, square(s)});
  }
  if (chart.caps.size() == num_places) {
    std::string line;
    for (std::size_t p = 0; p < num_places; ++p) {
      const double left = x.at(static_cast<double>(p));
      line += fmt::format("{}{:.1f} {:.1f}H{:.1f}", line.empty() ? "M" : "L", left,
                          y.at(chart.caps[p]), left + width);
    }
    svg += fmt::format("<path class=\"cap\" d=\"{}\"/>", line);
    legend.push_back({chart.cap_name, "<path class=\"cap\" d=\"M0 6H12\"/>"});
  }
  const std::size_t every = num_places / 16 + 1;
  for (std::size_t p = 0; p < num_places; p += every) {
    // "rank 3" is 3 here: the caption says of what.
    const std::string& place = chart.places[p];
    const std::size_t blank = place.rfind(' ');
    svg += text_at(x.at(static_cast<double>(p) + 0.5), kHeight - kBottom + 17, "middle",
                   blank == std::string::npos ? place : place.substr(blank + 1));
  }
  return figure(chart.title, svg + "</svg>", legend);
}

std::string draw_curves(const CurveChart& chart) {
  double x_from = std::numeric_limits<double>::infinity(), x_to = -x_from, largest = 0;
  std::size_t num_points = 0;
  const auto widen = [&](double at_x, double at_y) {
    x_from = std::min(x_from, at_x);
    x_to = std::max(x_to, at_x);
    largest = std::max(largest, at_y);
    ++num_points;
  };
  for (const auto& [name, points] : chart.curves) {
    for (const auto& [at_x, at_y] : points) {
      if (std::isfinite(at_x) && std::isfinite(at_y)) widen(at_x, at_y);
    }
  }
  if (num_points < 2 || !(x_to > x_from)) return "";
  if (chart.marked) widen(chart.marked->first, chart.marked->second);
  if (chart.limit) largest = std::max(largest, *chart.limit);
  if (!(largest > 0)) largest = 1;
  const Axis x{x_from, x_to, kLeft, kWidth - kRight};
  const Axis y{0, largest * 1.05, kHeight - kBottom, kTop};
  std::string svg = open_svg(chart.title, kHeight);
  svg += y_ticks(y, scale_of(chart.y_unit, largest), kWidth - kRight);
  if (chart.has_x_numbers) svg += x_ticks(x, scale_of(chart.x_unit, x_to), kHeight);
  svg += text_at(kWidth - kRight, kHeight - 4, "end", chart.x_name);
  std::vector<LegendEntry> legend;
  for (std::size_t c = 0; c < chart.curves.size(); ++c) {
    const auto& [name, points] = chart.curves[c];
    std::string line;
    for (const auto& [at_x, at_y] : points) {
      if (!std::isfinite(at_x) || !std::isfinite(at_y)) continue;
      line += fmt::format("{}{:.1f} {:.1f}", line.empty() ? "M" : "L", x.at(at_x), y.at(at_y));
    }
    svg += fmt::format("<path class=\"curve\" stroke=\"{}\" d=\"{}\"/>", colour(c), line);
    legend.push_back({name, square(c)});
  }
  if (chart.limit) {
    svg += fmt::format("<path class=\"cap\" d=\"M{:.1f} {:.1f}H{:.1f}\"/>", kLeft,
                       y.at(*chart.limit), kWidth - kRight);
    legend.push_back({chart.limit_name, "<path class=\"cap\" d=\"M0 6H12\"/>"});
  }
  if (chart.marked) {
    svg += fmt::format(
        "<circle class=\"mark\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"6\"><title>{}</title></circle>",
        x.at(chart.marked->first), y.at(chart.marked->second), escape_html(chart.marked_name));
    legend.push_back({chart.marked_name, "<circle class=\"mark\" cx=\"6\" cy=\"6\" r=\"5\"/>"});
  }
  return figure(chart.title, svg + "</svg>", legend);
}

std::string draw_scatter(const ScatterChart& chart) {
  double x_to = 0, y_to = 0;
  for (const auto& [name, points] : chart.groups) {
    for (const ScatterPoint& point : points) {
      x_to = std::max(x_to, point.x);
      y_to = std::max(y_to, point.y);
    }
  }
  if (!(x_to > 0) || !(y_to > 0) || !std::isfinite(x_to) || !std::isfinite(y_to)) return "";
  const Axis x{0, x_to * 1.02, kLeft, kWidth - kRight};
  const Axis y{0, y_to * 1.05, kHeight - kBottom, kTop};
  std::string svg = open_svg(chart.title, kHeight) +
                    y_ticks(y, scale_of(ChartUnit::kNumber, y_to), kWidth - kRight);
  svg += x_ticks(x, scale_of(ChartUnit::kNumber, x_to), kHeight);
  svg += text_at(kWidth - kRight, kHeight - 4, "end", chart.x_name);
  std::vector<LegendEntry> legend;
  if (!chart.line.empty()) {
    std::string line;
    for (const auto& [at_x, at_y] : chart.line) {
      line += fmt::format("{}{:.1f} {:.1f}", line.empty() ? "M" : "L", x.at(at_x), y.at(at_y));
    }
    svg += fmt::format("<path class=\"cap\" d=\"{}\"/>", line);
    legend.push_back({chart.line_name, "<path class=\"cap\" d=\"M0 6H12\"/>"});
  }
  for (std::size_t g = 0; g < chart.groups.size(); ++g) {
    const auto& [name, points] = chart.groups[g];
    for (const ScatterPoint& point : points) {
      svg += fmt::format(
          "<circle class=\"point\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"4\" fill=\"{}\">"
          "<title>{}</title></circle>",
          x.at(point.x), y.at(point.y), colour(g), escape_html(point.name));
    }
    legend.push_back({name, square(g)});
  }
  return figure(chart.title, svg + "</svg>", legend);
}

std::string draw_matrix(const MatrixChart& chart) {
  if (chart.rows.empty() || chart.num_places == 0 || chart.rows.size() > kMostRows) return "";
  constexpr double kRow = 16, kNames = 230;
  const double height = kTop + kRow * static_cast<double>(chart.rows.size()) + kBottom;
  const Axis x{0, static_cast<double>(chart.num_places), kNames, kWidth - kRight};
  std::string svg = open_svg(chart.title, height);
  std::map<std::string, std::size_t> colour_of;
  for (std::size_t r = 0; r < chart.rows.size(); ++r) {
    const MatrixRow& row = chart.rows[r];
    const double top = kTop + kRow * static_cast<double>(r);
    constexpr std::size_t kLongest = 34;  // the end of a dotted name tells more than its beginning
    const bool is_long = row.name.size() > kLongest;
    svg += text_at(kNames - 6, top + 12, "end",
                   is_long ? "..." + row.name.substr(row.name.size() - kLongest) : row.name);
    svg += fmt::format("<path class=\"axis\" d=\"M{:.1f} {:.1f}H{:.1f}\"/>", kNames, top + kRow - 1,
                       kWidth - kRight);
    const std::size_t next = colour_of.size();
    const auto [entry, is_new] = colour_of.emplace(row.group, next);
    for (const auto& [first, count] : row.runs) {
      if (first < 0 || first >= chart.num_places) continue;
      const std::int64_t end = std::min(first + count, chart.num_places);
      svg += fmt::format(
          "<rect class=\"box\" x=\"{:.2f}\" y=\"{:.1f}\" width=\"{:.2f}\" height=\"{:.1f}\" "
          "fill=\"{}\"><title>{}: {} {}</title></rect>",
          x.at(static_cast<double>(first)), top + 1,
          x.at(static_cast<double>(end)) - x.at(static_cast<double>(first)), kRow - 3,
          colour(entry->second), escape_html(row.name), chart.place_word,
          end == first + 1 ? fmt::format("{}", first) : fmt::format("{} to {}", first, end - 1));
    }
  }
  const std::int64_t every = chart.num_places / 16 + 1;
  for (std::int64_t p = 0; p < chart.num_places; p += every) {
    svg += text_at(x.at(static_cast<double>(p) + 0.5), height - kBottom + 17, "middle",
                   fmt::format("{}", p));
  }
  std::vector<LegendEntry> legend(colour_of.size());
  for (const auto& [name, place] : colour_of) legend[place] = {name, square(place)};
  if (legend.size() == 1 && legend.front().name.empty()) legend.clear();
  return figure(chart.title, svg + "</svg>", legend);
}

std::string draw_timeline(const study::StepTimeline& timeline) {
  if (timeline.events.empty() || timeline.events.size() > kMostBoxes) return "";
  // A row for each process and thread in use; boxes within others lie on top of them.
  std::map<std::pair<int, int>, std::size_t> row_of;
  double end = timeline.end_ms;
  for (const study::TimelineEvent& event : timeline.events) {
    row_of.emplace(std::pair(event.process, event.thread), 0);
    end = std::max(end, event.start_ms + event.duration_ms);
  }
  if (!(end > 0) || !std::isfinite(end)) return "";
  std::size_t num_rows = 0;
  for (auto& [thread, row] : row_of) row = num_rows++;
  if (num_rows > kMostRows) return "";
  constexpr double kRow = 16, kNames = 230;
  const double height = kTop + kRow * static_cast<double>(num_rows) + kBottom;
  const Axis x{0, end, kNames, kWidth - kRight};
  const std::string title =
      fmt::format("Predicted {}: {}", timeline.what, ms_text(timeline.end_ms));
  std::string svg = open_svg(title, height) + x_ticks(x, {1, "ms"}, height);
  for (const auto& [thread, row] : row_of) {
    const study::TimelineProcess& process =
        timeline.processes[static_cast<std::size_t>(thread.first)];
    svg += text_at(kNames - 6, kTop + kRow * static_cast<double>(row) + 12, "end",
                   process.name + ", " + process.threads[static_cast<std::size_t>(thread.second)]);
  }
  std::map<std::string, std::size_t> colour_of;  // by what_of()
  std::vector<const study::TimelineEvent*> order;
  for (const study::TimelineEvent& event : timeline.events) order.push_back(&event);
  std::stable_sort(order.begin(), order.end(),
                   [](const study::TimelineEvent* a, const study::TimelineEvent* b) {
                     return a->duration_ms > b->duration_ms;
                   });
  for (const study::TimelineEvent* event : order) {
    const std::size_t row = row_of.at({event->process, event->thread});
    const std::size_t next = colour_of.size();
    const auto [entry, is_new] = colour_of.emplace(what_of(event->name), next);
    svg += fmt::format(
        "<rect class=\"box\" x=\"{:.2f}\" y=\"{:.1f}\" width=\"{:.2f}\" height=\"{:.1f}\" "
        "fill=\"{}\"><title>{}: {} from {}</title></rect>",
        x.at(event->start_ms), kTop + kRow * static_cast<double>(row),
        std::max(0.5, x.at(event->duration_ms) - x.at(0)), kRow - 2, colour(entry->second),
        escape_html(event->name), ms_text(event->duration_ms), ms_text(event->start_ms));
  }
  std::vector<LegendEntry> legend(colour_of.size());
  for (const auto& [name, place] : colour_of) legend[place] = {name, square(place)};
  if (legend.size() > kNumColours) legend.clear();  // colours repeat
  return figure(title, svg + "</svg>", legend);
}

}  // namespace plimsoll::io
