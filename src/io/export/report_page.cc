// A page in sections: what the plan is and how good, figures, times and memory of every place, the
// parts with their choices, links, frontier, schedule, and the difference from another plan.
//
// What stands around the sections, and tables: html_page.h.

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <variant>

#include "io/export/html_page.h"
#include "io/export/html_text.h"
#include "io/export/vega_chart.h"
#include "plimsoll/io/plan_report_json.h"

namespace plimsoll::io {
namespace {

using study::FigureChange;
using study::PlanKind;
using study::PlanOutline;
using study::PlanReport;

// "fwd_compute" as "forward compute".
std::string words(std::string_view name) {
  std::string text(name);
  std::replace(text.begin(), text.end(), '_', ' ');
  constexpr std::pair<std::string_view, std::string_view> kLong[] = {{"fwd", "forward"},
                                                                     {"bwd", "backward"},
                                                                     {"comms", "communication"},
                                                                     {"kjt", "sparse inputs"}};
  for (const auto& [brief, whole] : kLong) {
    if (const std::size_t at = text.find(brief); at != std::string::npos) {
      text.replace(at, brief.size(), whole);
    }
  }
  return text;
}

// "hbm_optimizer_state" of "hbm" as "optimizer state".
std::string cause_name(std::string_view name, std::string_view total) {
  if (!total.empty() && name.starts_with(total) && name.size() > total.size()) {
    name.remove_prefix(total.size() + 1);
  }
  return words(name);
}

// ---------------------------------------------------------------- what stands where

std::string lower_case(std::string_view word) {
  std::string text(word);
  if (!text.empty() && text.front() >= 'A' && text.front() <= 'Z')
    text.front() = static_cast<char>(text.front() - 'A' + 'a');
  return text;
}

std::string_view place_word(PlanKind kind) {
  switch (kind) {
    case PlanKind::kSharding:
      return "rank";
    case PlanKind::kCheckpointing:
      return "module";
    case PlanKind::kPlacement:
      return "device";
    case PlanKind::kPipeline:
      return "stage";
  }
  return "";
}

std::string_view part_words(PlanKind kind) {
  switch (kind) {
    case PlanKind::kSharding:
      return "Tables";
    case PlanKind::kCheckpointing:
      return "Units";
    case PlanKind::kPlacement:
    case PlanKind::kPipeline:
      return "Operators";
  }
  return "";
}

// What a total of milliseconds or bytes consists of, in the bill's order. Input distribution is in
// no total.
std::vector<std::string> ms_causes(const PlanOutline& outline) {
  std::vector<std::string> causes;
  for (const auto& [name, values] : outline.bill.ms) {
    const bool is_any = std::any_of(values.begin(), values.end(), [](double ms) { return ms > 0; });
    if (is_any && name != "total" && name != "input_dist_comms") causes.push_back(name);
  }
  if (causes.empty() && outline.bill.ms.contains("total")) causes.emplace_back("total");
  return causes;
}

bool is_any(const std::vector<Bytes>& values) {
  return std::any_of(values.begin(), values.end(), [](Bytes bytes) { return bytes > 0; });
}

// Of one tier ("hbm") or of "memory".
std::vector<std::string> byte_causes(const PlanOutline& outline, const std::string& total) {
  std::vector<std::string> causes;
  for (const auto& [name, values] : outline.bill.bytes) {
    if (name.starts_with(total + "_") && name != "memory_cap" && is_any(values)) {
      causes.push_back(name);
    }
  }
  const auto found = outline.bill.bytes.find(total);
  if (causes.empty() && found != outline.bill.bytes.end() && is_any(found->second)) {
    causes.push_back(total);
  }
  if (causes.empty() || total != "hbm") return causes;
  for (const char* name : {"dense", "kjt"}) {  // what the reservation holds besides tables
    const auto held = outline.bill.bytes.find(name);
    if (held != outline.bill.bytes.end() && is_any(held->second)) causes.emplace_back(name);
  }
  return causes;
}

std::vector<double> as_doubles(const std::vector<Bytes>& values) {
  return {values.begin(), values.end()};
}

Bytes bytes_at(const PlanOutline& outline, const std::string& name, std::size_t place) {
  const auto found = outline.bill.bytes.find(name);
  return found == outline.bill.bytes.end() || place >= found->second.size() ? 0
                                                                            : found->second[place];
}

double ms_at(const PlanOutline& outline, const std::string& name, std::size_t place) {
  const auto found = outline.bill.ms.find(name);
  return found == outline.bill.ms.end() || place >= found->second.size() ? 0 : found->second[place];
}

// What tables, dense parameters and inputs may fill: the capacity less the share that is kept free.
std::vector<double> caps_of(const PlanOutline& outline, const std::string& total) {
  std::vector<double> caps;
  const std::string name = total == "memory" ? "memory_cap" : "capacity_" + total;
  if (!outline.bill.bytes.contains(name)) return caps;
  for (std::size_t p = 0; p < outline.places.size(); ++p) {
    const Bytes reserve = total == "hbm" ? bytes_at(outline, "reserve", p) : 0;
    caps.push_back(static_cast<double>(bytes_at(outline, name, p) - reserve));
  }
  return caps;
}

constexpr const char* kTiers[] = {"hbm", "ddr", "ssd", "memory"};

std::string tier_word(std::string_view tier) {
  return tier == "hbm" ? "HBM" : tier == "ddr" ? "DDR" : tier == "ssd" ? "SSD" : "Memory";
}

// ---------------------------------------------------------------- sections

std::string charts_of(const PlanReport& report) {
  const PlanOutline& outline = report.outline;
  if (outline.kind == PlanKind::kCheckpointing) return "";
  const std::string place(place_word(outline.kind));
  std::string html;
  StackedChart times{fmt::format("Milliseconds of every {} by cause", place),
                     ChartUnit::kMs,
                     place,
                     outline.places,
                     {},
                     {},
                     ""};
  for (const std::string& cause : ms_causes(outline)) {
    times.series.emplace_back(cause_name(cause, ""), outline.bill.ms.at(cause));
  }
  html += draw_stacked(times);
  for (const char* const tier : kTiers) {
    StackedChart memory{fmt::format("{} of every {} by cause", tier_word(tier), place),
                        ChartUnit::kBytes,
                        place,
                        outline.places,
                        {},
                        caps_of(outline, tier),
                        std::string(tier) == "hbm" ? "capacity less reserve" : "capacity"};
    for (const std::string& cause : byte_causes(outline, tier)) {
      memory.series.emplace_back(cause_name(cause, tier), as_doubles(outline.bill.bytes.at(cause)));
    }
    html += draw_stacked(memory);
  }
  return html.empty() ? "" : "<h2>Time and memory</h2>\n" + html;
}

std::string memory_of_step(const PlanReport& report) {
  const PlanOutline& outline = report.outline;
  const auto needed = outline.bill.bytes.find("needed");
  if (needed == outline.bill.bytes.end()) return "";
  CurveChart chart;
  chart.title = "Memory that the backward pass of each module needs, from the loss on";
  chart.y_unit = ChartUnit::kBytes;
  chart.has_x_numbers = false;
  chart.x_name = "modules in the order of their backward pass";
  // Forward post-order reversed.
  std::vector<CurvePoint> points;
  double highest_at = 0;
  Bytes highest = 0;
  for (std::size_t i = 0; i < needed->second.size(); ++i) {
    const std::size_t module = needed->second.size() - 1 - i;
    const Bytes bytes = needed->second[module];
    if (bytes <= 0) continue;  // it has no backward pass
    points.push_back(
        {static_cast<double>(i), static_cast<double>(bytes), outline.places.at(module)});
    if (bytes <= highest) continue;
    highest = bytes;
    highest_at = static_cast<double>(i);
  }
  if (report.chosen && report.chosen->bytes > highest) {  // the peak is that of the loss
    highest = report.chosen->bytes;
    highest_at = 0;
    points.insert(points.begin(), {0, static_cast<double>(highest), "loss"});
  }
  chart.curves.emplace_back("needed", std::move(points));
  chart.marked = {highest_at, static_cast<double>(highest)};
  chart.marked_name = "peak " + bytes_text(highest);
  if (const auto budget = outline.figures.find("budget_bytes"); budget != outline.figures.end()) {
    chart.limit = budget->second;
    chart.limit_name = "budget " + bytes_text(static_cast<Bytes>(budget->second));
  }
  const std::string drawn = draw_curves(chart);
  return drawn.empty() ? "" : "<h2>Memory over the step</h2>\n" + drawn;
}

std::string frontier_of(const PlanReport& report, bool has_script) {
  if (report.frontier.empty()) return "";
  CurveChart chart;
  chart.title = report.outline.kind == PlanKind::kSharding
                    ? "Best " + report.objective + " for every size of HBM"
                    : "Least time of recomputing for every peak";
  chart.x_name = report.outline.kind == PlanKind::kSharding ? "HBM of a rank" : "peak";
  const auto points_of = [](const std::vector<math::FrontierPoint>& frontier) {
    std::vector<CurvePoint> points;
    for (std::size_t i = 0; i < frontier.size(); ++i) {
      const math::FrontierPoint& point = frontier[i];
      points.push_back({static_cast<double>(point.bytes), point.ms, ""});
      if (i + 1 == frontier.size()) break;
      // Up to the next point along the slope; there it may jump.
      const auto next = static_cast<double>(frontier[i + 1].bytes);
      points.push_back(
          {next, point.ms + point.slope * (next - static_cast<double>(point.bytes)), ""});
    }
    return points;
  };
  chart.curves.emplace_back("plans", points_of(report.frontier));
  if (!report.frontier_bound.empty()) {
    chart.curves.emplace_back("no plan is below", points_of(report.frontier_bound));
  }
  if (report.chosen) {
    chart.marked = {static_cast<double>(report.chosen->bytes), report.chosen->ms};
    chart.marked_name = fmt::format("this plan: {}, {}", bytes_text(report.chosen->bytes),
                                    ms_text(report.chosen->ms));
  }
  const auto table_of = [&](const char* caption, const std::vector<math::FrontierPoint>& points) {
    PageTable table{caption, {chart.x_name, "ms"}, {}};
    for (const math::FrontierPoint& point : points) {
      table.rows.push_back({bytes_cell(point.bytes), ms_cell(point.ms)});
    }
    return html_of(table, has_script);
  };
  std::string html = "<h2>Memory against time</h2>\n" + (has_script ? draw_curves(chart) : "") +
                     table_of("Points of the curve", report.frontier);
  if (!report.frontier_bound.empty()) {
    html += "<details><summary>The bound as a table</summary>\n" +
            table_of("Points of the curve that no plan is below", report.frontier_bound) +
            "</details>\n";
  }
  return html;
}

PageTable places_table(const PlanOutline& outline) {
  const std::string place(place_word(outline.kind));
  PageTable table;
  table.caption = fmt::format("Every {}, with its milliseconds and bytes by cause", place);
  table.header = {place};
  const bool has_total = outline.bill.ms.contains("total");
  std::vector<std::string> causes = ms_causes(outline);
  if (causes == std::vector<std::string>{"total"}) causes.clear();
  if (has_total) table.header.emplace_back("ms");
  for (const std::string& cause : causes) table.header.push_back(cause_name(cause, "") + " ms");
  struct Column {
    std::string name;
    bool is_cap = false;
    std::string tier;
  };
  std::vector<Column> columns;
  for (const char* const tier : {"hbm", "ddr", "ssd", "memory", "needed"}) {
    const auto found = outline.bill.bytes.find(tier);
    if (found == outline.bill.bytes.end() || !is_any(found->second)) continue;
    const std::string word = std::string_view(tier) == "needed" ? "memory needed" : tier_word(tier);
    columns.push_back({tier, false, tier});
    table.header.push_back(word);
    for (const std::string& cause : byte_causes(outline, tier)) {
      if (cause == tier) continue;
      columns.push_back({cause, false, tier});
      table.header.push_back(cause_name(cause, tier));
    }
    if (!caps_of(outline, tier).empty()) {
      columns.push_back({"", true, tier});
      table.header.push_back("of " + word);
    }
  }
  if (table.header.size() == 1) return table;  // no figures
  std::map<std::string, std::vector<double>> caps;
  for (const Column& column : columns) {
    if (column.is_cap) caps[column.tier] = caps_of(outline, column.tier);
  }
  for (std::size_t p = 0; p < outline.places.size(); ++p) {
    std::vector<PageCell> row{outline.places[p]};
    if (has_total) row.emplace_back(ms_cell(ms_at(outline, "total", p)));
    for (const std::string& cause : causes) row.emplace_back(ms_cell(ms_at(outline, cause, p)));
    for (const Column& column : columns) {
      row.emplace_back(bytes_cell(column.is_cap ? static_cast<Bytes>(caps[column.tier][p])
                                                : bytes_at(outline, column.name, p)));
    }
    table.rows.push_back(std::move(row));
  }
  return table;
}

PageTable parts_table(const PlanOutline& outline) {
  PageTable table;
  table.caption = "What the plan decides of each of them";
  table.header = {"name"};
  std::set<std::string> choices;
  for (const study::PlanPart& part : outline.parts) {
    for (const auto& [choice, value] : part.choices) choices.insert(choice);
  }
  for (const std::string& choice : choices) table.header.push_back(words(choice));
  for (const study::PlanPart& part : outline.parts) {
    std::vector<PageCell> row{part.name};
    for (const std::string& choice : choices) {
      const auto found = part.choices.find(choice);
      row.emplace_back(found == part.choices.end() ? std::string() : found->second);
    }
    table.rows.push_back(std::move(row));
  }
  return table;
}

// Which ranks or devices hold which tables or operators. A module's units and a profile's stages
// are told elsewhere.
std::string matrix_of(const PlanOutline& outline) {
  if (outline.kind != PlanKind::kSharding && outline.kind != PlanKind::kPlacement) return "";
  MatrixChart chart;
  chart.place_word = place_word(outline.kind);
  chart.title = outline.kind == PlanKind::kSharding ? "Tables by the ranks that hold them"
                                                    : "Operators by the devices that run them";
  chart.num_places = static_cast<std::int64_t>(outline.places.size());
  if (outline.parts.size() > kMostRows) return "";
  for (const study::PlanPart& part : outline.parts) {
    MatrixRow row{part.name, "", {}};
    if (const auto type = part.choices.find("sharding_type"); type != part.choices.end()) {
      row.group = type->second;
    }
    for (const embedding::RankRun& run : part.places) row.runs.emplace_back(run.first, run.count);
    chart.rows.push_back(std::move(row));
  }
  return draw_matrix(chart);
}

PageTable links_table(const PlanOutline& outline) {
  PageTable table{
      "What devices send each other for one sample or microbatch, as the graph counts it",
      {"from device", "to device", "amount"},
      {}};
  for (const study::PlanLink& link : outline.links) {
    table.rows.push_back({NumberCell{static_cast<double>(link.from), fmt::format("{}", link.from)},
                          NumberCell{static_cast<double>(link.to), fmt::format("{}", link.to)},
                          NumberCell{link.amount, fmt::format("{:.6g}", link.amount)}});
  }
  return table;
}

std::string figure_text(const std::string& name, const std::optional<double>& value) {
  if (!value) return "not stated";
  return name.ends_with("_bytes") ? bytes_text(static_cast<Bytes>(*value)) : ms_text(*value);
}

std::string choices_text(const std::map<std::string, std::string>& choices) {
  std::string text;
  for (const auto& [choice, value] : choices) {
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", words(choice), value);
  }
  return text;
}

std::string difference_of(const PlanReport& report, bool has_script) {
  if (!report.difference) return "";
  const study::PlanDifference& difference = *report.difference;
  std::string html = fmt::format("<h2>Difference from {}</h2>\n<p>{} of {} {} differ.</p>\n",
                                 escape_html(report.compared_with),
                                 count_text(static_cast<std::int64_t>(difference.changes.size())),
                                 count_text(static_cast<std::int64_t>(difference.num_parts)),
                                 lower_case(part_words(difference.kind)));
  PageTable figures{"Figures of both plans", {"figure", "before", "after"}, {}};
  for (const FigureChange& figure : difference.figures) {
    std::string name = words(figure.name);
    figures.rows.push_back(
        {name, figure_text(figure.name, figure.before), figure_text(figure.name, figure.after)});
  }
  PageTable changes{"What is decided differently", {"name", "change", "before", "after"}, {}};
  for (const study::PartChange& change : difference.changes) {
    changes.rows.push_back({change.name, std::string(to_string(change.kind)),
                            choices_text(change.before), choices_text(change.after)});
  }
  PageTable reasons{"The largest differences and their causes",
                    {"where", "before", "after", "causes", "changed there"},
                    {}};
  for (const study::DifferenceReason& reason : difference.reasons) {
    const auto text = [&reason](double value) {
      return reason.is_bytes ? bytes_text(static_cast<Bytes>(value)) : ms_text(value);
    };
    std::string causes;
    for (const FigureChange& cause : reason.causes) {
      const double by = cause.after.value_or(0) - cause.before.value_or(0);
      causes += fmt::format("{}{} {}{}", causes.empty() ? "" : ", ", words(cause.name),
                            by > 0 ? "+" : "", text(by));
    }
    reasons.rows.push_back({reason.place, NumberCell{reason.before, text(reason.before)},
                            NumberCell{reason.after, text(reason.after)}, causes,
                            fmt::format("{}", fmt::join(reason.parts, ", "))});
  }
  return html + html_of(figures, has_script) + html_of(reasons, has_script) +
         html_of(changes, has_script);
}

std::string head_of(const PlanReport& report) {
  std::string html = fmt::format("<h1>{}</h1>\n<p class=\"soft\">A {} plan",
                                 escape_html(report.name), to_string(report.outline.kind));
  for (const auto& [name, value] : report.made_for) {
    html += fmt::format("; {} {}", words(name), escape_html(value));
  }
  html += "</p>\n";
  if (const std::string bound = study::bound_sentence(report); !bound.empty()) {
    html += fmt::format(
        "<p class=\"verdict\">{}</p>\n<p class=\"soft\">As the plan states; <code>plimsoll "
        "check</code> verifies it.</p>\n",
        escape_html(bound));
  }
  for (const Warning& warning : report.warnings) {
    html += fmt::format("<p class=\"warning\">{}{}</p>\n",
                        warning.place.empty() ? "" : escape_html(warning.place) + ": ",
                        escape_html(warning.message));
  }
  if (report.outline.figures.empty()) return html;
  html += "<dl>";
  for (const auto& [name, value] : report.outline.figures) {
    std::string_view shown = name;
    if (shown.ends_with("_bytes")) shown.remove_suffix(std::string_view("_bytes").size());
    if (shown.ends_with("_ms")) shown.remove_suffix(std::string_view("_ms").size());
    html +=
        fmt::format("<div><dt>{}</dt><dd>{}</dd></div>", words(shown), figure_text(name, value));
  }
  return html + "</dl>\n";
}

// The chart, and its figures as a table that opens.
std::string schedule_of(const study::StepTimeline& timeline, bool has_script) {
  const std::string drawn = draw_timeline(timeline);
  const std::string predicted =
      fmt::format("Predicted {}: {}", timeline.what, ms_text(timeline.end_ms));
  std::string html = "<h2>Schedule</h2>\n";
  if (drawn.empty()) {
    return html + fmt::format(
                      "<p>{}. It is too long to be drawn here; <code>plimsoll trace</code> "
                      "draws it.</p>\n",
                      predicted);
  }
  html += has_script ? drawn : "<p>" + predicted + "</p>\n";
  PageTable table{"What runs where and when", {"where", "what", "from ms", "ms"}, {}};
  for (const study::TimelineEvent& event : timeline.events) {
    const study::TimelineProcess& process =
        timeline.processes[static_cast<std::size_t>(event.process)];
    table.rows.push_back(
        {process.name + ", " + process.threads[static_cast<std::size_t>(event.thread)], event.name,
         ms_cell(event.start_ms), ms_cell(event.duration_ms)});
  }
  return html + "<details><summary>The schedule as a table</summary>\n" +
         html_of(table, has_script) + "</details>\n";
}

std::string body_of(const PlanReport& report, bool has_script) {
  const PlanOutline& outline = report.outline;
  std::string html = head_of(report);
  if (has_script) html += charts_of(report) + memory_of_step(report);
  html += frontier_of(report, has_script);
  if (report.timeline) html += schedule_of(*report.timeline, has_script);
  if (const std::string places = html_of(places_table(outline), has_script); !places.empty()) {
    html += fmt::format("<h2>By {}</h2>\n", place_word(outline.kind)) + places;
  }
  if (const std::string parts = html_of(parts_table(outline), has_script); !parts.empty()) {
    html += fmt::format("<h2>{}</h2>\n", part_words(outline.kind)) +
            (has_script ? matrix_of(outline) : "") + parts;
  }
  if (const std::string links = html_of(links_table(outline), has_script); !links.empty()) {
    html += "<h2>Links</h2>\n" + links;
  }
  html += difference_of(report, has_script);
  return html;
}

}  // namespace

std::string write_report_fragment(const PlanReport& report) {
  return page_body(body_of(report, false));
}

std::string write_report_page(const PlanReport& report) {
  return whole_page(report.name, body_of(report, true));
}

}  // namespace plimsoll::io
