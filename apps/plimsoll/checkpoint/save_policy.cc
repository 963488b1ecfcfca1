#include "plimsoll/checkpoint/save_policy.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "checkpoint/torch/knapsack_evaluator.h"
#include "io/import/aot_partition_json.h"
#include "plimsoll/core/digest.h"
#include "plimsoll/io/module_stats_json.h"
#include "plimsoll/text/text_table.h"
#include "study/checkpoint/save_policy.h"

namespace plimsoll::app {
namespace {

using study::SavePolicyAnswer;

// "0.5" or "50%".
Result<double> parse_share(const std::string& text) {
  const bool is_percent = text.ends_with('%');
  const auto number =
      parse_number<double>(is_percent ? text.substr(0, text.size() - 1) : text, "--budget");
  if (!number || !std::isfinite(*number) || *number < 0) {
    return fail(ErrorCode::kUsage, "--budget",
                fmt::format("'{}' is not a share of the memory", text),
                "give a share of what could be kept, such as 0.5 or 50%");
  }
  return is_percent ? *number / 100 : *number;
}

// The library names a knapsack's fields; people gave a log and a flag.
Error in_log(Error error, const std::string& input) {
  if (error.place == "memory") error.place = input + "#/Knapsack Input Memories";
  if (error.place == "runtimes") error.place = input + "#/Knapsack Input Runtimes";
  if (error.place == "max_memory") error.place = "--budget";
  return error;
}

Result<double> budget_of(const io::AotPartition& log, const SavePolicyFlags& flags) {
  if (!flags.budget.empty()) return parse_share(flags.budget);
  if (flags.is_knee) return checkpoint::KneeOptions{}.max_memory_budget;
  if (log.memory_budget) return *log.memory_budget;
  return fail(ErrorCode::kUsage, "--budget", "the log says no budget",
              "give a share of what could be kept, such as --budget 0.5");
}

// A share of a total, where there is one.
std::string share_of(double part, double whole) {
  return whole > 0 ? fmt::format(" ({:.2f} %)", 100 * part / whole) : "";
}

}  // namespace

Result<SavePolicyAnswer> plan_operator_table(const std::string& text,
                                             const SavePolicyFlags& flags) {
  PLIMSOLL_ASSIGN(const checkpoint::SACStats stats, io::read_sac_stats(text, flags.input));
  const bool is_like_torch = flags.search == "torch";
  std::optional<double> share;
  if (!flags.budget.empty()) {
    PLIMSOLL_ASSIGN(share, parse_share(flags.budget));
    if (*share > 1) {
      return fail(ErrorCode::kUsage, "--budget",
                  fmt::format("'{}' is more than the whole table", flags.budget),
                  "give a share from 0 to 1");
    }
  } else if (is_like_torch) {
    return fail(ErrorCode::kUsage, "--search", "torch's policy answers one budget",
                "give --budget, or leave --search out");
  }
  std::string hash = input_hash(io::write_sac_stats(stats));
  return is_like_torch
             ? study::plan_operators_like_torch(stats, *share, std::move(hash), flags.seed)
             : study::plan_operators(stats, share, std::move(hash), flags.seed);
}

Result<SavePolicyAnswer> plan_aot_partition(const std::string& text, const SavePolicyFlags& flags,
                                            const RunContext& context) {
  PLIMSOLL_ASSIGN(io::AotPartition log, io::read_aot_partition(text, flags.input));
  study::LogQuestion question{flags.search,     0,         flags.is_knee, flags.prints_profile,
                              input_hash(text), flags.seed};
  PLIMSOLL_ASSIGN(question.budget, budget_of(log, flags));
  auto answer = study::plan_partitioner_log(
      {std::move(log.graph), std::move(log.saved), std::move(log.recomputed)}, question, {},
      context);
  if (!answer) return tl::unexpected<Error>(in_log(std::move(answer).error(), flags.input));
  return answer;
}

SavePolicyText describe_save_policy(const SavePolicyAnswer& answer, const SavePolicyFlags& flags) {
  constexpr std::size_t kMaxRows = 40;
  SavePolicyText text;
  text.head = flags.input + "\n";
  if (answer.predicted) {
    const study::SavePolicyPrediction& predicted = *answer.predicted;
    const std::vector<study::SavedValue>& values = *answer.plan;
    const auto saved = std::count_if(values.begin(), values.end(),
                                     [](const study::SavedValue& value) { return value.save; });
    text.head = fmt::format("{}: {} values, memory {:.10g}, runtime {:.6g}\n", flags.input,
                            values.size(), predicted.total_memory, predicted.total_runtime);
    text.body = fmt::format("budget {:.6g}: {} of {} kept, memory {:.10g}{}\nrecompute {:.6g}{}",
                            *answer.memory_budget, saved, values.size(), predicted.saved_memory,
                            share_of(predicted.saved_memory, predicted.total_memory),
                            predicted.recompute_runtime,
                            share_of(predicted.recompute_runtime, predicted.total_runtime));
    if (predicted.backward_peak_memory) {
      text.body +=
          fmt::format("; at most {:.10g} within the backward", *predicted.backward_peak_memory);
    }
    text.body += "\n\n";
    const bool is_log = !values.empty() && values.front().was_saved;
    TextTable table({"value", "memory", "runtime", "is", is_log ? "was" : ""}, {false, true, true});
    const auto fate = [](bool is_saved) { return is_saved ? "kept" : "recomputed"; };
    const std::size_t rows =
        flags.prints_profile ? values.size() : std::min(values.size(), kMaxRows);
    for (std::size_t i = 0; i < rows; ++i) {
      const study::SavedValue& value = values[i];
      table.add({value.name, fmt::format("{:.10g}", value.memory),
                 fmt::format("{:.6g}", value.runtime), fate(value.save),
                 value.was_saved ? fate(*value.was_saved) : ""});
    }
    text.body += table.text();
    if (rows < values.size()) {
      text.body +=
          fmt::format("... {} more (all of them with --profile or --json)\n", values.size() - rows);
    }
  }
  if (!answer.frontier.empty()) {
    TextTable table({"kept", "recompute"}, {true, true});
    for (const study::SavePolicyPoint& point : answer.frontier) {
      table.add(
          {fmt::format("{:.10g}", point.memory), fmt::format("{:.6g}", point.recompute_runtime)});
    }
    text.body += table.text();
  }
  if (!answer.trace.empty()) {
    TextTable table({"event", "value", "memory"}, {false, false, true});
    for (const study::SavePolicyStep& step : answer.trace) {
      table.add({step.event, step.name, fmt::format("{:.10g}", step.memory)});
    }
    text.body += "\n" + table.text();
  }
  return text;
}

}  // namespace plimsoll::app
