// plimsoll shard: plans embedding tables over devices.

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <memory>

#include "plimsoll/embedding/balanced_frontier.h"
#include "plimsoll/embedding/stats.h"
#include "plimsoll/planning_run.h"
#include "plimsoll/shard_dump.h"
#include "plimsoll/shard_flags.h"
#include "plimsoll/shard_remedies.h"
#include "plimsoll/shard_report.h"

namespace plimsoll::app {
namespace {

using embedding::PlanningResult;

// What a search that is running has found so far, on one line.
// The reference's plan seen as the balanced search sees plans.
void add_times(const ShardRequest& request, ShardRun& run) {
  const PlanningResult& planning = run.planning();
  if (!planning.outcome.plan || planning.enumeration.options.tables.empty()) return;
  embedding::BridgeInput input;
  input.options = &planning.enumeration.options;
  input.room = &planning.reservation->topology;
  run.balanced.times =
      embedding::plan_times(input, request.balanced.bridge.step_model, planning.best);
}

Result<void> search(const ShardFlags& flags, const ShardRequest& request, const RunContext& context,
                    ShardRun& run) {
  constexpr int kNumLimits = 12;  // of a frontier
  if (flags.is_frontier) {
    auto found = request.dump
                     ? embedding::plan_balanced_frontier(request.problem, make_given(*request.dump),
                                                         request.balanced, kNumLimits,
                                                         request.limits, context)
                     : embedding::plan_balanced_frontier(request.problem, request.balanced,
                                                         kNumLimits, request.limits, context);
    if (!found) return tl::unexpected<Error>(std::move(found).error());
    run.balanced = std::move(found->unlimited);
    run.frontier = std::move(found->frontier);
    run.frontier_plans = std::move(found->plans);
    run.frontier_proofs = std::move(found->proofs);
    return {};
  }
  if (request.dump) {
    embedding::GivenOptions given = make_given(*request.dump);
    if (run.is_balanced) {
      PLIMSOLL_ASSIGN(run.balanced,
                      embedding::plan_balanced(request.problem, given, request.balanced,
                                               request.limits, context));
      return {};
    }
    PLIMSOLL_ASSIGN(run.balanced.planning, embedding::search_like_torchrec(
                                               request.problem, nullptr, std::move(given.prepared),
                                               request.reference, request.limits, context));
    add_times(request, run);
    return {};
  }
  if (run.is_balanced) {
    PLIMSOLL_ASSIGN(run.balanced, embedding::plan_balanced(request.problem, request.balanced,
                                                           request.limits, context));
    return {};
  }
  PLIMSOLL_ASSIGN(
      run.balanced.planning,
      embedding::plan_like_torchrec(request.problem, request.reference, request.limits, context));
  add_times(request, run);
  return {};
}

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
  ShardRun run;
  run.is_balanced = flags.is_balanced();
  const RunContext context = watch_search(request.limits, flags.global);
  const auto begin = std::chrono::steady_clock::now();
  const auto searched = search(flags, request, context, run);
  if (searched) run.remedies = find_remedies(flags, request, run, context);
  run.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  if (!searched) return tl::unexpected<Error>(with_flag_as_place(searched.error()));
  if (request.dump) {
    run.bill = make_bill(*request.dump, run.planning());
    return run;
  }
  auto bill = embedding::make_bill(request.problem, run.planning());
  if (!bill) return tl::unexpected<Error>(with_flag_as_place(bill.error()));
  run.bill = *std::move(bill);
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
