// plimsoll checkpoint: which modules are recomputed, and how much of each.

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cmath>
#include <memory>
#include <optional>

#include "io/documents/checkpoint_input.h"
#include "io/documents/save_policy_json.h"
#include "plimsoll/checkpoint/checkpoint_flags.h"
#include "plimsoll/checkpoint/checkpoint_text.h"
#include "plimsoll/checkpoint/checkpoint_tradeoff.h"
#include "plimsoll/checkpoint/save_policy.h"
#include "plimsoll/common.h"
#include "plimsoll/core/digest.h"
#include "plimsoll/core/run_context.h"
#include "plimsoll/core/units.h"
#include "plimsoll/help.h"
#include "plimsoll/io/checkpoint_policy_json.h"
#include "plimsoll/io/files.h"
#include "plimsoll/io/module_stats_json.h"
#include "plimsoll/io/shipped.h"
#include "plimsoll/planning_run.h"
#include "plimsoll/text/no_plan_text.h"
#include "plimsoll/text/text_layout.h"
#include "study/checkpoint/checkpoint_planning.h"
#include "study/checkpoint/policy_advice.h"

namespace plimsoll::app {
namespace {

using checkpoint::ModuleStats;
using io::CheckpointInput;

// At most one of budget, overhead and knee, or the whole frontier.
struct Question {
  CheckpointFlags model;
  std::string budget;    // "1.6GiB" or "60%"
  std::string overhead;  // "12.5" ms or "5%"
  bool is_knee = false;
  std::string search = "exact";
  std::string variant = std::string(checkpoint::default_variant().name);
  std::int64_t effort = -1;  // < 0: study::kMilpNodes
};

struct Flags {
  GlobalFlags global;
  Question question;
  std::string stats;
  bool is_frontier = false;
  bool is_tradeoff = false;
  int fit_segments = 2;
  bool prints_profile = false;
  std::string output;
  std::string time_limit;
};

std::string found_line(SolveStatus status, StopReason stop, double seconds) {
  const bool has_plan = status == SolveStatus::kOptimal || status == SolveStatus::kFeasible;
  if (!has_plan) {
    return status == SolveStatus::kInfeasible
               ? ""
               : "No plan was found, and it is not proved that there is none.\n";
  }
  const bool is_cut = stop == StopReason::kDeadline || stop == StopReason::kCancelled;
  return fmt::format("Found in {}{}.\n", seconds_text(seconds),
                     is_cut ? ", when the search was stopped" : "");
}

double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

// What an input is called, which searches it takes, and which flags have no meaning for it.
struct InputRules {
  std::string_view name;
  std::vector<std::string_view> searches;
  std::vector<std::string_view> flags;  // empty: all of them
};

InputRules rules_of(CheckpointInput input) {
  switch (input) {
    case CheckpointInput::kModuleStats:
      return {"module statistics", {"exact", "milp", "torch"}, {}};
    case CheckpointInput::kSACStats:
      return {"an operator table",
              {"exact", "torch"},
              {"budget", "frontier", "tradeoff", "fit-segments", "search", "profile", "output"}};
    case CheckpointInput::kAotPartition:
      return {"a log of torch's partitioner",
              {"exact", "greedy", "ilp", "dp", "dp_knapsack_sliding_hirschberg", "fixed_hirschberg",
               "dynamic_memory_budget_dp"},
              {"budget", "knee", "search", "profile", "output", "time-limit"}};
  }
  return {};
}

std::vector<std::string> all_searches() {
  std::vector<std::string> names;
  for (const auto input : {CheckpointInput::kModuleStats, CheckpointInput::kAotPartition}) {
    for (const std::string_view name : rules_of(input).searches) {
      if (std::find(names.begin(), names.end(), name) == names.end()) names.emplace_back(name);
    }
  }
  return names;
}

// Flags that were given and mean nothing here are errors, not passed over.
Result<void> check_input(const InputRules& rules, const CLI::App& command, const Flags& flags) {
  const auto has = [](const std::vector<std::string_view>& names, std::string_view name) {
    return std::find(names.begin(), names.end(), name) != names.end();
  };
  CLI::App global;
  GlobalFlags unused;
  add_planning_globals(global, unused);
  for (const CLI::Option* option : command.get_options()) {
    if (rules.flags.empty() || option->count() == 0 || option->get_lnames().empty()) continue;
    const std::string& name = option->get_lnames().front();
    if (has(rules.flags, name) || global.get_option_no_throw("--" + name) != nullptr) continue;
    return fail(ErrorCode::kUsage, "--" + name,
                fmt::format("it is not used for {}", std::string(rules.name)), "leave it out");
  }
  if (has(rules.searches, flags.question.search)) return {};
  std::string names;
  for (const std::string_view name : rules.searches) {
    names += (names.empty() ? "" : ", ") + std::string(name);
  }
  return fail(ErrorCode::kUsage, "--search",
              fmt::format("the search '{}' does not plan {}", flags.question.search,
                          std::string(rules.name)),
              "choose from " + names);
}

Result<void> check_questions(const Flags& flags, CheckpointInput input) {
  const Question& question = flags.question;
  // The knee of a log's curve is looked for up to its budget.
  const bool knee_is_question = question.is_knee && input != CheckpointInput::kAotPartition;
  const int num_questions = (question.budget.empty() ? 0 : 1) +
                            (question.overhead.empty() ? 0 : 1) + (knee_is_question ? 1 : 0) +
                            (flags.is_frontier ? 1 : 0) + (flags.is_tradeoff ? 1 : 0);
  if (num_questions > 1) {
    return fail(ErrorCode::kUsage, "--budget", "only one question can be asked",
                "give one of --budget, --overhead, --knee, --frontier and --tradeoff");
  }
  if (flags.is_tradeoff && question.search == "torch") {
    return fail(ErrorCode::kUsage, "--search", "--tradeoff does not search", "leave --search out");
  }
  if (input != CheckpointInput::kModuleStats) return {};
  if (question.effort >= 0 && question.search != "milp") {
    return fail(ErrorCode::kUsage, "--effort", "it limits the nodes of --search milp",
                "give --search milp, or leave --effort out");
  }
  if (question.search == "torch" && question.budget.empty()) {
    return fail(ErrorCode::kUsage, "--search", "torch's search answers one budget",
                "give --budget, or leave --search out");
  }
  if (question.model.in_flight > 1 && (question.budget.empty() || question.search == "torch")) {
    return fail(ErrorCode::kUsage, "--in-flight", "a pipeline stage is planned for one budget",
                "give --budget, and another search than torch");
  }
  return {};
}

// Curves are not searched for, so that there is nothing to prove or to stop.
Answered answer_tradeoffs(const io::TradeoffAnswer& answer,
                          const std::vector<const checkpoint::SACStats*>& tables,
                          const TradeoffFlags& asked) {
  return {io::write_tradeoffs(answer),
          tradeoff_text(answer, tables, asked),
          "",
          SolveStatus::kFeasible,
          StopReason::kFinished,
          {},
          {}};
}

TradeoffFlags tradeoff_flags(const Flags& flags) {
  return {flags.stats, flags.fit_segments, flags.question.model.ac_units, flags.global.seed};
}

// Where the budget is too small: why, and what to type.
std::string failure_text(const study::CheckpointAnswer& answer) {
  if (answer.status != SolveStatus::kInfeasible || !answer.explanation) return "";
  std::string text = "Does not fit (proved infeasible)";
  if (!answer.explanation->lines.empty()) text += ": " + answer.explanation->lines.front();
  return wrapped(shown(text), text_columns(), 2) + "\n" + no_plan_text(*answer.explanation);
}

// "5%" of forward and backward, "12.5ms", or "12.5", which is milliseconds, too.
Result<double> parse_overhead(const std::string& text, double compute_ms) {
  const bool is_share = text.ends_with('%');
  if (const auto seconds = parse_seconds(text); seconds && text.ends_with('s')) {
    return *seconds * 1000;
  }
  const auto value =
      parse_number<double>(is_share ? text.substr(0, text.size() - 1) : text, "--overhead");
  if (!value || !(*value >= 0) || !std::isfinite(*value)) {
    return fail(ErrorCode::kUsage, "--overhead", fmt::format("'{}' is not a time", text),
                "give a time or a share of the step, such as 12.5ms or 5%");
  }
  return is_share ? compute_ms * *value / 100 : *value;
}

Result<study::CheckpointQuestion> read_question(const Flags& flags,
                                                const study::CheckpointCase& made) {
  study::CheckpointQuestion question;
  if (!flags.question.budget.empty()) {
    PLIMSOLL_ASSIGN(question.budget,
                    parse_budget(flags.question.budget, made.baseline, "--budget"));
  }
  if (!flags.question.overhead.empty()) {
    PLIMSOLL_ASSIGN(question.overhead_ms, parse_overhead(flags.question.overhead, made.compute_ms));
  }
  question.is_knee = flags.question.is_knee;
  question.in_flight = flags.question.model.in_flight;
  for (const auto search : {study::CheckpointSearch::kMilp, study::CheckpointSearch::kTorch}) {
    if (flags.question.search == to_string(search)) question.search = search;
  }
  question.variant = flags.question.variant;
  question.effort = flags.question.effort;
  question.seed = flags.global.seed;
  return question;
}

Result<Answered> plan_model(ModuleStats stats, const Flags& flags, const RunContext& context) {
  if (flags.is_tradeoff) {
    const TradeoffFlags asked = tradeoff_flags(flags);
    PLIMSOLL_ASSIGN(const io::TradeoffAnswer answer, describe_model_tradeoffs(stats, asked));
    return answer_tradeoffs(answer, tables_of(answer, stats), asked);
  }
  std::string hash = input_hash(io::write_module_stats(stats));
  PLIMSOLL_ASSIGN(TimedStats timed, timed_stats(std::move(stats), flags.question.model));
  stats = priced_stats(std::move(timed.stats), flags.question.model, flags.question.search);
  PLIMSOLL_ASSIGN(const checkpoint::MemoryModel model,
                  make_memory_model(flags.question.model, stats));
  auto made = study::make_checkpoint_case(std::move(stats), std::move(hash), model);
  if (!made) return tl::unexpected<Error>(with_flag(std::move(made).error()));
  const auto begin = std::chrono::steady_clock::now();
  math::MilpOptions milp_limits;
  milp_limits.context = context.inner();
  milp_limits.max_nodes = flags.question.effort >= 0 ? flags.question.effort : study::kMilpNodes;
  PLIMSOLL_ASSIGN(const study::CheckpointQuestion question, read_question(flags, *made));
  auto answer = study::plan_checkpointing(*made, question, milp_limits, context);
  if (!answer) return tl::unexpected<Error>(with_flag(answer.error()));
  if (auto none = study::explain_no_policy(*made, question, *answer, policy_words(), milp_limits,
                                           context)) {
    answer->explanation = *std::move(none);
  }
  if (!timed.times.empty() && answer->provenance) {
    answer->provenance->options["machine"] = flags.question.model.machine;
    answer->provenance->options["operator_times"] = timed.times;
    answer->provenance->inputs["machine"] = timed.machine_hash;
  }
  const CheckpointSubject subject{made->stats.name.empty() ? flags.stats : made->stats.name,
                                  made->problem.num_modules(), made->baseline, made->compute_ms};
  CheckpointText text = describe_checkpoint(
      *answer, subject, {flags.global.verbosity > 0, flags.prints_profile, flags.output});
  return Answered{
      io::write_checkpoint_answer(*answer),
      text.head + failure_text(*answer) +
          (timed.times.empty() ? "" : "Times: " + timed.times + ".\n") +
          found_line(*answer->status, *answer->stop, seconds_since(begin)),
      std::move(text.body),
      *answer->status,
      *answer->stop,
      answer->warnings,
      explanation_remarks(answer->explanation.value_or(Explanation{}), *answer->status),
      answer->status == SolveStatus::kInfeasible && answer->explanation ? std::size_t{1} : 0};
}

Result<Answered> plan_values(CheckpointInput input, const std::string& text, const Flags& flags,
                             const RunContext& context) {
  if (flags.is_tradeoff) {
    PLIMSOLL_ASSIGN(const checkpoint::SACStats table, io::read_sac_stats(text, flags.stats));
    const TradeoffFlags asked = tradeoff_flags(flags);
    return answer_tradeoffs(describe_table_tradeoff(table, asked), {&table}, asked);
  }
  const SavePolicyFlags asked{flags.stats,           flags.question.budget, flags.question.is_knee,
                              flags.question.search, flags.prints_profile,  flags.global.seed};
  const auto begin = std::chrono::steady_clock::now();
  PLIMSOLL_ASSIGN(const study::SavePolicyAnswer answer,
                  input == CheckpointInput::kSACStats ? plan_operator_table(text, asked)
                                                      : plan_aot_partition(text, asked, context));
  const SavePolicyText said = describe_save_policy(answer, asked);
  const SolveStatus status = *answer.status;
  const Proof& proof = answer.certificate->proof;
  return Answered{
      io::write_save_policy(answer),
      shown(said.head) +
          (proof.is_given() ? fmt::format("{}: {}\n", to_string(status), to_string(proof)) : "") +
          found_line(status, *answer.stop, seconds_since(begin)),
      said.body,
      status,
      *answer.stop,
      answer.warnings,
      explanation_remarks(answer.explanation.value_or(Explanation{}), status)};
}

Result<Answered> plan_input(const CLI::App& command, const Flags& flags) {
  PLIMSOLL_RETURN_IF_ERROR(check_kind(flags.stats, InputKind::kModuleStats));
  std::string text;
  CheckpointInput input = CheckpointInput::kModuleStats;
  if (is_file_name(flags.stats)) {
    PLIMSOLL_ASSIGN(text, io::read_text_file(flags.stats));
    input = io::find_checkpoint_input(text);
  }
  PLIMSOLL_RETURN_IF_ERROR(check_input(rules_of(input), command, flags));
  PLIMSOLL_RETURN_IF_ERROR(check_questions(flags, input));
  PLIMSOLL_ASSIGN(const RunContext context, watch_search(flags.time_limit, flags.global));
  if (input != CheckpointInput::kModuleStats) {
    return plan_values(input, text, flags, context);
  }
  PLIMSOLL_ASSIGN(ModuleStats stats, is_file_name(flags.stats)
                                         ? io::read_module_stats(text, flags.stats)
                                         : io::load_shipped_module_stats(flags.stats));
  return plan_model(std::move(stats), flags, context);
}

int run_checkpoint(const CLI::App& command, const Flags& flags) {
  return run_planning(flags.global, flags.output, [&] { return plan_input(command, flags); });
}

}  // namespace

void add_checkpoint_command(CLI::App& app, Run& run) {
  auto flags = std::make_shared<Flags>();
  const auto is_given = [](const std::string& text) {
    return std::string(text.empty() ? "nothing is given" : "");
  };
  CLI::App* command =
      app.add_subcommand("checkpoint", "Plan which activations are discarded and recomputed");
  const auto group = [command](const char* name) { command->option_defaults()->group(name); };
  group(kCommonGroup);
  command
      ->add_option("STATS", flags->stats,
                   "Module statistics: a file, '-' for standard input, or a name that `plimsoll "
                   "models` lists; or one operator table, or the log of torch's partitioner "
                   "(min_cut_information)")
      ->required();
  command
      ->add_option(
          "--budget", flags->question.budget,
          "Largest peak memory: a size (1.6GiB), or a share of the peak without checkpointing "
          "(60%); for an operator table or a log, the share of the bytes to keep (0.5)")
      ->type_name("SIZE|SHARE")
      ->check(is_given);
  command
      ->add_option("--overhead", flags->question.overhead,
                   "Instead of --budget: the least memory for at most this much more time, such as "
                   "5% (of the step) or 12ms")
      ->type_name("SHARE|MS")
      ->check(is_given);
  command->add_flag("--knee", flags->question.is_knee,
                    "Instead of --budget: the plan at the knee of the frontier; for a log, of the "
                    "frontier up to --budget");
  command->add_flag("--frontier", flags->is_frontier,
                    "Instead of --budget: the least time for every budget (the default)");
  command->add_flag("--tradeoff", flags->is_tradeoff,
                    "Instead of --budget: the order in which torch's greedy rule discards the "
                    "operators of each module, and the trade-off curve with its fit");
  command
      ->add_option("--fit-segments", flags->fit_segments,
                   "Most straight pieces in the fit of --tradeoff")
      ->type_name("N")
      ->check(CLI::Range(1, 4))
      ->capture_default_str();
  command
      ->add_option("-o,--output", flags->output,
                   "Write the answer as JSON to this file ('-': to standard output)")
      ->type_name("FILE");
  command
      ->add_option("--time-limit", flags->time_limit,
                   "Stop after this time, such as 500ms, 5s or 2m")
      ->type_name("TIME");
  command->add_flag("--profile", flags->prints_profile,
                    "Print the memory that the backward of every module needs; for a log also its "
                    "backward, step by step");
  group("Search");
  command
      ->add_option("--search", flags->question.search,
                   "exact, milp (the same by mixed-integer programming) or torch (its sac_milp and "
                   "its policy per module); for a log exact, or torch's knapsacks greedy, ilp, dp, "
                   "dp_knapsack_sliding_hirschberg (corrected: fixed_hirschberg) and "
                   "dynamic_memory_budget_dp")
      ->check(CLI::IsMember(all_searches()))
      ->capture_default_str();
  command
      ->add_option("--variant", flags->question.variant,
                   "Release of torch that --search torch follows")
      ->type_name("NAME")
      ->capture_default_str();
  command
      ->add_option("--effort", flags->question.effort,
                   fmt::format("Stop each program of --search milp after this many nodes "
                               "(default: {})",
                               study::kMilpNodes))
      ->type_name("N")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 31));
  add_checkpoint_flags(*command, flags->question.model);
  add_planning_globals(*command, flags->global);
  set_help(*command,
           {{kCommonGroup, "plimsoll checkpoint llama-3-8b --budget 70% -o policy.json"},
            {"Search", "plimsoll checkpoint stats.json --budget 60% --search torch"},
            {"Memory and time of a module",
             "plimsoll checkpoint stats.json --budget 70GiB --optimizer-bytes 12GiB"},
            {"Which modules are checkpointed",
             "plimsoll checkpoint stats.json --budget 60% --segments 4"},
            {"FSDP", "plimsoll checkpoint stats.json --budget 60% --world-size 8 --fsdp-buffers"}},
           {"", "checkpoint stats.json --budget 60%", ""});
  command->callback([flags, command, &run] {
    run = [flags, command] { return run_checkpoint(*command, *flags); };
  });
}

}  // namespace plimsoll::app
