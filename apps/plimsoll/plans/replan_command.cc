// plimsoll replan: the plan to change to within a budget of moved bytes, and how to get there.

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <map>
#include <memory>
#include <utility>

#include "io/documents/plan_tree.h"
#include "io/import/foreign_plan.h"
#include "plimsoll/common.h"
#include "plimsoll/help.h"
#include "plimsoll/io/replan_json.h"
#include "plimsoll/machines/machines_flags.h"
#include "plimsoll/plan_commands.h"
#include "plimsoll/planning_run.h"
#include "plimsoll/shard/expert_commands.h"
#include "plimsoll/shard/planning_flags.h"
#include "plimsoll/study/replan.h"
#include "plimsoll/text/text_layout.h"
#include "plimsoll/text/text_table.h"

namespace plimsoll::app {
namespace {

using embedding::ScheduleStatus;
using embedding::TransferKind;
using study::Replan;

struct ReplanFlags {
  GlobalFlags global;
  PlanningFlags planning;
  std::string plan;
  std::string was_on;
  std::string max_moved;
  std::optional<double> price_of_move;
  std::string objective;
  std::string output;
  std::string time_limit;
  std::int64_t effort = -1;
  double tolerance = SearchOptions{}.tolerance;
};

// "50GiB", or "10%" of all bytes.
Result<void> parse_limit(const std::string& text, study::ReplanOptions& options) {
  if (text.empty()) return {};
  if (text.back() == '%') {
    PLIMSOLL_ASSIGN(
        const double percent,
        parse_number<double>(std::string_view(text).substr(0, text.size() - 1), "--max-moved"));
    options.max_moved_share = percent / 100;
    return {};
  }
  auto bytes = parse_size(text);
  if (!bytes) {
    bytes.error().place = "--max-moved";
    bytes.error().remedy = "give bytes, such as 50GiB, or a share of all bytes, such as 10%";
  }
  PLIMSOLL_ASSIGN(options.max_moved, std::move(bytes));
  return {};
}

struct Asked {
  embedding::PlanningProblem problem;
  embedding::ShardingPlan before;
  study::ReplanOptions options;
};

// What the plan was made with counts where no flag says otherwise.
Result<Asked> read_question(const ReplanFlags& flags) {
  PLIMSOLL_ASSIGN(const io::PlanFile file, load_plan(flags.planning, flags.plan));
  if (file.format != io::PlanFormat::kShardingPlan || io::is_input(file)) {
    return fail(ErrorCode::kUsage, flags.plan, "this is not a plan of embedding tables",
                "give a plan that `plimsoll shard` or TorchRec made");
  }
  Asked asked;
  std::string objective = flags.objective;
  if (io::is_own_plan(file.root)) {
    PLIMSOLL_ASSIGN(study::ShardingAnswer answer, io::read_plan_tree(file.root, file.name));
    if (!answer.plan) {
      return fail(ErrorCode::kValue, flags.plan, "the answer holds no plan",
                  "`plimsoll shard` makes one");
    }
    std::map<std::string, std::string> recorded;
    if (answer.provenance) recorded = answer.provenance->options;
    PLIMSOLL_ASSIGN(asked.problem, make_problem(flags.planning, recorded));
    if (objective.empty() && answer.objective) objective = to_string(*answer.objective);
    asked.before = std::move(*answer.plan);
  } else {
    PLIMSOLL_ASSIGN(asked.problem, make_problem(flags.planning));
    PlanningFlags old = flags.planning;
    if (!flags.was_on.empty()) old.on = flags.was_on;
    PLIMSOLL_ASSIGN(const topology::Topology was, make_topology(old, asked.problem.cost_model));
    PLIMSOLL_ASSIGN(asked.before,
                    io::read_foreign_plan(file.root, file.name,
                                          {asked.problem.model, was, asked.problem.cost_model}));
  }
  asked.options.balanced.uses_reference = false;
  asked.options.balanced.bridge.objective = objective_of(objective);
  if (asked.problem.machine) {
    asked.options.balanced.bridge.step_model = asked.problem.machine->step;
  }
  asked.options.price_of_move = flags.price_of_move;
  PLIMSOLL_RETURN_IF_ERROR(parse_limit(flags.max_moved, asked.options));
  return asked;
}

// ---------------------------------------------------------------- text

std::string schedule_text(const Replan& replan) {
  const embedding::TransferSchedule& schedule = replan.schedule;
  std::int64_t copies = 0, staged = 0;
  for (const embedding::TransferStep& step : schedule.steps) {
    copies += step.kind == TransferKind::kCopy;
    staged += step.kind == TransferKind::kStage;
  }
  const std::string text = counted(copies, "shard is copied", "shards are copied");
  const std::string beside = staged == 0 ? ""
                                         : fmt::format(", {} first make room ({} more bytes)",
                                                       counted(staged, "shard", "shards"),
                                                       size_text(schedule.staged_bytes));
  switch (schedule.status) {
    case ScheduleStatus::kComplete:
      return text + beside + "; at no step does a rank hold more than its cap";
    case ScheduleStatus::kNeedsSpare:
      return text + beside +
             fmt::format("; it needs {} of HBM more on every rank while it runs{}",
                         size_text(schedule.spare_bytes),
                         schedule.is_spare_proved ? " (without it no shard can be moved: proved)"
                                                  : " (as far as was searched)");
    case ScheduleStatus::kNone:
      return "none was found that keeps the caps";
  }
  return "";
}

std::string moves_text(const Replan& replan, bool is_verbose) {
  struct Row {
    Bytes bytes = 0;
    std::int64_t shards = 0;
    std::string where;
  };
  std::map<std::string, Row> rows;
  for (const embedding::TransferStep& step : replan.schedule.steps) {
    if (step.kind != TransferKind::kCopy || step.bytes == 0) continue;
    Row& row = rows[step.table];
    row.bytes += step.bytes;
    ++row.shards;
    if (row.shards > 1 || step.from.size() != 1) {
      row.where = "";
    } else {
      row.where = fmt::format("rank {} to {}", step.from.front().rank, step.rank);
    }
  }
  std::vector<std::pair<std::string, Row>> order(rows.begin(), rows.end());
  std::stable_sort(order.begin(), order.end(),
                   [](const auto& a, const auto& b) { return a.second.bytes > b.second.bytes; });
  constexpr std::size_t kShown = 8;
  const std::size_t count = is_verbose ? order.size() : std::min(kShown, order.size());
  if (count == 0) return "";
  TextTable table({"table", "shards", "bytes", ""}, {false, true, true, false});
  for (std::size_t i = 0; i < count; ++i) {
    const auto& [name, row] = order[i];
    table.add({name, fmt::format("{}", row.shards), size_text(row.bytes), row.where});
  }
  std::string text = "\n" + table.text(2);
  if (count == order.size()) return text;
  Bytes rest = 0;
  for (std::size_t i = count; i < order.size(); ++i) rest += order[i].second.bytes;
  return text + fmt::format("  and {} more tables with {} (all with -v)\n", order.size() - count,
                            size_text(rest));
}

std::string describe(const ReplanFlags& flags, const Replan& replan) {
  const std::string title = fmt::format("{}: from {} to a plan for {}", flags.planning.model,
                                        flags.plan, flags.planning.on);
  std::string text = paint(wrapped(shown(title), text_columns(), 2), Tone::kHeading, flags.global);
  text += "\n\n";
  if (!replan.ms) {
    if (replan.status == SolveStatus::kInfeasible && replan.least_moved && replan.max_moved) {
      return text + screen_row("no plan", fmt::format("every plan moves at least {}, and {} may "
                                                      "move (proved): give --max-moved {}",
                                                      size_text(*replan.least_moved),
                                                      size_text(*replan.max_moved),
                                                      size_text(*replan.least_moved)));
    }
    return text +
           screen_row("no plan", replan.status == SolveStatus::kInfeasible
                                     ? "nothing fits (proved): `plimsoll explain` says why"
                                     : "no plan was found that moves so little: raise --max-moved");
  }
  const char* what =
      replan.objective == embedding::BalanceObjective::kRating ? "slowest rank" : "predicted step";
  std::string beside;
  if (replan.before_ms) beside += fmt::format("old plan {}", ms_text(*replan.before_ms));
  if (replan.fresh_ms) {
    beside += fmt::format("{}planned from scratch {}", beside.empty() ? "" : ", ",
                          ms_text(*replan.fresh_ms));
  }
  text += screen_row(what, fmt::format("{:<12} {}", ms_text(*replan.ms), beside));
  if (const std::optional<double> gap = replan.gap()) {
    const std::string who = replan.is_bound_of_all ? "no plan"
                            : replan.max_moved     ? fmt::format("no plan that moves at most {}",
                                                                 size_text(*replan.max_moved))
                                                   : "no plan";
    text += screen_row(
        "lower bound",
        fmt::format(
            "{:<12} {} is below it{}; this one is {}", ms_text(*replan.lower_bound), who,
            replan.price_of_move ? ", what it moves included" : "",
            *gap < SearchOptions{}.tolerance ? "the best" : format_percent(*gap) + " above"));
  }
  const double all = static_cast<double>(std::max<Bytes>(replan.total_bytes, 1));
  text += screen_row("moved",
                     fmt::format("{:<12} {} of {}{}", size_text(replan.moved_bytes),
                                 format_percent(static_cast<double>(replan.moved_bytes) / all),
                                 size_text(replan.total_bytes),
                                 replan.fresh_ms ? fmt::format("; planned from scratch {}",
                                                               size_text(replan.fresh_moved_bytes))
                                                 : ""));
  text += screen_row("schedule", schedule_text(replan));
  return text + moves_text(replan, flags.global.verbosity > 0);
}

Result<Answered> replan(const ReplanFlags& flags) {
  PLIMSOLL_ASSIGN(const SearchOptions limits,
                  make_search_options(flags.global, flags.effort, flags.tolerance));
  PLIMSOLL_ASSIGN(const Asked asked, read_question(flags));
  PLIMSOLL_ASSIGN(const RunContext context, watch_search(flags.time_limit, flags.global));
  auto found = study::replan_tables(asked.problem, asked.before, asked.options, limits, context);
  if (!found) {
    Error error = with_flag_as_place(std::move(found).error());
    if (error.place == "max_moved") error.place = "--max-moved";
    if (error.place == "price_of_move") error.place = "--price-of-move";
    return tl::unexpected<Error>(std::move(error));
  }
  Replan& made = *found;
  put_limits(flags.effort, flags.tolerance, *made.answer.provenance);
  return Answered{io::write_replan(made),
                  describe(flags, made),
                  "",
                  made.status,
                  made.stop,
                  made.answer.warnings,
                  {}};
}

}  // namespace

void add_replan_command(CLI::App& app, Run& run) {
  auto flags = std::make_shared<ReplanFlags>();
  CLI::App* command = app.add_subcommand(
      "replan", "Change a plan of embedding tables to a better one that moves few bytes");
  add_planning_flags(*command, flags->planning);
  command->get_option("--on")->required(false);  // experts have their own
  command->option_defaults()->group(kCommonGroup);
  command
      ->add_option(
          "PLAN", flags->plan,
          "The plan that is in use now, of this or another program; '-' for standard input")
      ->required();
  CLI::Option* limit = command
                           ->add_option("--max-moved", flags->max_moved,
                                        "Most bytes of weights and optimizer state to copy between "
                                        "ranks: 50GiB, or 10% of all (default: 10%)")
                           ->type_name("SIZE");
  command
      ->add_option(
          "--price-of-move", flags->price_of_move,
          "Instead of a limit: minimize the time plus this many milliseconds for each GiB moved")
      ->type_name("MS")
      ->excludes(limit);
  command
      ->add_option(
          "--was-on", flags->was_on,
          "Hardware that PLAN was made for, if another program made it and it is not that of --on")
      ->type_name("HARDWARE");
  command
      ->add_option("--objective", flags->objective,
                   "What is minimized: rating (the slowest rank), step or time (default: the old "
                   "plan's, else time)")
      ->check(CLI::IsMember({"rating", "step", "time"}));
  command
      ->add_option("-o,--output", flags->output,
                   "Write the answer as JSON to this file ('-': to standard output); all commands "
                   "read it as the new plan")
      ->type_name("FILE");
  add_limit_flags(*command, flags->time_limit, flags->effort, flags->tolerance);
  add_planning_globals(*command, flags->global);
  set_help(
      *command,
      {{kCommonGroup, "plimsoll replan model.json plan.json --on dgx-h100:2 --max-moved 50GiB"},
       {"Memory", "plimsoll replan model.json plan.json --on 9x80GiB --hbm-cap 60GiB"}},
      {"replan model.json plan.json --on 8x80GiB", "", ""});
  command->callback([flags, &run] {
    run = [flags] {
      if (is_of_experts(flags->planning)) {
        ExpertFlags asked;
        asked.global = flags->global;
        asked.planning = flags->planning;
        asked.plan = flags->plan;
        asked.max_moved = flags->max_moved;
        asked.has_price = flags->price_of_move.has_value();
        asked.output = flags->output;
        asked.time_limit = flags->time_limit;
        asked.effort = flags->effort;
        asked.tolerance = flags->tolerance;
        return run_expert_replan(asked);
      }
      if (flags->planning.on.empty()) {
        return report({ErrorCode::kUsage, "--on", "a plan of embedding tables needs its hardware",
                       "name it, such as --on dgx-h100:2", ""},
                      flags->global);
      }
      return run_planning(flags->global, flags->output, [&] { return replan(*flags); });
    };
  });
}

}  // namespace plimsoll::app
