#include "plimsoll/checkpoint_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "plimsoll/core/units.h"
#include "plimsoll/text_table.h"

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

std::string frontier_text(const CheckpointAnswer& answer, double compute_ms) {
  TextTable table({"budget", "bytes", "recompute ms", "of the step", "next GiB saves ms"},
                  {true, true, true, true, true});
  constexpr std::size_t kMaxRows = 24;
  const std::size_t n = answer.frontier.size();
  const std::size_t step = std::max<std::size_t>(1, (n + kMaxRows - 2) / (kMaxRows - 1));
  const auto add = [&](const math::FrontierPoint& point) {
    table.add({format_bytes(point.bytes), fmt::format("{}", point.bytes),
               fmt::format("{:.4f}", point.ms),
               compute_ms > 0 ? fmt::format("{:.2f} %", 100 * point.ms / compute_ms) : "",
               fmt::format("{:.3f}", -point.slope * static_cast<double>(kGiB))});
  };
  for (std::size_t i = 0; i + 1 < n; i += step) add(answer.frontier[i]);
  if (n > 0) add(answer.frontier.back());
  std::string text = table.text();
  if (step > 1) {
    text += fmt::format("... every {}th of {} break points (all of them with --json)\n", step, n);
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
    text += fmt::format("... {} more that need at most {} (all of them with --profile)\n",
                        rows.size() - kMaxRows, format_bytes(profile[rows[kMaxRows]].bytes));
  }
  return text;
}

}  // namespace

std::string describe_checkpoint(const CheckpointAnswer& answer, const CheckpointSubject& subject,
                                const std::string& ending, bool prints_profile) {
  std::string text = fmt::format(
      "{}: {} modules, {} at the peak without checkpointing, {:.4g} ms forward and backward\n",
      subject.name, subject.num_modules, format_bytes(subject.baseline), subject.compute_ms);
  text += ending;
  if (answer.predicted) {
    const study::CheckpointPrediction& predicted = *answer.predicted;
    if (answer.budget_bytes) text += fmt::format("budget {}, ", format_bytes(*answer.budget_bytes));
    text +=
        fmt::format("peak {} ({} bytes)", format_bytes(predicted.peak_bytes), predicted.peak_bytes);
    text += predicted.binding.empty() ? " at the loss"
                                      : fmt::format(" in the backward of {}", predicted.binding);
    text += fmt::format("\nrecompute {:.6g} ms", predicted.recompute_ms);
    if (subject.compute_ms > 0) {
      text +=
          fmt::format(", {:.2f} % of the step", 100 * predicted.recompute_ms / subject.compute_ms);
    }
    const auto gap = answer.certificate->gap();
    constexpr double kUsefulGap = 1;  // a bound below half of the time tells nobody anything
    if (gap && *gap > kUsefulGap) {
      text += ", no bound near it was proved";
    } else if (gap && *gap > 1e-9) {
      text += fmt::format(", at most {:.3g} % above the best", *gap * 100);
    }
    if (predicted.price_ms_per_gib) {
      text +=
          fmt::format("; one more GiB would save {:.4g} ms at first", *predicted.price_ms_per_gib);
    }
    text += "\n";
  }
  if (answer.policy) {
    text += "\n";
    if (answer.policy->units.empty()) {
      text += "No module is checkpointed.\n";
    } else {
      TextTable units({"unit", "kind", "operators kept", "discards", "ratio", "recompute ms"},
                      {false, false, true, true, true, true});
      add_units(answer.policy->units, "", units);
      text += units.text();
    }
  }
  if (!answer.frontier.empty()) text += "\n" + frontier_text(answer, subject.compute_ms);
  if (!answer.profile.empty()) text += "\n" + profile_text(answer.profile, prints_profile);
  return text;
}

}  // namespace plimsoll::app
