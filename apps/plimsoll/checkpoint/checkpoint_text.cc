#include "plimsoll/checkpoint/checkpoint_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <numeric>
#include <utility>
#include <vector>

#include "plimsoll/core/run_context.h"
#include "plimsoll/core/units.h"
#include "plimsoll/text/text_table.h"

namespace plimsoll::app {
namespace {

using checkpoint::CheckpointUnit;
using study::CheckpointAnswer;

void add_units(const std::vector<CheckpointUnit>& units, const std::string& indent,
               TextTable& table) {
  for (const CheckpointUnit& unit : units) {
    std::string name = indent + unit.fqns.front();
    if (unit.fqns.size() > 1) name += fmt::format(" ... {}", unit.fqns.back());
    const auto saved =
        std::count_if(unit.ops.begin(), unit.ops.end(), [](const auto& op) { return op.save; });
    table.add({std::move(name), std::string(to_string(unit.kind)),
               unit.ops.empty() ? "" : fmt::format("{} of {}", saved, unit.ops.size()),
               format_bytes(unit.discarded), fmt::format("{:.4f}", unit.discard_ratio),
               fmt::format("{:.4f}", unit.recompute_ms)});
    add_units(unit.nested, indent + "  ", table);
  }
}

// Every unit with all its figures, for -v.
std::string units_text(const std::vector<CheckpointUnit>& units) {
  TextTable table({"unit", "kind", "operators kept", "discards", "ratio", "recompute ms"},
                  {false, false, true, true, true, true});
  add_units(units, "", table);
  return table.text();
}

std::string policy_of(const CheckpointUnit& unit) {
  if (!unit.ops.empty()) {
    const auto saved =
        std::count_if(unit.ops.begin(), unit.ops.end(), [](const auto& op) { return op.save; });
    return fmt::format("recompute {} of {} operators",
                       static_cast<std::ptrdiff_t>(unit.ops.size()) - saved, unit.ops.size());
  }
  if (unit.discard_ratio >= 1) return "recompute everything";
  return fmt::format("recompute {} of its bytes", format_percent(unit.discard_ratio));
}

void list_units(const std::vector<CheckpointUnit>& units, int depth,
                std::vector<std::pair<int, const CheckpointUnit*>>& list) {
  for (const CheckpointUnit& unit : units) {
    list.emplace_back(depth, &unit);
    list_units(unit.nested, depth + 1, list);
  }
}

// Units in a row that do the same and whose names count up are one row.
std::string folded_units(const std::vector<CheckpointUnit>& units) {
  std::vector<std::pair<int, const CheckpointUnit*>> list;
  list_units(units, 0, list);
  std::vector<std::string> names;
  for (const auto& [depth, unit] : list) names.push_back(unit->fqns.front());
  const std::size_t prefix = common_prefix(names).size();
  const auto is_alike = [&list](std::size_t a, std::size_t b) {
    const CheckpointUnit& one = *list[a].second;
    const CheckpointUnit& other = *list[b].second;
    return list[a].first == list[b].first && one.fqns.size() == 1 && other.fqns.size() == 1 &&
           one.nested.empty() && other.nested.empty() && one.kind == other.kind &&
           policy_of(one) == policy_of(other) && one.discarded == other.discarded &&
           one.recompute_ms == other.recompute_ms;
  };
  TextTable table({"modules", "policy", "saves", "costs"}, {false, false, true, true});
  for (std::size_t i = 0; i < list.size();) {
    std::vector<std::string> alike;
    std::size_t end = i;
    do {
      alike.push_back(names[end].substr(prefix));
    } while (++end < list.size() && is_alike(i, end));
    for (const FoldedName& name : fold_names(alike)) {
      const auto& [depth, unit] = list[i];
      const std::string_view each = name.count > 1 ? " each" : "";
      std::string text = std::string(2 * static_cast<std::size_t>(depth), ' ') + name.range();
      if (unit->fqns.size() > 1) text += fmt::format(" ... {}", unit->fqns.back().substr(prefix));
      table.add({std::move(text), policy_of(*unit),
                 fmt::format("{}{}", size_text(unit->discarded), each),
                 fmt::format("{}{}", ms_text(unit->recompute_ms), each)});
    }
    i = end;
  }
  return table.text(2);
}

std::string frontier_text(const CheckpointAnswer& answer, double compute_ms) {
  TextTable table({"budget", "bytes", "recompute ms", "of the step", "next GiB saves ms"},
                  {true, true, true, true, true});
  constexpr std::size_t kMaxRows = 24;
  const std::size_t n = answer.frontier.size();
  const std::size_t step = std::max<std::size_t>(1, (n + kMaxRows - 2) / (kMaxRows - 1));
  // Time at the budget of a point and one GiB more: of the last point within it.
  const auto ms_with_one_gib_more = [&answer](const math::FrontierPoint& point) {
    const auto after = std::upper_bound(
        answer.frontier.begin(), answer.frontier.end(), point.bytes + kGiB,
        [](Bytes bytes, const math::FrontierPoint& other) { return bytes < other.bytes; });
    const math::FrontierPoint& last = *std::prev(after);
    return last.ms + last.slope * static_cast<double>(point.bytes + kGiB - last.bytes);
  };
  const auto add = [&](const math::FrontierPoint& point) {
    table.add({format_bytes(point.bytes), fmt::format("{}", point.bytes),
               fmt::format("{:.4f}", point.ms),
               compute_ms > 0 ? fmt::format("{:.2f} %", 100 * point.ms / compute_ms) : "",
               fmt::format("{:.3f}", std::max(0.0, point.ms - ms_with_one_gib_more(point)))});
  };
  for (std::size_t i = 0; i + 1 < n; i += step) add(answer.frontier[i]);
  if (n > 0) add(answer.frontier.back());
  std::string text = table.text();
  if (step > 1) {
    text += fmt::format("... every {}th of {} points (--json has all of them)\n", step, n);
  }
  return text;
}

// What every position needs. Of large models, unless all are asked for, those that need the most,
// still in the order of return.
std::string profile_text(const std::vector<study::ProfileEntry>& profile, bool prints_all) {
  constexpr std::size_t kMaxRows = 32;
  const bool is_short = prints_all || profile.size() <= kMaxRows;
  std::vector<std::size_t> rows(profile.size());
  std::iota(rows.begin(), rows.end(), std::size_t{0});
  if (!is_short) {
    std::stable_sort(rows.begin(), rows.end(), [&](std::size_t a, std::size_t b) {
      return profile[a].bytes > profile[b].bytes;
    });
    std::sort(rows.begin(), rows.begin() + kMaxRows);
  }
  TextTable table({"backward of", "needs", "bytes"}, {false, true, true});
  for (std::size_t k = 0; k < (is_short ? rows.size() : kMaxRows); ++k) {
    const study::ProfileEntry& entry = profile[rows[k]];
    table.add({entry.fqn, format_bytes(entry.bytes), fmt::format("{}", Bytes{entry.bytes})});
  }
  std::string text = table.text();
  if (!is_short) {
    text += fmt::format("... {} more that need at most {} (--profile lists all of them)\n",
                        rows.size() - kMaxRows, format_bytes(profile[rows[kMaxRows]].bytes));
  }
  return text;
}

}  // namespace

namespace {

// "At most 0.4 % above the best possible plan (proved)".
std::string quality(const CheckpointAnswer& answer) {
  constexpr double kUsefulGap = 1;  // a bound below half of the time tells nobody anything
  const auto gap = answer.certificate->gap();
  if (gap && *gap > kUsefulGap) return "No useful bound was proved.";
  if (!gap) return "No bound was computed: how good the best possible plan is, is not known.";
  if (*gap < SearchOptions{}.tolerance) return "No plan is faster within this memory (proved).";
  return fmt::format("At most {} above the best possible plan (proved).", format_percent(*gap));
}

std::string plan_head(const CheckpointAnswer& answer, const CheckpointSubject& subject) {
  const study::CheckpointPrediction& predicted = *answer.predicted;
  std::string text = fmt::format("{}: peak {}", subject.name, size_text(predicted.peak_bytes));
  if (answer.budget_bytes) text += fmt::format(" of {} allowed", size_text(*answer.budget_bytes));
  text += fmt::format(" ({} without checkpointing), ", size_text(subject.baseline));
  if (predicted.recompute_ms == 0) return text + "no more time per step\n" + quality(answer) + "\n";
  text += subject.compute_ms > 0
              ? fmt::format("{} more time per step",
                            format_percent(predicted.recompute_ms / subject.compute_ms))
              : fmt::format("{} more per step", ms_text(predicted.recompute_ms));
  return text + "\n" + quality(answer) + "\n";
}

// What is left out above, for -v.
std::string plan_details(const CheckpointAnswer& answer, const CheckpointSubject& subject) {
  const study::CheckpointPrediction& predicted = *answer.predicted;
  std::string text = fmt::format(
      "\n{} modules, {:.4g} ms forward and backward\npeak {} bytes {}, recompute {:.6g} ms\n",
      subject.num_modules, subject.compute_ms, predicted.peak_bytes,
      predicted.binding.empty() ? "at the loss" : "in the backward of " + predicted.binding,
      predicted.recompute_ms);
  if (predicted.price_ms_per_gib) {
    text += fmt::format("one more GiB saves about {:.4g} ms\n", *predicted.price_ms_per_gib);
  }
  return text;
}

}  // namespace

CheckpointText describe_checkpoint(const CheckpointAnswer& answer, const CheckpointSubject& subject,
                                   const CheckpointPrint& print) {
  CheckpointText text;
  if (answer.predicted) {
    text.head = plan_head(answer, subject);
  } else {
    text.head = fmt::format(
        "{}: {} at the peak without checkpointing, {:.4g} ms forward and "
        "backward\n",
        subject.name, size_text(subject.baseline), subject.compute_ms);
  }
  text.head = in_lines(shown(text.head), 2);
  if (print.is_verbose) {
    text.body += in_lines(
        fmt::format("\n{}: {}\n", to_string(*answer.status), to_string(answer.certificate->proof)),
        2);
    if (answer.predicted) text.body += plan_details(answer, subject);
  }
  if (answer.plan) {
    text.body += "\n";
    if (answer.plan->units.empty()) {
      text.body += "No module is checkpointed.\n";
    } else {
      text.body +=
          print.is_verbose ? units_text(answer.plan->units) : folded_units(answer.plan->units);
    }
  }
  if (!answer.frontier.empty()) text.body += "\n" + frontier_text(answer, subject.compute_ms);
  const bool prints_profile = print.is_verbose || print.has_profile;
  if (!answer.profile.empty() && prints_profile) {
    text.body += "\n" + profile_text(answer.profile, print.has_profile);
  }
  if (answer.plan && !prints_profile) {
    text.body +=
        hint(print.output.empty() || print.output == "-"
                 ? std::string("Use -v for every module and the memory that its backward needs, -o "
                               "policy.json to save the plan.")
                 : fmt::format("Use -v for every module and the memory that its backward needs, "
                               "`plimsoll report {} -o plan.html` for a page to look at.",
                               shown(print.output)));
  }
  return text;
}

}  // namespace plimsoll::app
