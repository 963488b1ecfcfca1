// plimsoll diff: what differs between two plans, and why.

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "plimsoll/common.h"
#include "plimsoll/help.h"
#include "plimsoll/io/plan_difference_json.h"
#include "plimsoll/plan_commands.h"
#include "plimsoll/plans/any_plan.h"
#include "plimsoll/study/plan_difference.h"
#include "plimsoll/text/text_layout.h"
#include "plimsoll/text/text_table.h"

namespace plimsoll::app {
namespace {

using study::FigureChange;
using study::PartChange;
using study::PlanDifference;
using study::PlanKind;

constexpr std::size_t kMostRows = 20;    // of changes, where -v does not ask for all
constexpr std::size_t kMostReasons = 3;  // as above, of milliseconds and of bytes

struct DiffFlags {
  GlobalFlags global;
  AnyPlanFlags plan;
  std::string before, after;
  bool wants_exit_code = false;
};

struct Compared {
  PlanDifference difference;
  std::vector<Warning> warnings;
  std::string rated_at;  // a line for each plan that does not record a batch size
};

Result<Compared> compare(const DiffFlags& flags) {
  PLIMSOLL_RETURN_IF_ERROR(check_standard_input(
      {flags.before, flags.after, flags.plan.planning.model, flags.plan.planning.on}));
  PLIMSOLL_ASSIGN(AnyPlan before, load_any_plan(flags.plan, flags.before));
  PLIMSOLL_ASSIGN(AnyPlan after, load_any_plan(flags.plan, flags.after, &before));
  // A plan that records no options is rated with those of the other one.
  if (!before.rated_at.empty() && after.rated_at.empty() && flags.before != "-") {
    PLIMSOLL_ASSIGN(before, load_any_plan(flags.plan, flags.before, &after));
  }
  Compared compared;
  for (const AnyPlan* plan : {&before, &after}) {
    if (plan->rated_at.empty()) continue;
    compared.rated_at += fmt::format("{} is rated at {}\n", plan->name, plan->rated_at);
  }
  PLIMSOLL_ASSIGN(compared.difference, compare_any_plans(before, after));
  compared.warnings = std::move(before.warnings);
  std::move(after.warnings.begin(), after.warnings.end(), std::back_inserter(compared.warnings));
  return compared;
}

// ---------------------------------------------------------------- text

std::string_view parts_of(PlanKind kind) {
  switch (kind) {
    case PlanKind::kSharding:
      return "tables";
    case PlanKind::kCheckpointing:
      return "units";
    case PlanKind::kPlacement:
    case PlanKind::kPipeline:
      return "operators";
  }
  return "";
}

bool is_bytes(const std::string& figure) { return figure.ends_with("_bytes"); }

std::string amount_text(double amount, bool bytes) {
  return bytes ? size_text(static_cast<Bytes>(amount)) : ms_text(amount);
}

// "-12.7 %" from one figure to another; empty where there is no share.
std::string change_text(double before, double after) {
  if (before == after) return "as before";
  if (before == 0) return "";
  return fmt::format("{}{}", after > before ? "+" : "-",
                     format_percent(std::abs(after - before) / std::abs(before)));
}

std::string figures_text(const std::vector<FigureChange>& figures) {
  TextTable table({"", "before", "after", ""}, {false, true, true, false});
  bool has_rows = false;
  for (const FigureChange& figure : figures) {
    const auto cell = [&figure](const std::optional<double>& value) {
      return value ? amount_text(*value, is_bytes(figure.name)) : std::string("-");
    };
    std::string name = figure.name;
    if (is_bytes(name)) name.resize(name.size() - std::string_view("_bytes").size());
    if (name.ends_with("_ms")) name.resize(name.size() - std::string_view("_ms").size());
    std::replace(name.begin(), name.end(), '_', ' ');
    table.add({name, cell(figure.before), cell(figure.after),
               figure.before && figure.after ? change_text(*figure.before, *figure.after) : ""});
    has_rows = true;
  }
  return has_rows ? table.text(2) + "\n" : "";
}

// What follows a choice's name, or stands for it, where that reads better.
constexpr std::pair<std::string_view, std::string_view> kLeadIns[] = {
    {"sharding_type", ""}, {"compute_kernel", ""}, {"ranks", "on "},        {"shards", "shards "},
    {"kind", ""},          {"devices", "on "},     {"recomputed", "again "}};

// "table_wise, fused, on 7": the choices, without what others of them tell.
std::string choices_text(const std::map<std::string, std::string>& choices) {
  std::string text;
  const auto add = [&text](std::string_view lead_in, const std::string& value) {
    text += fmt::format("{}{}{}", text.empty() ? "" : ", ", lead_in, value);
  };
  for (const auto& [choice, lead_in] : kLeadIns) {
    const auto found = choices.find(std::string(choice));
    if (found == choices.end() || (choice == "shards" && choices.contains("sharding_type"))) {
      continue;
    }
    std::string value = found->second;
    // Which operators: -v and the document list them.
    if (choice == "recomputed") value.resize(std::min(value.find(':'), value.size()));
    add(lead_in, value);
  }
  for (const auto& [choice, value] : choices) {
    const bool is_told =
        std::any_of(std::begin(kLeadIns), std::end(kLeadIns),
                    [&name = choice](const auto& known) { return known.first == name; });
    if (is_told || (choice == "discard_ratio" && choices.contains("recomputed"))) continue;
    std::string name = choice;
    std::replace(name.begin(), name.end(), '_', ' ');
    add(name + " ", value);
  }
  return text.empty() ? "-" : text;
}

// "13 of 26 tables: 5 moved, 8 split".
std::string counts_text(const PlanDifference& difference) {
  std::map<study::ChangeKind, int> counts;
  for (const PartChange& change : difference.changes) ++counts[change.kind];
  std::string kinds;
  for (const auto& [kind, count] : counts) {
    kinds += fmt::format("{}{} {}", kinds.empty() ? "" : ", ", count, to_string(kind));
  }
  return fmt::format(
      "{} of {} {}: {}", grouped(static_cast<std::int64_t>(difference.changes.size())),
      grouped(static_cast<std::int64_t>(difference.num_parts)), parts_of(difference.kind), kinds);
}

// Changes that read alike and follow each other are one row, their names folded.
std::string changes_text(const PlanDifference& difference, bool is_all) {
  struct Row {
    std::vector<std::string> names;
    std::string change, before, after;
  };
  std::vector<Row> rows;
  for (const PartChange& change : difference.changes) {
    Row row{{change.name},
            std::string(to_string(change.kind)),
            choices_text(change.before),
            choices_text(change.after)};
    if (!is_all && !rows.empty() && rows.back().change == row.change &&
        rows.back().before == row.before && rows.back().after == row.after) {
      rows.back().names.push_back(change.name);
    } else {
      rows.push_back(std::move(row));
    }
  }
  if (rows.empty()) return "";
  TextTable table({"what", "change", "before", "after"});
  std::size_t num_left = 0;
  for (std::size_t r = 0; r < rows.size(); ++r) {
    const Row& row = rows[r];
    if (!is_all && r >= kMostRows) {
      num_left += row.names.size();
      continue;
    }
    table.add(
        {fmt::format("{}", fmt::join(folded(row.names), ", ")), row.change, row.before, row.after});
  }
  std::string text = table.text(2);
  if (num_left > 0) {
    text += fmt::format("  and {} more (-v lists them)\n",
                        grouped(static_cast<std::int64_t>(num_left)));
  }
  return text + "\n";
}

std::string moved_text(std::int64_t values, const std::optional<Bytes>& bytes) {
  return bytes ? size_text(*bytes) : counted(values, "value", "values");
}

// What has to be moved, and over which links the most.
std::string traffic_text(const PlanDifference& difference, bool is_all) {
  if (difference.traffic.empty()) return "";
  std::string text;
  for (const bool is_between : {false, true}) {
    std::int64_t values = 0;
    std::optional<Bytes> bytes;
    const study::RankTraffic* most = nullptr;
    for (const study::RankTraffic& traffic : difference.traffic) {
      if (traffic.is_between_hosts != is_between) continue;
      values += traffic.received_values;
      if (traffic.received_bytes) bytes = bytes.value_or(0) + *traffic.received_bytes;
      if (most == nullptr || traffic.received_values > most->received_values) most = &traffic;
    }
    if (most == nullptr) continue;
    text +=
        screen_row(is_between ? "between hosts" : "within hosts",
                   fmt::format("{} to move, the most to rank {}: {}{}", moved_text(values, bytes),
                               most->rank, moved_text(most->received_values, most->received_bytes),
                               bytes ? "" : " (in bytes with --model)"));
  }
  if (is_all) {
    TextTable table({"rank", "link", "sends", "receives"}, {true, false, true, true});
    for (const study::RankTraffic& traffic : difference.traffic) {
      table.add({fmt::format("{}", traffic.rank),
                 traffic.is_between_hosts ? "between hosts" : "within the host",
                 moved_text(traffic.sent_values, traffic.sent_bytes),
                 moved_text(traffic.received_values, traffic.received_bytes)});
    }
    text += "\n" + table.text(2);
  }
  return text + "\n";
}

std::string links_text(const PlanDifference& difference, bool is_all) {
  if (difference.links.empty()) return "";
  TextTable table({"from", "to", "before", "after"}, {true, true, true, true});
  std::size_t num_rows = 0;
  for (const study::LinkChange& link : difference.links) {
    if (!is_all && num_rows == kMostRows) break;
    ++num_rows;
    table.add({fmt::format("{}", link.from), fmt::format("{}", link.to),
               fmt::format("{:.6g}", link.before), fmt::format("{:.6g}", link.after)});
  }
  std::string text = "  Sent from device to device, in the graph's unit:\n" + table.text(2);
  if (num_rows < difference.links.size()) {
    text += fmt::format("  and {} more (-v lists them)\n", difference.links.size() - num_rows);
  }
  return text + "\n";
}

std::string reasons_text(const PlanDifference& difference, bool is_all) {
  std::string text;
  std::map<bool, std::size_t> num_of;
  for (const study::DifferenceReason& reason : difference.reasons) {
    if (!is_all && ++num_of[reason.is_bytes] > kMostReasons) continue;
    std::string causes;
    for (const FigureChange& cause : reason.causes) {
      const double by = cause.after.value_or(0) - cause.before.value_or(0);
      causes += fmt::format("{}{} {}{}", causes.empty() ? "" : ", ", cause.name, by < 0 ? "-" : "+",
                            amount_text(std::abs(by), reason.is_bytes));
    }
    std::string line =
        fmt::format("  {}: {} -> {}", reason.place, amount_text(reason.before, reason.is_bytes),
                    amount_text(reason.after, reason.is_bytes));
    if (!causes.empty()) line += fmt::format(" ({})", causes);
    constexpr std::size_t kMostParts = 6;
    std::vector<std::string> parts = reason.parts;
    if (!is_all && parts.size() > kMostParts) {
      const std::size_t more = parts.size() - kMostParts;
      parts.resize(kMostParts);
      parts.push_back(fmt::format("{} more", more));
    }
    if (!parts.empty()) line += fmt::format("; {}", fmt::join(parts, ", "));
    text += line + "\n";
  }
  return text.empty() ? "" : "Largest differences:\n" + in_lines(text, 4);
}

// "predicted step 4.114 ms -> 3.783 ms (-8 %)": the figure that plans of this kind are chosen by.
std::string gain_text(const PlanDifference& difference) {
  constexpr std::pair<std::string_view, std::string_view> kMain[] = {
      {"time", "predicted step"},        {"rating", "slowest rank"},
      {"recompute_ms", "recomputation"}, {"slowest_stage", "slowest stage"},
      {"throughput", "slowest stage"},   {"latency", "latency"},
      {"pipeline", "one batch"},         {"batch", "one batch"}};
  for (const auto& [name, words] : kMain) {
    for (const FigureChange& figure : difference.figures) {
      if (figure.name != name || !figure.before || !figure.after) continue;
      if (*figure.before == *figure.after) {
        return fmt::format("{} {} in both", words, ms_text(*figure.after));
      }
      const std::string change = change_text(*figure.before, *figure.after);
      return fmt::format("{} {} -> {}{}", words, ms_text(*figure.before), ms_text(*figure.after),
                         change.empty() ? "" : fmt::format(" ({})", change));
    }
  }
  return "";
}

std::string text_of(const DiffFlags& flags, const Compared& compared) {
  const PlanDifference& difference = compared.difference;
  const bool is_all = flags.global.verbosity > 0;
  const auto heading = [&](const std::string& line, Tone tone) {
    return line.empty() ? line : paint(shown(line), tone, flags.global) + "\n";
  };
  const std::string decided = !difference.is_different     ? "The same decisions"
                              : difference.changes.empty() ? "The same decisions on other ranks"
                                                           : counts_text(difference);
  return shown(fmt::format("{} -> {} ({} plans)\n", flags.before, flags.after,
                           to_string(difference.kind))) +
         heading(gain_text(difference), Tone::kHeading) + shown(compared.rated_at) +
         heading(decided, difference.is_different ? Tone::kHeading : Tone::kGood) + "\n" +
         shown(figures_text(difference.figures) + changes_text(difference, is_all) +
               traffic_text(difference, is_all) + links_text(difference, is_all) +
               reasons_text(difference, is_all));
}

int run_diff(const DiffFlags& flags) {
  const auto compared = compare(flags);
  if (!compared) return report(with_flag_as_place(compared.error()), flags.global);
  if (flags.global.json) {
    print(io::write_difference(compared->difference, compared->warnings));
  } else {
    print(text_of(flags, *compared));
  }
  if (!flags.global.quiet) {
    for (const std::string& line : warning_lines(compared->warnings, flags.global.verbosity > 0)) {
      print_error_text(line + "\n");
    }
  }
  return flags.wants_exit_code && compared->difference.is_different ? kExitDiff : kExitOk;
}

}  // namespace

void add_diff_command(CLI::App& app, Run& run) {
  auto flags = std::make_shared<DiffFlags>();
  CLI::App* command = app.add_subcommand(
      "diff", "Show what differs between two plans: decisions, times, memory, and what moves");
  command->option_defaults()->group(kCommonGroup);
  command
      ->add_option("BEFORE", flags->before,
                   "A plan of any kind that `plimsoll check` reads; '-' for standard input")
      ->required();
  command->add_option("AFTER", flags->after, "Another plan of that kind")->required();
  command->add_flag("--exit-code", flags->wants_exit_code,
                    "Exit with 6 if the plans decide differently");
  add_any_plan_flags(*command, flags->plan);
  add_global_flags(*command, flags->global);
  set_help(*command, {{kCommonGroup, "plimsoll diff old.json new.json --exit-code"}},
           {"diff old.json torchrec.json --model model.json --on 8x80GiB", "",
            "diff old.json new.json --model graph.json"});
  command->callback([flags, &run] { run = [flags] { return run_diff(*flags); }; });
}

}  // namespace plimsoll::app
