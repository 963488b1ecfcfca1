// plimsoll shard: plans embedding tables over devices.

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <memory>

#include "plimsoll/common.h"
#include "plimsoll/embedding/balanced_frontier.h"
#include "plimsoll/embedding/stats.h"
#include "plimsoll/io/files.h"
#include "plimsoll/shard_dump.h"
#include "plimsoll/shard_flags.h"
#include "plimsoll/shard_remedies.h"
#include "plimsoll/shard_report.h"

namespace plimsoll::app {
namespace {

using embedding::PlanningResult;

// What a search that is running has found so far, on one line.
std::string progress_text(const Progress& progress, bool is_balanced) {
  if (!is_balanced) {
    return fmt::format("\rproposal {}: rating {:.6g} ms ", progress.effort,
                       progress.incumbent.value_or(0));
  }
  std::string text = fmt::format("\reffort {}: ", progress.effort);
  text += progress.incumbent ? fmt::format("{:.6g} ms", *progress.incumbent) : "no plan yet";
  if (progress.lower_bound) text += fmt::format(", bound {:.6g} ms", *progress.lower_bound);
  if (progress.incumbent && progress.lower_bound && *progress.lower_bound > 0) {
    text += fmt::format(", gap {:.3g} %", (*progress.incumbent / *progress.lower_bound - 1) * 100);
  }
  return text + " \x1b[K";
}

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

void print_text(const ShardFlags& flags, const ShardRequest& request, const ShardRun& run) {
  const PlanningResult& result = run.planning();
  print(summary(flags, request, run));
  if (flags.prints_plan && result.outcome.plan) {
    print("\n" + embedding::print_plan(*result.outcome.plan) + "\n");
  }
  if (flags.prints_stats && !result.enumeration.options.tables.empty()) {
    print("\n");
    for (const std::string& line :
         embedding::make_stats_report(request.problem, result, {true, run.seconds, 0}).lines) {
      print(line + "\n");
    }
  }
}

void print_remarks(const ShardFlags& flags, const ShardRun& run) {
  const PlanningResult& result = run.planning();
  const auto& outcome = result.outcome;
  if (!flags.global.quiet) {
    for (const Warning& warning : outcome.warnings) {
      print_error_text(fmt::format("warning: {}{}{}\n", warning.place,
                                   warning.place.empty() ? "" : ": ", warning.message));
    }
  }
  if (!result.failure) return;
  // Of a reservation TorchRec's text names its classes, which the command line has not.
  const std::string message =
      result.reservation ? result.failure->message : "nothing is left for tables";
  print_error_text(fmt::format("plimsoll: no plan: PlannerError ({}){}{}: {}\n",
                               result.failure->kind, result.failure->place.empty() ? "" : ", ",
                               result.failure->place, message));
  for (const std::string& line : outcome.explanation.lines) {
    print_error_text(fmt::format(
        "{}: {}\n", outcome.status == SolveStatus::kInfeasible ? "proved infeasible" : "note",
        line));
  }
}

Result<ShardRun> run_search(const ShardFlags& flags, const ShardRequest& request) {
  ShardRun run;
  run.is_balanced = flags.is_balanced();
  RunContext context = begin_search(request.limits);
  if (shows_progress(flags.global)) {
    context.progress = [&run](const Progress& progress) {
      print_error_text(progress_text(progress, run.is_balanced));
    };
  }
  const auto begin = std::chrono::steady_clock::now();
  const auto searched = search(flags, request, context, run);
  if (searched) run.remedies = find_remedies(flags, request, run, context);
  run.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  stop_watching_interrupts();
  if (shows_progress(flags.global)) print_error_text("\r\x1b[K");
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

int run_shard(ShardFlags flags) {
  const PlanningFlags& planning = flags.planning;
  if (const auto once = check_standard_input({planning.model, planning.on, planning.constraints,
                                              planning.checkpoint_plan, flags.stored_plan,
                                              flags.step_model, flags.rules, flags.replay});
      !once) {
    return report(once.error(), flags.global);
  }
  const auto request = make_shard_request(flags);
  if (!request) return report(request.error(), flags.global);
  const bool has_file = !flags.output.empty() && flags.output != "-";
  if (has_file) {  // a search may take long
    if (const auto can_write = io::check_writable(flags.output); !can_write) {
      return report(can_write.error(), flags.global);
    }
  }
  const auto run = run_search(flags, *request);
  if (!run) return report(run.error(), flags.global);
  const std::string answer = io::write_answer(make_answer(flags, *request, *run));
  if (has_file) {
    if (const auto written = io::write_text_file(flags.output, answer); !written) {
      return report(written.error(), flags.global);
    }
  }
  if (flags.global.json || flags.output == "-") {
    print(answer);
  } else {
    print_text(flags, *request, *run);
  }
  print_remarks(flags, *run);
  return exit_code(run->planning().outcome.status, run->planning().outcome.stop);
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
