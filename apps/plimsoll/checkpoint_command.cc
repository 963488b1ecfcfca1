// plimsoll checkpoint: which modules are recomputed, and how much of each.

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cmath>
#include <memory>
#include <optional>

#include "plimsoll/checkpoint/baseline.h"
#include "plimsoll/checkpoint/frontier_search.h"
#include "plimsoll/checkpoint/milp_frontier.h"
#include "plimsoll/checkpoint/milp_search.h"
#include "plimsoll/checkpoint/operator_choices.h"
#include "plimsoll/checkpoint/pipeline_search.h"
#include "plimsoll/checkpoint/policy_per_module.h"
#include "plimsoll/checkpoint/sac_milp.h"
#include "plimsoll/checkpoint_flags.h"
#include "plimsoll/checkpoint_text.h"
#include "plimsoll/common.h"
#include "plimsoll/core/digest.h"
#include "plimsoll/core/run_context.h"
#include "plimsoll/core/version.h"
#include "plimsoll/io/checkpoint_input.h"
#include "plimsoll/io/checkpoint_policy_json.h"
#include "plimsoll/io/files.h"
#include "plimsoll/io/module_stats_json.h"
#include "plimsoll/io/shipped.h"
#include "plimsoll/save_policy.h"

namespace plimsoll::app {
namespace {

using checkpoint::CheckpointPlan;
using checkpoint::CheckpointProblem;
using checkpoint::CheckpointUnit;
using checkpoint::ModuleStats;
using io::CheckpointAnswer;
using io::CheckpointInput;
using solve::Frontier;
using solve::MilpOptions;

struct Flags {
  GlobalFlags global;
  CheckpointFlags model;
  std::string stats;
  std::string budget;
  std::string overhead;
  bool is_knee = false;
  bool is_frontier = false;
  std::string search = "exact";
  std::string variant = std::string(checkpoint::default_variant().name);
  bool prints_profile = false;
  std::string output;
  std::string time_limit;
};

// What is known before anything is searched.
struct Case {
  ModuleStats stats;
  CheckpointProblem problem;
  Bytes baseline = 0;     // bytes at the peak without checkpointing, by the memory model
  double compute_ms = 0;  // forward and backward
};

Result<Case> make_case(ModuleStats stats, const Flags& flags) {
  Case made;
  made.stats = std::move(stats);
  PLIMSOLL_ASSIGN(made.problem, make_problem(flags.model, made.stats));
  made.baseline = replay(made.problem, {}).peak;
  made.compute_ms = make_baseline(made.stats).compute_ms;
  return made;
}

CheckpointAnswer start_answer(const Case& made, const Flags& flags) {
  CheckpointAnswer answer;
  answer.input_hash = sha256_hex(io::write_module_stats(made.stats));
  answer.torch = made.stats.torch;
  answer.world_size = made.problem.model.world_size;
  Provenance& provenance = answer.provenance.emplace();
  provenance.version = kVersion;
  provenance.options = provenance_options(made.problem.model);
  provenance.options["search"] = flags.search;
  if (flags.search == "torch") provenance.options["variant"] = flags.variant;
  if (flags.model.in_flight != 1)
    provenance.options["in_flight"] = fmt::format("{}", flags.model.in_flight);
  provenance.inputs["module_stats"] = answer.input_hash;
  provenance.seed = flags.global.seed;
  return answer;
}

template <class Plan>
void take_outcome(const Outcome<Plan>& outcome, CheckpointAnswer& answer) {
  answer.status = outcome.status;
  answer.stop = outcome.stop;
  answer.certificate = outcome.certificate;
  answer.warnings = outcome.warnings;
  if (!(outcome.explanation == Explanation{})) answer.explanation = outcome.explanation;
}

// `bytes` by position in forward post-order.
void take_profile(const Case& made, const std::vector<Bytes>& bytes, CheckpointAnswer& answer) {
  answer.profile.clear();
  for (std::size_t position = 0; position < bytes.size(); ++position) {
    const int node = made.problem.tree.post_order[position];
    answer.profile.push_back({made.problem.fqn[node], bytes[position]});
  }
}

void take_plan(const Case& made, const CheckpointPlan& plan, CheckpointAnswer& answer) {
  answer.policy = plan.policy;
  const checkpoint::PlanFigures& figures = plan.figures;
  answer.predicted = io::CheckpointPrediction{
      figures.peak, figures.recompute_ms, made.baseline,
      figures.binding_node < 0 ? "" : made.problem.fqn[figures.binding_node],
      plan.price_ms_per_gib};
  take_profile(made, figures.profile, answer);
}

// Upstream's planner decides ratios; which operators that means is decided module by module.
Result<void> choose_operators(const ModuleStats& stats, checkpoint::CheckpointPolicy& policy) {
  for (CheckpointUnit& unit : policy.units) {
    const auto table = stats.sac_stats_of.find(unit.fqns.front());
    if (!unit.ops.empty() || table == stats.sac_stats_of.end()) continue;
    const checkpoint::SACStats& operators = stats.sac_stats[table->second];
    PLIMSOLL_ASSIGN(const Outcome<checkpoint::ModulePolicy> chosen,
                    checkpoint::optimal_policy_per_module(operators, 1 - unit.discard_ratio));
    if (!chosen.plan) continue;  // upstream's planner logs it and leaves the unit to itself
    checkpoint::keep_operators(operators, chosen.plan->save, unit);
  }
  return {};
}

// Torch's search proves that nothing fits, and not how much would; our own memory model says that.
// Its big-M forbids units, too.
Result<void> explain_infeasible(const CheckpointProblem& problem, const MilpOptions& options,
                                CheckpointAnswer& answer) {
  if (answer.status != SolveStatus::kInfeasible) return {};
  std::optional<checkpoint::SmallestBudget> smallest;
  if (problem.tree.is_nested) {
    PLIMSOLL_ASSIGN(smallest, checkpoint::smallest_budget(problem));
  } else {
    PLIMSOLL_ASSIGN(const auto found, smallest_budget_by_milp(problem, options));
    if (found.status == SolveStatus::kOptimal) smallest = found.plan;
  }
  if (!smallest) return {};
  const Bytes budget = answer.budget_bytes.value_or(0);
  if (smallest->bytes > budget) {
    answer.explanation = checkpoint::explain_infeasible(*smallest, budget);
  } else {
    answer.explanation = Explanation{
        "big_m", 0, {"units that would fit cost more than the big-M of this release allows"}};
  }
  return {};
}

Result<CheckpointAnswer> plan_like_torch(const Case& made, Bytes budget, const Flags& flags,
                                         const MilpOptions& limits) {
  checkpoint::SACMilpOptions options;
  PLIMSOLL_ASSIGN(options.variant, checkpoint::find_variant(flags.variant));
  options.memory_budget = static_cast<double>(budget) / static_cast<double>(kGiB);
  options.world_size = made.problem.model.world_size;
  options.ac_units = made.problem.model.ac_units;
  options.fsdp_units = made.problem.model.fsdp_units;
  if (limits.time_limit_s) options.time_limit_s = limits.time_limit_s;
  PLIMSOLL_ASSIGN(checkpoint::SACMilpResult result,
                  checkpoint::plan_like_sac_milp(made.stats, options));
  CheckpointAnswer answer = start_answer(made, flags);
  answer.budget_bytes = budget;
  take_outcome(result.outcome, answer);
  if (result.outcome.plan) {
    answer.policy = std::move(result.outcome.plan);
    PLIMSOLL_RETURN_IF_ERROR(choose_operators(made.stats, *answer.policy));
    // Unrounded, so that a judge finds the same; upstream's answer has two digits. Discards are
    // whole bytes in a plan, so that its peak may be a byte above that of upstream's fractions.
    PLIMSOLL_ASSIGN(const check::CheckpointReport judged,
                    check::check_checkpointing(
                        made.stats, *answer.policy,
                        make_check_options(made.problem, made.stats, *answer.policy, "torch", 1)));
    answer.predicted = io::CheckpointPrediction{std::max(result.peak_bytes, judged.peak),
                                                answer.certificate->objective,
                                                make_baseline(made.stats).peak_bytes,
                                                judged.binding,
                                                {}};
    take_profile(made, judged.profile, answer);
  }
  CheckpointFlags upstream = flags.model;
  upstream.peak = "torch";
  upstream.costs = "fit";
  PLIMSOLL_ASSIGN(const CheckpointProblem problem, make_problem(upstream, made.stats));
  PLIMSOLL_RETURN_IF_ERROR(explain_infeasible(problem, limits, answer));
  return answer;
}

// Only mixed-integer programming plans a model that returns in another order than its names'.
bool is_for_milp(const Case& made, const Flags& flags) {
  return flags.search == "milp" || !made.problem.tree.is_nested;
}

Result<CheckpointAnswer> plan_pipeline(const Case& made, Bytes budget, const Flags& flags,
                                       const MilpOptions& limits, const RunContext& context) {
  checkpoint::PipelineOptions options;
  options.in_flight = flags.model.in_flight;
  PLIMSOLL_ASSIGN(const Outcome<checkpoint::PipelinePlan> outcome,
                  is_for_milp(made, flags)
                      ? plan_stage_by_milp(made.problem, budget, options.in_flight, limits)
                      : plan_pipeline_stage(made.problem, budget, options, context));
  CheckpointAnswer answer = start_answer(made, flags);
  answer.budget_bytes = budget;
  take_outcome(outcome, answer);
  if (outcome.plan) {
    take_plan(made, outcome.plan->plan, answer);
    answer.predicted->peak_bytes = outcome.plan->peak;
    answer.predicted->price_ms_per_gib.reset();
    // What the other microbatches keep is there all the time.
    const Bytes others = outcome.plan->peak - outcome.plan->plan.figures.peak;
    for (io::ProfileEntry& entry : answer.profile) entry.bytes += others;
  }
  return answer;
}

CheckpointAnswer answer_of(const Case& made, const Outcome<CheckpointPlan>& outcome,
                           std::optional<Bytes> budget, const Flags& flags) {
  CheckpointAnswer answer = start_answer(made, flags);
  answer.budget_bytes = budget;
  take_outcome(outcome, answer);
  if (outcome.plan) take_plan(made, *outcome.plan, answer);
  return answer;
}

// "5%" of forward and backward, or "12.5" milliseconds.
Result<double> parse_overhead(const std::string& text, double compute_ms) {
  const bool is_share = text.ends_with('%');
  const auto value =
      parse_number<double>(is_share ? text.substr(0, text.size() - 1) : text, "--overhead");
  if (!value || !(*value >= 0) || !std::isfinite(*value)) {
    return fail(ErrorCode::kUsage, "--overhead", fmt::format("'{}' is no time", text),
                "give milliseconds or a share of the step, such as 12.5 or 5%");
  }
  return is_share ? compute_ms * *value / 100 : *value;
}

// It gives no price: that of its units is not what others would offer.
CheckpointAnswer answer_of_milp(const Case& made, const Outcome<CheckpointPlan>& outcome,
                                std::optional<Bytes> budget, const Flags& flags) {
  CheckpointAnswer answer = answer_of(made, outcome, budget, flags);
  if (answer.predicted) answer.predicted->price_ms_per_gib.reset();
  return answer;
}

CheckpointAnswer answer_of_frontier(const Case& made, const Outcome<Frontier>& found,
                                    const Flags& flags) {
  CheckpointAnswer answer = start_answer(made, flags);
  take_outcome(found, answer);
  if (!found.plan) return answer;
  answer.frontier = found.plan->breakpoints();
  if (!found.plan->is_exact()) {
    answer.frontier_bound = Frontier(found.plan->lower()).breakpoints();
  }
  return answer;
}

Result<CheckpointAnswer> plan_on_milp_frontier(const Case& made, const Flags& flags,
                                               const MilpOptions& limits,
                                               const RunContext& context) {
  if (!flags.overhead.empty()) {
    PLIMSOLL_ASSIGN(const double ms, parse_overhead(flags.overhead, made.compute_ms));
    PLIMSOLL_ASSIGN(const auto outcome, plan_for_time_by_milp(made.problem, ms, limits));
    return answer_of_milp(made, outcome, {}, flags);
  }
  PLIMSOLL_ASSIGN(const Outcome<Frontier> found, plan_frontier_by_milp(made.problem, {}, context));
  if (!flags.is_knee || !found.plan) return answer_of_frontier(made, found, flags);
  const Bytes knee = found.plan->knee().value_or(found.plan->min_bytes());
  PLIMSOLL_ASSIGN(Outcome<CheckpointPlan> outcome, plan_by_milp(made.problem, knee, limits));
  outcome.warnings = found.warnings;  // of the curve that the knee is of
  return answer_of_milp(made, outcome, {}, flags);
}

// Everything but one budget needs the frontier.
Result<CheckpointAnswer> plan_on_frontier(const Case& made, const Flags& flags,
                                          const RunContext& context) {
  PLIMSOLL_ASSIGN(const Outcome<Frontier> found, plan_frontier(made.problem, {}, context));
  if (!found.plan) return answer_of_frontier(made, found, flags);
  if (flags.is_knee) {
    PLIMSOLL_ASSIGN(const auto outcome, plan_at_knee(made.problem, *found.plan, {}, context));
    return answer_of(made, outcome, {}, flags);
  }
  if (!flags.overhead.empty()) {
    PLIMSOLL_ASSIGN(const double ms, parse_overhead(flags.overhead, made.compute_ms));
    PLIMSOLL_ASSIGN(const auto outcome, plan_for_time(made.problem, *found.plan, ms, {}, context));
    return answer_of(made, outcome, {}, flags);
  }
  return answer_of_frontier(made, found, flags);
}

Result<CheckpointAnswer> plan(const Case& made, const Flags& flags, const MilpOptions& limits,
                              const RunContext& context) {
  const bool by_milp = is_for_milp(made, flags);
  if (flags.budget.empty()) {
    return by_milp ? plan_on_milp_frontier(made, flags, limits, context)
                   : plan_on_frontier(made, flags, context);
  }
  PLIMSOLL_ASSIGN(const Bytes budget, parse_budget(flags.budget, made.baseline, "--budget"));
  if (flags.search == "torch") return plan_like_torch(made, budget, flags, limits);
  if (flags.model.in_flight > 1) return plan_pipeline(made, budget, flags, limits, context);
  if (by_milp) {
    PLIMSOLL_ASSIGN(const auto outcome, plan_by_milp(made.problem, budget, limits));
    return answer_of_milp(made, outcome, budget, flags);
  }
  PLIMSOLL_ASSIGN(const auto outcome, plan_for_budget(made.problem, budget, {}, context));
  return answer_of(made, outcome, budget, flags);
}

// How the search ended.
std::string status_line(SolveStatus status, const std::string& proof, double seconds,
                        const Flags& flags) {
  const bool is_good = status == SolveStatus::kOptimal || status == SolveStatus::kFeasible;
  return fmt::format("{}  {}{}{:.3f} s\n",
                     paint(to_string(status), is_good ? Tone::kGood : Tone::kBad, flags.global),
                     proof, proof.empty() ? "" : ", ", seconds);
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
              {"budget", "frontier", "search", "profile", "output"}};
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
  add_global_flags(global, unused);
  for (const CLI::Option* option : command.get_options()) {
    if (rules.flags.empty() || option->count() == 0 || option->get_lnames().empty()) continue;
    const std::string& name = option->get_lnames().front();
    if (has(rules.flags, name) || global.get_option_no_throw("--" + name) != nullptr) continue;
    return fail(ErrorCode::kUsage, "--" + name,
                fmt::format("{} takes no such flag", std::string(rules.name)), "leave it out");
  }
  if (has(rules.searches, flags.search)) return {};
  std::string names;
  for (const std::string_view name : rules.searches) {
    names += (names.empty() ? "" : ", ") + std::string(name);
  }
  return fail(ErrorCode::kUsage, "--search",
              fmt::format("the search '{}' is not for {}", flags.search, std::string(rules.name)),
              "choose from " + names);
}

Result<void> check_questions(const Flags& flags, CheckpointInput input) {
  // The knee of a log's curve is looked for up to its budget.
  const bool knee_is_question = flags.is_knee && input != CheckpointInput::kAotPartition;
  const int num_questions = (flags.budget.empty() ? 0 : 1) + (flags.overhead.empty() ? 0 : 1) +
                            (knee_is_question ? 1 : 0) + (flags.is_frontier ? 1 : 0);
  if (num_questions > 1) {
    return fail(ErrorCode::kUsage, "--budget", "more than one question is asked",
                "give one of --budget, --overhead, --knee and --frontier");
  }
  if (input != CheckpointInput::kModuleStats) return {};
  if (flags.search == "torch" && flags.budget.empty()) {
    return fail(ErrorCode::kUsage, "--search", "torch's search answers one budget",
                "give --budget, or leave --search out");
  }
  if (flags.model.in_flight > 1 && (flags.budget.empty() || flags.search == "torch")) {
    return fail(ErrorCode::kUsage, "--in-flight", "a pipeline stage is planned for one budget",
                "give --budget, and not torch's search");
  }
  return {};
}

// What is printed, whatever was planned.
struct Printed {
  std::string document;
  std::string text;
  SolveStatus status = SolveStatus::kLimit;
  StopReason stop = StopReason::kFinished;
  std::vector<Warning> warnings;
  std::optional<Explanation> explanation;
};

Result<Printed> plan_model(ModuleStats stats, const Flags& flags, const SearchOptions& limits,
                           const RunContext& context) {
  PLIMSOLL_ASSIGN(const Case made, make_case(std::move(stats), flags));
  const auto begin = std::chrono::steady_clock::now();
  MilpOptions milp_limits;
  milp_limits.time_limit_s = limits.time_limit_s;
  const auto answer = plan(made, flags, milp_limits, context);
  if (!answer) return tl::unexpected<Error>(with_flag(answer.error()));
  const CheckpointSubject subject{made.stats.name.empty() ? flags.stats : made.stats.name,
                                  made.problem.num_modules(), made.baseline, made.compute_ms};
  const std::string ending =
      status_line(*answer->status, answer->certificate->proof, seconds_since(begin), flags);
  return Printed{io::write_checkpoint_answer(*answer),
                 describe_checkpoint(*answer, subject, ending, flags.prints_profile),
                 *answer->status,
                 *answer->stop,
                 answer->warnings,
                 answer->explanation};
}

Result<Printed> plan_values(CheckpointInput input, const std::string& text, const Flags& flags,
                            const SearchOptions& limits, const RunContext& context) {
  const SavePolicyFlags asked{flags.stats,  flags.budget,         flags.is_knee,
                              flags.search, flags.prints_profile, flags.global.seed};
  const auto begin = std::chrono::steady_clock::now();
  PLIMSOLL_ASSIGN(const io::SavePolicyAnswer answer,
                  input == CheckpointInput::kSACStats
                      ? plan_operator_table(text, asked)
                      : plan_aot_partition(text, asked, limits, context));
  const SavePolicyText said = describe_save_policy(answer, asked);
  const std::string ending =
      status_line(answer.status, answer.certificate.proof, seconds_since(begin), flags);
  return Printed{io::write_save_policy(answer),
                 said.head + ending + said.body,
                 answer.status,
                 answer.stop,
                 answer.warnings,
                 answer.explanation};
}

Result<Printed> plan_input(const CLI::App& command, const Flags& flags) {
  SearchOptions limits;
  PLIMSOLL_ASSIGN(limits.time_limit_s, parse_time_limit(flags.time_limit));
  std::string text;
  CheckpointInput input = CheckpointInput::kModuleStats;
  if (is_file_name(flags.stats)) {
    PLIMSOLL_ASSIGN(text, io::read_text_file(flags.stats));
    input = io::find_checkpoint_input(text);
  }
  PLIMSOLL_RETURN_IF_ERROR(check_input(rules_of(input), command, flags));
  PLIMSOLL_RETURN_IF_ERROR(check_questions(flags, input));
  RunContext context = make_run_context(limits);
  watch_interrupts(context);
  if (input != CheckpointInput::kModuleStats) {
    return plan_values(input, text, flags, limits, context);
  }
  PLIMSOLL_ASSIGN(ModuleStats stats, is_file_name(flags.stats)
                                         ? io::read_module_stats(text, flags.stats)
                                         : io::load_shipped_module_stats(flags.stats));
  return plan_model(std::move(stats), flags, limits, context);
}

int run_checkpoint(const CLI::App& command, const Flags& flags) {
  const auto printed = plan_input(command, flags);
  stop_watching_interrupts();
  if (!printed) return report(printed.error(), flags.global);
  if (!flags.output.empty() && flags.output != "-") {
    if (const auto written = io::write_text_file(flags.output, printed->document); !written) {
      return report(written.error(), flags.global);
    }
  }
  print(flags.global.json || flags.output == "-" ? printed->document : printed->text);
  if (!flags.global.quiet) {
    for (const Warning& warning : printed->warnings) {
      print_error_text(fmt::format("warning: {}{}{}\n", warning.place,
                                   warning.place.empty() ? "" : ": ", warning.message));
    }
  }
  if (printed->explanation) {
    for (const std::string& line : printed->explanation->lines) {
      print_error_text(fmt::format(
          "{}: {}\n", printed->status == SolveStatus::kInfeasible ? "proved infeasible" : "note",
          line));
    }
  }
  return exit_code(printed->status, printed->stop);
}

}  // namespace

void add_checkpoint_command(CLI::App& app, Run& run) {
  auto flags = std::make_shared<Flags>();
  const auto is_given = [](const std::string& text) {
    return std::string(text.empty() ? "nothing is given" : "");
  };
  CLI::App* command = app.add_subcommand(
      "checkpoint", "Plan which modules' activations are discarded and recomputed");
  command->footer(examples({"plimsoll checkpoint stats.json --budget 1.6GiB -o policy.json",
                            "plimsoll checkpoint llama-3-8b --budget 60%",
                            "plimsoll checkpoint stats.json --frontier",
                            "plimsoll checkpoint stats.json --overhead 5% --json",
                            "plimsoll checkpoint stats.json --budget 60% --search torch",
                            "plimsoll checkpoint min_cut_information.json --budget 0.5 --search dp",
                            "plimsoll checkpoint operator_table.json --budget 0.5"}));
  command
      ->add_option(
          "STATS", flags->stats,
          "Module statistics: a file, '-' for standard input, or a name that `plimsoll models` "
          "lists; or one operator table, or the log of torch's partitioner (min_cut_information)")
      ->required();
  command
      ->add_option("--budget", flags->budget,
                   "The peak that must hold: a size (1.6GiB), or a share of the peak without "
                   "checkpointing (60%); of a table or a log the share that may be kept (0.5)")
      ->check(is_given);
  command
      ->add_option("--overhead", flags->overhead,
                   "Instead: the least memory whose recomputation takes at most this (5% of the "
                   "step, or milliseconds)")
      ->check(is_given);
  command->add_flag("--knee", flags->is_knee,
                    "Instead: the plan at the frontier's knee; of a log the knee up to --budget");
  command->add_flag("--frontier", flags->is_frontier,
                    "Instead: every budget's least time (what is asked where nothing is)");
  command
      ->add_option("--search", flags->search,
                   "exact, milp (the same optimum through COIN-OR's Cbc), or torch (upstream's "
                   "sac_milp and its policy per module); of a log exact, or a knapsack by torch's "
                   "name: greedy, ilp, dp, dp_knapsack_sliding_hirschberg (its mended form: "
                   "fixed_hirschberg), dynamic_memory_budget_dp")
      ->check(CLI::IsMember(all_searches()))
      ->capture_default_str();
  command->add_option("--variant", flags->variant, "Release of torch that --search torch follows")
      ->capture_default_str();
  add_checkpoint_flags(*command, flags->model);
  command->add_flag("--profile", flags->prints_profile,
                    "Print what every module's backward needs, of large models too; of a log "
                    "also its backward, step by step");
  command->add_option("-o,--output", flags->output,
                      "Write the answer as JSON to this file (-: to stdout, as --json)");
  command->add_option("--time-limit", flags->time_limit, "Stop the search after this time (5s)");
  add_global_flags(*command, flags->global);
  command->callback([flags, command, &run] {
    run = [flags, command] { return run_checkpoint(*command, *flags); };
  });
}

}  // namespace plimsoll::app
