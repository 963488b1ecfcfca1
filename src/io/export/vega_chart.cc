#include "io/export/vega_chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "io/documents/embedded_texts.h"
#include "io/export/html_text.h"
#include "io/json/json_document.h"

namespace plimsoll::io {
namespace {

constexpr std::size_t kNumColours = 8;   // --c0 to --c7 of data/page/page.css
constexpr std::int64_t kRowHeight = 16;  // pixels
constexpr const char* kInk = "var(--ink)";

using Array = JsonValue::Array;
using Object = JsonValue::Object;
using Values = std::map<std::string, JsonValue, std::less<>>;

// A specification's texts "$name" become values.
JsonValue fill(const JsonValue& pattern, const Values& values) {
  if (const auto* text = pattern.as<std::string>()) {
    if (!text->starts_with('$')) return pattern;
    const auto found = values.find(std::string_view(*text).substr(1));
    return found == values.end() ? pattern : found->second;
  }
  if (const auto* array = pattern.as<Array>()) {
    Array filled;
    for (const JsonValue& value : *array) filled.push_back(fill(value, values));
    return {std::move(filled)};
  }
  if (const auto* object = pattern.as<Object>()) {
    Object filled;
    for (const auto& [key, value] : *object) filled.push_back({key, fill(value, values)});
    return {std::move(filled)};
  }
  return pattern;
}

// Of data/page/charts.json.
const JsonValue& specification(std::string_view name) {
  static const JsonValue all = *parse_json(embedded_page_charts(), "charts.json");
  return *all.find(name);
}

std::string figure(std::string_view name, const std::string& title, Values values) {
  values["title"] = {title};
  return fmt::format(
      "<figure tabindex=\"0\"><div class=\"chart\"></div>"
      "<script type=\"application/json\">{}</script><figcaption>{}</figcaption></figure>\n",
      script_json(fill(specification(name), values)), escape_html(title));
}

std::string colour(std::size_t series) { return fmt::format("var(--c{})", series % kNumColours); }

// What the legend lists, with the colours.
struct Legend {
  Array names, colours;
  void add(const std::string& name, const std::string& its_colour) {
    names.push_back({name});
    colours.push_back({its_colour});
  }
  void put(Values& values) && {
    values["names"] = {std::move(names)};
    values["colours"] = {std::move(colours)};
  }
};

// Bytes are drawn in the unit of the largest one.
struct Scale {
  double divisor = 1;
  std::string unit = "ms";
};
Scale scale_of(ChartUnit unit, double largest) {
  if (unit == ChartUnit::kMs) return {};
  constexpr std::pair<Bytes, const char*> kUnits[] = {
      {kTiB, "TiB"}, {kGiB, "GiB"}, {kMiB, "MiB"}, {kKiB, "KiB"}};
  for (const auto& [size, name] : kUnits) {
    if (largest >= static_cast<double>(size)) return {static_cast<double>(size), name};
  }
  return {1, "B"};
}

std::string value_text(ChartUnit unit, double value) {
  return unit == ChartUnit::kMs ? ms_text(value) : bytes_text(static_cast<Bytes>(value));
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

// The expression that gives every row its label.
std::string label_expression(Array labels) {
  return print_compact({std::move(labels)}) + "[datum.value]";
}

Array counted(std::size_t end) {
  Array numbers;
  for (std::size_t i = 0; i < end; ++i) numbers.push_back({static_cast<std::int64_t>(i)});
  return numbers;
}

// Colours by the order in which series come up.
class SeriesColours {
 public:
  void add(const std::string& name) {
    if (places_.emplace(name, names_.size()).second) names_.push_back(name);
  }
  std::size_t size() const { return names_.size(); }
  Legend legend() const {
    Legend legend;
    for (std::size_t s = 0; s < names_.size(); ++s) legend.add(names_[s], colour(s));
    return legend;
  }
  bool is_nameless() const { return names_.size() == 1 && names_.front().empty(); }

 private:
  std::map<std::string, std::size_t> places_;
  std::vector<std::string> names_;
};

JsonValue box(std::size_t row, const std::string& series, double from, double to,
              const std::string& text) {
  return {Object{{"row", {static_cast<std::int64_t>(row)}},
                 {"series", {series}},
                 {"from", {from}},
                 {"to", {to}},
                 {"text", {text}}}};
}

}  // namespace

std::string draw_stacked(const StackedChart& chart) {
  const std::size_t num_places = chart.places.size();
  double largest = largest_sum(chart);
  if (num_places == 0 || !(largest > 0) || !std::isfinite(largest)) return "";
  double largest_cap = 0;
  for (const double cap : chart.caps) {
    if (std::isfinite(cap)) largest_cap = std::max(largest_cap, cap);
  }
  largest = std::max(largest, largest_cap);
  const bool has_caps = chart.caps.size() == num_places;
  const Scale scale = scale_of(chart.unit, largest);
  const bool has_areas = num_places > kMostBars;
  const auto place_at = [&](std::size_t p) -> JsonValue {
    if (has_areas) return {static_cast<std::int64_t>(p)};
    return {chart.places[p]};
  };
  // The steps of areas end at the place after the last.
  const std::size_t end = has_areas ? num_places + 1 : num_places;
  const auto at = [num_places](const std::vector<double>& values, std::size_t p) {
    p = std::min(p, num_places - 1);
    return p < values.size() && std::isfinite(values[p]) ? values[p] : 0;
  };
  Legend legend;
  Array values, caps, cap, cap_names;
  for (std::size_t s = 0; s < chart.series.size(); ++s) {
    const auto& [name, numbers] = chart.series[s];
    legend.add(name, colour(s));
    for (std::size_t p = 0; p < end; ++p) {
      const double value = at(numbers, p);
      if (!has_areas && !(value > 0)) continue;
      Object row{{"place", place_at(p)},
                 {"series", {name}},
                 {"order", {static_cast<std::int64_t>(s)}},
                 {"value", {value / scale.divisor}}};
      if (!has_areas) {
        row.push_back(
            {"text",
             {fmt::format("{}, {}: {}", chart.places[p], name, value_text(chart.unit, value))}});
      }
      values.push_back({std::move(row)});
    }
  }
  if (has_caps) {
    const bool is_same = std::all_of(chart.caps.begin(), chart.caps.end(),
                                     [&chart](double one) { return one == chart.caps.front(); });
    const std::string text =
        is_same ? chart.cap_name + ": " + value_text(chart.unit, largest_cap) : chart.cap_name;
    const JsonValue label{Object{{"value", {largest_cap / scale.divisor}}, {"text", {text}}}};
    cap_names.push_back(label);
    if (is_same && !has_areas) {
      cap.push_back(label);
    } else {
      for (std::size_t p = 0; p < end; ++p) {
        caps.push_back(
            {Object{{"place", place_at(p)}, {"value", {at(chart.caps, p) / scale.divisor}}}});
      }
    }
  }
  Array places;
  if (!has_areas) {
    for (const std::string& place : chart.places) places.push_back({place});
  }
  Values parts{{"values", {std::move(values)}},
               {"caps", {std::move(caps)}},
               {"cap", {std::move(cap)}},
               {"cap_names", {std::move(cap_names)}},
               {"cap_name", {chart.cap_name}},
               {"places", {std::move(places)}},
               {"num_places", {static_cast<std::int64_t>(num_places)}},
               {"place_word", {chart.place_word}},
               {"top", {largest / scale.divisor * (has_caps ? 1.12 : 1.05)}},
               {"unit", {scale.unit}}};
  std::move(legend).put(parts);
  return figure(has_areas ? "areas" : "bars", chart.title, std::move(parts));
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
  const auto is_drawn = [](const CurvePoint& point) {
    return std::isfinite(point.x) && std::isfinite(point.y);
  };
  for (const auto& [name, points] : chart.curves) {
    for (const CurvePoint& point : points) {
      if (is_drawn(point)) widen(point.x, point.y);
    }
  }
  if (num_points < 2 || !(x_to > x_from)) return "";
  if (chart.marked) widen(chart.marked->first, chart.marked->second);
  if (chart.limit) largest = std::max(largest, *chart.limit);
  if (!(largest > 0)) largest = 1;
  const Scale y = scale_of(chart.y_unit, largest);
  const Scale x = chart.has_x_numbers ? scale_of(chart.x_unit, x_to) : Scale{1, ""};
  Legend legend;
  Array values, limits, marked;
  for (std::size_t c = 0; c < chart.curves.size(); ++c) {
    const auto& [name, points] = chart.curves[c];
    legend.add(name, colour(c));
    for (const CurvePoint& point : points) {
      if (!is_drawn(point)) continue;
      const std::string what = point.name.empty() ? value_text(chart.x_unit, point.x) : point.name;
      values.push_back(
          {Object{{"x", {point.x / x.divisor}},
                  {"y", {point.y / y.divisor}},
                  {"series", {name}},
                  {"text", {fmt::format("{}: {}", what, value_text(chart.y_unit, point.y))}}}});
    }
  }
  if (chart.limit) {
    limits.push_back({Object{{"y", {*chart.limit / y.divisor}}, {"text", {chart.limit_name}}}});
  }
  if (chart.marked) {
    legend.add(chart.marked_name, kInk);
    marked.push_back({Object{{"x", {chart.marked->first / x.divisor}},
                             {"y", {chart.marked->second / y.divisor}},
                             {"series", {chart.marked_name}},
                             {"text", {chart.marked_name}}}});
  }
  Values parts{{"values", {std::move(values)}},
               {"limits", {std::move(limits)}},
               {"marked", {std::move(marked)}},
               {"x_from", {x_from / x.divisor}},
               {"x_to", {x_to / x.divisor}},
               {"y_to", {largest / y.divisor * (chart.limit ? 1.12 : 1.05)}},
               {"x_title", {chart.has_x_numbers ? chart.x_name + ", " + x.unit : chart.x_name}},
               {"y_title", {y.unit}},
               {"has_x_numbers", {chart.has_x_numbers}}};
  std::move(legend).put(parts);
  return figure("curves", chart.title, std::move(parts));
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
  Legend legend;
  Array values, front;
  for (std::size_t g = 0; g < chart.groups.size(); ++g) {
    const auto& [name, points] = chart.groups[g];
    legend.add(name, colour(g));
    for (const ScatterPoint& point : points) {
      values.push_back(
          {Object{{"x", {point.x}}, {"y", {point.y}}, {"series", {name}}, {"text", {point.name}}}});
    }
  }
  if (!chart.line.empty()) legend.add(chart.line_name, kInk);
  for (const auto& [x, y] : chart.line) {
    front.push_back({Object{{"x", {x}}, {"y", {y}}, {"series", {chart.line_name}}}});
  }
  Values parts{{"values", {std::move(values)}}, {"front", {std::move(front)}},
               {"x_to", {x_to * 1.02}},         {"y_to", {y_to * 1.05}},
               {"x_title", {chart.x_name}},     {"y_title", {chart.y_name}}};
  std::move(legend).put(parts);
  return figure("points", chart.title, std::move(parts));
}

std::string draw_matrix(const MatrixChart& chart) {
  if (chart.rows.empty() || chart.num_places == 0 || chart.rows.size() > kMostRows) return "";
  SeriesColours series;
  Array values, labels;
  for (std::size_t r = 0; r < chart.rows.size(); ++r) {
    const MatrixRow& row = chart.rows[r];
    constexpr std::size_t kLongest = 34;  // the end of a dotted name tells more than its beginning
    const bool is_long = row.name.size() > kLongest;
    labels.push_back({is_long ? "..." + row.name.substr(row.name.size() - kLongest) : row.name});
    series.add(row.group);
    for (const auto& [first, count] : row.runs) {
      if (first < 0 || first >= chart.num_places) continue;
      const std::int64_t end = std::min(first + count, chart.num_places);
      const std::string where =
          end == first + 1 ? fmt::format("{}", first) : fmt::format("{} to {}", first, end - 1);
      values.push_back(box(r, row.group, static_cast<double>(first) - 0.5,
                           static_cast<double>(end) - 0.5,
                           fmt::format("{}: {} {}", row.name, chart.place_word, where)));
    }
  }
  Values parts{{"values", {std::move(values)}},
               {"rows", {counted(chart.rows.size())}},
               {"height", {kRowHeight * static_cast<std::int64_t>(chart.rows.size())}},
               {"labels", {label_expression(std::move(labels))}},
               {"x_from", {-0.5}},
               {"x_to", {static_cast<double>(chart.num_places) - 0.5}},
               {"x_step", {std::int64_t{1}}},
               {"x_title", {chart.place_word}},
               {"legend", series.is_nameless() ? JsonValue{} : JsonValue{Object{}}}};
  series.legend().put(parts);
  return figure("rows", chart.title, std::move(parts));
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
  Array labels;
  for (auto& [thread, row] : row_of) {
    row = labels.size();
    const study::TimelineProcess& process =
        timeline.processes[static_cast<std::size_t>(thread.first)];
    labels.push_back(
        {process.name + ", " + process.threads[static_cast<std::size_t>(thread.second)]});
  }
  const std::size_t num_rows = labels.size();
  if (num_rows > kMostRows) return "";
  std::vector<const study::TimelineEvent*> order;
  for (const study::TimelineEvent& event : timeline.events) order.push_back(&event);
  std::stable_sort(order.begin(), order.end(),
                   [](const study::TimelineEvent* a, const study::TimelineEvent* b) {
                     return a->duration_ms > b->duration_ms;
                   });
  SeriesColours series;
  Array values;
  for (const study::TimelineEvent* event : order) {
    const std::string what = what_of(event->name);
    series.add(what);
    values.push_back(box(row_of.at({event->process, event->thread}), what, event->start_ms,
                         event->start_ms + event->duration_ms,
                         fmt::format("{}: {} from {}", event->name, ms_text(event->duration_ms),
                                     ms_text(event->start_ms))));
  }
  const bool has_legend = series.size() <= kNumColours;  // else colours repeat
  Values parts{{"values", {std::move(values)}},
               {"rows", {counted(num_rows)}},
               {"height", {kRowHeight * static_cast<std::int64_t>(num_rows)}},
               {"labels", {label_expression(std::move(labels))}},
               {"x_from", {0.0}},
               {"x_to", {end}},
               {"x_step", {0.0}},
               {"x_title", {"ms"}},
               {"legend", has_legend ? JsonValue{Object{}} : JsonValue{}}};
  series.legend().put(parts);
  return figure("rows", fmt::format("Predicted {}: {}", timeline.what, ms_text(timeline.end_ms)),
                std::move(parts));
}

}  // namespace plimsoll::io
