// plimsoll shard: plans embedding tables over devices.

#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <memory>

#include "plimsoll/embedding/stats.h"
#include "plimsoll/io/files.h"
#include "plimsoll/io/plan_json.h"
#include "plimsoll/planning_run.h"
#include "plimsoll/shard/expert_commands.h"
#include "plimsoll/shard/shard_flags.h"
#include "plimsoll/shard/shard_remedies.h"
#include "plimsoll/shard/shard_report.h"

namespace plimsoll::app {
namespace {

using embedding::PlanningResult;

// TorchRec's statistics report; empty without tables.
std::string stats_of(const ShardRequest& request, const ReportedRun& run) {
  if (run.planning().enumeration.options.tables.empty()) return "";
  const auto report =
      embedding::make_stats_report(request.problem, run.planning(), {true, run.seconds, 0});
  std::string text;
  for (const std::string& line : report.lines) text += line + "\n";
  return text;
}

// Reports in TorchRec's own form that were asked for.
std::string reports_of(const ShardFlags& flags, const ShardRequest& request,
                       const ReportedRun& run) {
  const PlanningResult& result = run.planning();
  std::string text;
  if (flags.prints_plan && result.outcome.plan) {
    text += "\n" + embedding::print_plan(*result.outcome.plan) + "\n";
  }
  if (flags.prints_stats) text += "\n" + stats_of(request, run);
  return text;
}

// The text has the first reason already. Where both streams are one terminal it is not said again.
std::size_t num_remarks_in_text(const ReportedRun& run) {
  constexpr std::size_t kKindAndReason = 2;
  const bool is_one_screen = isatty(STDOUT_FILENO) != 0 && isatty(STDERR_FILENO) != 0;
  const Outcome<embedding::ShardingPlan>& outcome = run.planning().outcome;
  return is_one_screen && run.planning().failure && outcome.status == SolveStatus::kInfeasible &&
                 !outcome.explanation.lines.empty()
             ? kKindAndReason
             : 0;
}

std::vector<std::string> remarks_of(const ReportedRun& run) {
  const PlanningResult& result = run.planning();
  if (!result.failure) return {};
  // TorchRec's text on a reservation names Python classes, which the command line does not have.
  const std::string message =
      result.reservation ? result.failure->message : "nothing is left for tables";
  std::vector<std::string> remarks = {
      fmt::format("plimsoll: no plan: PlannerError ({}){}{}: {}", result.failure->kind,
                  result.failure->place.empty() ? "" : ", ", result.failure->place, message)};
  for (std::string& line : explanation_remarks(result.outcome.explanation, result.outcome.status)) {
    remarks.push_back(std::move(line));
  }
  return remarks;
}

Result<ReportedRun> run_search(const ShardFlags& flags, const ShardRequest& request) {
  PLIMSOLL_ASSIGN(const RunContext context, watch_search(flags.time_limit, flags.global));
  const auto begin = std::chrono::steady_clock::now();
  auto planned = study::plan_tables(request, context);
  if (!planned) return tl::unexpected<Error>(with_flag_as_place(std::move(planned).error()));
  ReportedRun run{*std::move(planned), {}, 0};
  run.no_plan = explain_no_plan(flags, request, run, context);
  run.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return run;
}

Result<Answered> plan_tables(ShardFlags flags) {
  const PlanningFlags& planning = flags.planning;
  PLIMSOLL_RETURN_IF_ERROR(check_standard_input({planning.model, planning.on, planning.constraints,
                                                 planning.checkpoint_plan, flags.stored_plan,
                                                 flags.step_model, flags.rules, flags.replay}));
  if (!flags.stats_file.empty()) PLIMSOLL_RETURN_IF_ERROR(io::check_writable(flags.stats_file));
  PLIMSOLL_ASSIGN(const ShardRequest request, make_shard_request(flags));
  PLIMSOLL_ASSIGN(const ReportedRun run, run_search(flags, request));
  if (!flags.stats_file.empty()) {
    PLIMSOLL_RETURN_IF_ERROR(io::write_text_file(flags.stats_file, stats_of(request, run)));
  }
  const auto& outcome = run.planning().outcome;
  ShardText text;
  if (!prints_document(flags.global, flags.output)) {
    text = describe(flags, request, run);
    text.body += reports_of(flags, request, run);
  }
  return Answered{io::write_answer(make_answer(flags, request, run)),
                  std::move(text.head),
                  std::move(text.body),
                  outcome.status,
                  outcome.stop,
                  outcome.warnings,
                  remarks_of(run),
                  num_remarks_in_text(run)};
}

int run_shard(const ShardFlags& flags) {
  return run_planning(flags.global, flags.output, [&] { return plan_tables(flags); });
}

}  // namespace

void add_shard_command(CLI::App& app, Run& run) {
  auto flags = std::make_shared<ShardFlags>();
  CLI::App* command =
      app.add_subcommand("shard", "Plan which rank holds which shard of which embedding table");
  add_shard_flags(*command, *flags);
  command->callback([flags, command, &run] {
    flags->decided_twice = find_decided_twice(*command);
    run = [flags] {
      if (!is_of_experts(flags->planning)) return run_shard(*flags);
      ExpertFlags asked;
      asked.global = flags->global;
      asked.planning = flags->planning;
      asked.search = flags->search;
      asked.output = flags->output;
      asked.time_limit = flags->time_limit;
      asked.effort = flags->effort;
      asked.tolerance = flags->tolerance;
      return run_expert_shard(asked);
    };
  });
}

}  // namespace plimsoll::app
