// plimsoll explain: why a plan of embedding tables takes its time, or why there is none.

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <memory>
#include <utility>

#include "io/documents/plan_tree.h"
#include "io/documents/study_json.h"
#include "io/import/foreign_plan.h"
#include "plimsoll/help.h"
#include "plimsoll/io/plan_json.h"
#include "plimsoll/planning_run.h"
#include "plimsoll/shard/shard_flags.h"
#include "plimsoll/shard/shard_remedies.h"
#include "plimsoll/shard/shard_report.h"
#include "plimsoll/text/text_table.h"
#include "study/embedding/explanation.h"

namespace plimsoll::app {
namespace {

using study::PlanExplanation;

struct ExplainFlags {
  ShardFlags shard;
  std::string plan;
};

// A plan, and what it says of its making.
struct ReadPlan {
  embedding::ShardingPlan plan;
  std::optional<Certificate> certificate;
  std::optional<double> rating_cap;  // of the certificate
};

// Where the flags do not say otherwise the question is the one that the plan answers.
Result<ReadPlan> read_plan(const ExplainFlags& flags, const io::PlanFile& file,
                           ShardRequest& request) {
  if (file.format != io::PlanFormat::kShardingPlan) {
    return fail(ErrorCode::kUsage, flags.plan, "this is not a plan of embedding tables",
                "`plimsoll check` computes the memory and time of other plans");
  }
  const embedding::PlanningProblem& problem = request.problem;
  if (!io::is_own_plan(file.root)) {
    PLIMSOLL_ASSIGN(embedding::ShardingPlan plan,
                    io::read_foreign_plan(file.root, file.name,
                                          {problem.model, problem.topology, problem.cost_model}));
    return ReadPlan{std::move(plan), {}, {}};
  }
  PLIMSOLL_ASSIGN(study::ShardingAnswer answer, io::read_plan_tree(file.root, file.name));
  if (!answer.plan) {
    return fail(ErrorCode::kValue, flags.plan, "the answer holds no plan",
                "leave it out: `plimsoll explain MODEL --on HARDWARE` explains why there is none");
  }
  std::optional<double> rating_cap;
  if (answer.provenance) {
    const auto& recorded = answer.provenance->options;
    PLIMSOLL_RETURN_IF_ERROR(check_machine(flags.shard.planning, recorded));
    PLIMSOLL_ASSIGN(request.problem, make_problem(flags.shard.planning, recorded));
    const bool is_balanced = recorded.contains("objective") && flags.shard.objective.empty() &&
                             flags.shard.rules.empty();
    if (is_balanced) {
      PLIMSOLL_ASSIGN(request.balanced, read_recorded_balance(recorded));
      rating_cap = std::exchange(request.balanced.bridge.rating_cap, std::nullopt);
      request.balanced.reference = request.reference;
    }
  }
  return ReadPlan{std::move(*answer.plan), std::move(answer.certificate), rating_cap};
}

// ---------------------------------------------------------------- text

std::string objective_name(embedding::BalanceObjective objective) {
  switch (objective) {
    case embedding::BalanceObjective::kRating:
      return "slowest rank";
    case embedding::BalanceObjective::kStep:
    case embedding::BalanceObjective::kTime:
      return "predicted step";
  }
  return "";
}

std::string components_text(const embedding::Perf& perf) {
  const std::pair<const char*, double> parts[] = {{"forward compute", perf.fwd_compute},
                                                  {"forward comms", perf.fwd_comms},
                                                  {"backward compute", perf.bwd_compute},
                                                  {"backward comms", perf.bwd_comms},
                                                  {"prefetch", perf.prefetch_compute}};
  std::string text;
  for (const auto& [name, ms] : parts) {
    if (ms > 0) text += fmt::format("{}{} {}", text.empty() ? "" : ", ", name, ms_text(ms));
  }
  return text;
}

// Without the dot before tables of a model that has no modules.
std::string name_of_table(const std::string& fqn) {
  return fqn.starts_with('.') ? fqn.substr(1) : fqn;
}

std::string tables_text(const PlanExplanation& told, bool is_verbose) {
  constexpr std::size_t kShown = 8;
  TextTable table({"table", "type", "kernel", "ms", "HBM"}, {false, false, false, true, true});
  const std::size_t count = is_verbose ? told.tables.size() : std::min(kShown, told.tables.size());
  for (std::size_t i = 0; i < count; ++i) {
    const study::TableShare& share = told.tables[i];
    table.add({name_of_table(share.fqn), share.sharding_type, share.compute_kernel,
               fmt::format("{:.4g}", share.ms), size_text(share.hbm)});
  }
  std::string text = table.text(2);
  if (count == told.tables.size()) return text;
  double rest = 0;
  for (std::size_t i = count; i < told.tables.size(); ++i) rest += told.tables[i].ms;
  return text + fmt::format("  and {} more tables with {} (-v lists them)\n",
                            told.tables.size() - count, ms_text(rest));
}

std::string bound_text(const PlanExplanation& told) {
  std::string text;
  if (told.certificate && told.certificate->lower_bound) {
    const std::string which = told.rating_cap ? fmt::format("whose slowest rank takes at most {} ",
                                                            ms_text(*told.rating_cap))
                                              : "";
    text = fmt::format("no plan {}is below {} (proof: {}). ", which,
                       ms_text(*told.certificate->lower_bound),
                       with_short_numbers(to_string(told.certificate->proof)));
  }
  return text + fmt::format(
                    "If all ranks had equal work, each would take {}; the largest shard that some "
                    "table needs takes {}",
                    ms_text(told.even_ms), ms_text(told.shard_ms));
}

std::string worth_text(const PlanExplanation& told) {
  std::string text;
  for (const study::RateWorth& worth : told.rates) {
    if (!(worth.ms_per_gb_s > 0)) continue;
    text += fmt::format("{}{} of {} (now {:.4g} GB/s)", text.empty() ? "saves " : "; ",
                        ms_text(worth.ms_per_gb_s), worth.rate, worth.gb_per_s);
  }
  return text;
}

std::string describe(const PlanExplanation& told, const GlobalFlags& flags) {
  constexpr std::size_t kNear = 15;  // where the text of a row begins
  std::string text = "\n";
  const double ms = value_of(told.times, told.objective);
  text += screen_row(objective_name(told.objective), ms_text(ms));
  text +=
      screen_row("slowest rank", fmt::format("rank {}: {} (the ranks' mean: {})", told.slowest_rank,
                                             ms_text(told.slowest.total()), ms_text(told.mean_ms)));
  text += screen_row("made of", components_text(told.slowest), kNear);
  text += screen_row("memory", fmt::format("{} of {} usable {} on rank {}, the fullest",
                                           size_text(told.fullest), size_text(told.room),
                                           told.tier == "hbm" ? "HBM" : "DDR", told.fullest_rank));
  text += screen_row("lower bound", bound_text(told), kNear);
  if (told.planned_again_ms && told.with_one_gib_ms) {
    const std::string with = ms_text(*told.with_one_gib_ms);
    const std::string without = ms_text(*told.planned_again_ms);
    text += screen_row(
        "one more GiB",
        (with == without
             ? fmt::format("of HBM on every rank changes nothing: {} with and without it", with)
             : fmt::format("of HBM on every rank: {} instead of {}", with, without)) +
            " (by a short search that ignores TorchRec's rating)",
        kNear);
  }
  const std::string worth = worth_text(told);
  text += screen_row("one more GB/s",
                     worth.empty() ? std::string("saves nothing on any link") : worth, kNear);
  text += "\nTables on rank " + std::to_string(told.slowest_rank) + "\n";
  text += tables_text(told, flags.verbosity > 0);
  if (told.faster.empty()) return text;
  text += "\nFaster with one of these changes (a plan was found with each):\n";
  for (const study::Fix& fix : told.faster) {
    text +=
        "  " +
        wrapped(shown(fmt::format("{}: {}", fix.change, ms_text(*fix.ms))), text_columns() - 2, 4) +
        "\n";
  }
  return text;
}

// ---------------------------------------------------------------- runs

Result<Answered> explain(const ExplainFlags& flags, const ShardRequest& request,
                         const ReadPlan& read, const RunContext& context) {
  PLIMSOLL_ASSIGN(PlanExplanation told,
                  study::explain_plan(request, read.plan, find_scaled(flags.shard),
                                      words_of(flags.shard, request), context));
  told.certificate = read.certificate;
  told.rating_cap = read.rating_cap;
  const std::string title = title_of(flags.shard, request);
  return Answered{
      io::write_explanation(told),
      paint(wrapped(shown(title), text_columns(), 2), Tone::kHeading, flags.shard.global) + "\n" +
          shown(describe(told, flags.shard.global)),
      "",
      SolveStatus::kFeasible,
      context.is_cancelled()       ? StopReason::kCancelled
      : context.is_past_deadline() ? StopReason::kDeadline
                                   : StopReason::kFinished,
      {},
      {}};
}

Result<Answered> run_question(ExplainFlags flags) {
  ShardFlags& shard = flags.shard;
  std::optional<io::PlanFile> file;
  if (!flags.plan.empty()) {  // first, so that swapped arguments are recognized
    PLIMSOLL_ASSIGN(file, load_plan(shard.planning, flags.plan));
  }
  PLIMSOLL_ASSIGN(ShardRequest request, make_shard_request(shard));
  if (request.dump) {
    return fail(ErrorCode::kUsage, shard.planning.model, "a dump of options is not a model",
                "`plimsoll shard` says why a dump has no plan");
  }
  PLIMSOLL_ASSIGN(const RunContext context, watch_search(shard.time_limit, shard.global));
  if (file) {
    PLIMSOLL_ASSIGN(const ReadPlan read, read_plan(flags, *file, request));
    return explain(flags, request, read, context);
  }
  const auto begin = std::chrono::steady_clock::now();
  auto planned = study::plan_tables(request, context);
  if (!planned) return tl::unexpected<Error>(with_flag_as_place(std::move(planned).error()));
  ReportedRun run{*std::move(planned), {}, 0};
  const auto& outcome = run.planning().outcome;
  if (outcome.plan) {
    return explain(flags, request, {*outcome.plan, outcome.certificate, run.balanced.rating_cap},
                   context);
  }
  run.no_plan = explain_no_plan(shard, request, run, context);
  run.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  ShardText text = app::describe(shard, request, run);
  return Answered{io::write_answer(make_answer(shard, request, run)),
                  std::move(text.head),
                  std::move(text.body),
                  outcome.status,
                  outcome.stop,
                  outcome.warnings,
                  explanation_remarks(outcome.explanation, outcome.status),
                  outcome.status == SolveStatus::kInfeasible ? std::size_t{1} : 0};
}

}  // namespace

void add_explain_command(CLI::App& app, Run& run) {
  auto flags = std::make_shared<ExplainFlags>();
  CLI::App* command = app.add_subcommand(
      "explain", "Explain what makes a plan's time and what would lower it, or why nothing fits");
  add_shard_flags(*command, flags->shard);
  command->option_defaults()->group(kCommonGroup);
  command->add_option("PLAN", flags->plan,
                      "A plan of embedding tables, of this or another program (default: make one)");
  command->footer("");
  set_help(*command,
           {{kCommonGroup, "plimsoll explain model.json plan.json --on dgx-h100:2"},
            {"Memory", "plimsoll explain mlperf-dlrm-dcnv2 --on 8x28GiB --ddr-cap 0"}},
           {"explain model.json --on 8x80GiB", "", ""});
  command->callback([flags, command, &run] {
    flags->shard.decided_twice = find_decided_twice(*command);
    run = [flags] {
      return run_planning(flags->shard.global, flags->shard.output,
                          [&] { return run_question(*flags); });
    };
  });
}

}  // namespace plimsoll::app
