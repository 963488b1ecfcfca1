// plimsoll shard: plans embedding tables over devices.

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <memory>

#include "plimsoll/embedding/stats.h"
#include "plimsoll/io/plan_json.h"
#include "plimsoll/planning_run.h"
#include "plimsoll/shard_flags.h"
#include "plimsoll/shard_remedies.h"
#include "plimsoll/shard_report.h"

namespace plimsoll::app {
namespace {

using embedding::PlanningResult;

std::string text_of(const ShardFlags& flags, const ShardRequest& request, const ShardRun& run) {
  const PlanningResult& result = run.planning();
  std::string text = summary(flags, request, run);
  if (flags.prints_plan && result.outcome.plan) {
    text += "\n" + embedding::print_plan(*result.outcome.plan) + "\n";
  }
  if (flags.prints_stats && !result.enumeration.options.tables.empty()) {
    text += "\n";
    for (const std::string& line :
         embedding::make_stats_report(request.problem, result, {true, run.seconds, 0}).lines) {
      text += line + "\n";
    }
  }
  return text;
}

std::vector<std::string> remarks_of(const ShardRun& run) {
  const PlanningResult& result = run.planning();
  if (!result.failure) return {};
  // Of a reservation TorchRec's text names its classes, which the command line has not.
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

Result<ShardRun> run_search(const ShardFlags& flags, const ShardRequest& request) {
  const RunContext context = watch_search(request.limits, flags.global);
  const auto begin = std::chrono::steady_clock::now();
  auto planned = study::plan_tables(request, context);
  if (!planned) return tl::unexpected<Error>(with_flag_as_place(std::move(planned).error()));
  ShardRun run{*std::move(planned), {}, 0};
  run.remedies = find_remedies(flags, request, run, context);
  run.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return run;
}

Result<Answered> plan_tables(ShardFlags flags) {
  const PlanningFlags& planning = flags.planning;
  PLIMSOLL_RETURN_IF_ERROR(check_standard_input({planning.model, planning.on, planning.constraints,
                                                 planning.checkpoint_plan, flags.stored_plan,
                                                 flags.step_model, flags.rules, flags.replay}));
  PLIMSOLL_ASSIGN(const ShardRequest request, make_shard_request(flags));
  PLIMSOLL_ASSIGN(const ShardRun run, run_search(flags, request));
  const auto& outcome = run.planning().outcome;
  return Answered{io::write_answer(make_answer(flags, request, run)),
                  prints_document(flags.global, flags.output) ? "" : text_of(flags, request, run),
                  outcome.status,
                  outcome.stop,
                  outcome.warnings,
                  remarks_of(run)};
}

int run_shard(const ShardFlags& flags) {
  return run_planning(flags.global, flags.output, [&] { return plan_tables(flags); });
}

}  // namespace

void add_shard_command(CLI::App& app, Run& run) {
  auto flags = std::make_shared<ShardFlags>();
  CLI::App* command =
      app.add_subcommand("shard", "Plan which device holds which shard of which embedding table");
  command->footer(examples(
      {"plimsoll shard mlperf-dlrm-dcnv2 --on dgx-h100:2 --stats",
       "plimsoll shard model.json --on 16x40GiB --batch-size 4096 --json -o plan.json",
       "plimsoll shard model.json --on 8x80GiB --objective rating --widths all --time-limit 10s",
       "plimsoll shard model.json --on topology.json --search torchrec",
       "plimsoll shard - --on 8x80GiB --cost-model torchrec-1.8 < model.json"}));
  add_shard_flags(*command, *flags);
  command->callback([flags, command, &run] {
    flags->decided_twice = find_decided_twice(*command);
    run = [flags] { return run_shard(*flags); };
  });
}

}  // namespace plimsoll::app
