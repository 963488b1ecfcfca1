// plimsoll robust: a plan for pooling factors that are known only as distributions.

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <utility>

#include "plimsoll/common.h"
#include "plimsoll/help.h"
#include "plimsoll/io/files.h"
#include "plimsoll/io/robust_json.h"
#include "plimsoll/machines/machines_flags.h"
#include "plimsoll/plan_commands.h"
#include "plimsoll/planning_run.h"
#include "plimsoll/shard/planning_flags.h"
#include "plimsoll/study/robust.h"
#include "plimsoll/text/text_layout.h"
#include "plimsoll/text/text_table.h"

namespace plimsoll::app {
namespace {

using study::RiskFigures;
using study::RiskMeasure;
using study::RobustPlan;

struct RobustFlags {
  GlobalFlags global;
  PlanningFlags planning;
  std::string pooling;
  std::string quantile, cvar;
  std::string objective = "rating";
  int scenarios = study::RobustOptions{}.num_scenarios;
  int fresh_scenarios = study::RobustOptions{}.num_fresh_scenarios;
  std::string output;
  std::string time_limit;
  std::int64_t effort = -1;
  double tolerance = SearchOptions{}.tolerance;
};

// "95%" or "0.95".
Result<double> parse_level(const std::string& text, const char* flag) {
  const bool is_percent = !text.empty() && text.back() == '%';
  PLIMSOLL_ASSIGN(const double level,
                  parse_number<double>(
                      std::string_view(text).substr(0, text.size() - (is_percent ? 1 : 0)), flag));
  return is_percent ? level / 100 : level;
}

Result<study::RobustOptions> read_options(const RobustFlags& flags) {
  study::RobustOptions options;
  options.objective = objective_of(flags.objective);
  options.num_scenarios = flags.scenarios;
  options.num_fresh_scenarios = flags.fresh_scenarios;
  if (!flags.quantile.empty()) {
    PLIMSOLL_ASSIGN(options.level, parse_level(flags.quantile, "--quantile"));
  }
  if (!flags.cvar.empty()) {
    options.measure = RiskMeasure::kCvar;
    PLIMSOLL_ASSIGN(options.level, parse_level(flags.cvar, "--cvar"));
  }
  return options;
}

// ---------------------------------------------------------------- text

std::string measure_text(const study::RobustOptions& options) {
  return options.measure == RiskMeasure::kQuantile
             ? fmt::format("{:.4g} % quantile", 100 * options.level)
             : fmt::format("mean of the worst {:.4g} %", 100 * (1 - options.level));
}

// "3.287 ms     planned for the means: 4.059 ms (23.5 % slower)".
std::string figure_text(double ms, double means_ms) {
  std::string beside = "the same";
  if (ms_text(means_ms) != ms_text(ms)) {
    beside =
        fmt::format("{}, {} {}", ms_text(means_ms), format_percent(std::abs(means_ms / ms - 1)),
                    means_ms > ms ? "slower" : "faster");
  }
  return fmt::format("{:<13}planned for the means: {}", ms_text(ms), beside);
}

std::string drifts_text(const RobustPlan& robust) {
  if (robust.drifts.empty()) return "";
  TextTable table({"table", "this plan", "another plan"}, {false, true, true});
  for (const study::PlanDrift& drift : robust.drifts) {
    table.add({drift.table, ms_text(drift.kept_ms), ms_text(drift.replanned_ms)});
  }
  return "\nPlan again if one of these tables is always looked up as often as in its worst "
         "cases:\n" +
         table.text(2);
}

std::string describe(const RobustFlags& flags, const RobustPlan& robust) {
  const study::RobustOptions& options = robust.options;
  const std::string title = fmt::format("{} on {}: a plan for uncertain pooling factors",
                                        flags.planning.model, flags.planning.on);
  std::string text = paint(wrapped(shown(title), text_columns(), 2), Tone::kHeading, flags.global);
  text += "\n\n";
  if (!robust.plan) {
    return text +
           screen_row("no plan",
                      robust.status == SolveStatus::kInfeasible
                          ? "nothing fits where all pooling factors are largest (proved)"
                          : "none was found that fits where all pooling factors are largest");
  }
  const char* what =
      options.objective == embedding::BalanceObjective::kRating ? "slowest rank" : "predicted step";
  const RiskFigures& figures = *robust.figures;
  const RiskFigures& means = *robust.means_figures;
  text += screen_row(what, figure_text(figures.risk_ms, means.risk_ms));
  if (const std::optional<double> gap = robust.gap()) {
    text += screen_row(
        "best possible",
        fmt::format("{:<13}{} (proved for these scenarios)", ms_text(*robust.lower_bound),
                    *gap < SearchOptions{}.tolerance
                        ? "no plan is better"
                        : fmt::format("this plan is at most {} above it", format_percent(*gap))));
  }
  text += screen_row("new scenarios", figure_text(figures.fresh_risk_ms, means.fresh_risk_ms));
  text += screen_row("their mean", figure_text(figures.fresh_mean_ms, means.fresh_mean_ms));
  text +=
      "\n" + in_lines(fmt::format("Times are the {} of the {} over {} scenarios that the search "
                                  "saw, and over {} new ones. \"Planned for the means\" is the "
                                  "plan for the mean pooling factors.\n",
                                  measure_text(options), what, grouped(options.num_scenarios),
                                  grouped(options.num_fresh_scenarios)),
                      2);
  return text + drifts_text(robust);
}

Result<Answered> plan_robustly(const RobustFlags& flags) {
  PLIMSOLL_ASSIGN(const SearchOptions limits,
                  make_search_options(flags.global, flags.effort, flags.tolerance));
  PLIMSOLL_ASSIGN(const study::RobustOptions options, read_options(flags));
  PLIMSOLL_ASSIGN(const std::string text, io::read_text_file(flags.pooling));
  PLIMSOLL_ASSIGN(const study::PoolingForecast forecast,
                  io::read_pooling_factors(text, flags.pooling));
  PLIMSOLL_ASSIGN(const embedding::PlanningProblem problem, make_problem(flags.planning));
  PLIMSOLL_ASSIGN(const RunContext context, watch_search(flags.time_limit, flags.global));
  auto found = study::plan_robustly(problem, forecast, options, limits, context);
  if (!found) {
    Error error = with_flag_as_place(std::move(found).error());
    if (error.place == "level") error.place = flags.cvar.empty() ? "--quantile" : "--cvar";
    if (error.place == "scenarios") error.place = "--scenarios";
    if (error.place == "machine") error.place = "--machine";
    if (error.place.starts_with("pooling")) error.place = flags.pooling + error.place.substr(7);
    return tl::unexpected<Error>(std::move(error));
  }
  RobustPlan& robust = *found;
  put_limits(flags.effort, flags.tolerance, robust.provenance);
  return Answered{io::write_robust_plan(robust),
                  describe(flags, robust),
                  "",
                  robust.status,
                  robust.stop,
                  robust.warnings,
                  explanation_remarks(robust.explanation, robust.status)};
}

}  // namespace

void add_robust_command(CLI::App& app, Run& run) {
  auto flags = std::make_shared<RobustFlags>();
  CLI::App* command = app.add_subcommand(
      "robust", "Plan embedding tables whose pooling factors are known as quantiles or samples");
  add_planning_flags(*command, flags->planning);
  command->option_defaults()->group(kCommonGroup);
  command
      ->add_option("--pooling", flags->pooling,
                   "How pooling factors are distributed (a file): p50 and p95, or "
                   "samples, of tables")
      ->type_name("FILE")
      ->required();
  CLI::Option* quantile =
      command
          ->add_option("--quantile", flags->quantile,
                       "Minimize this quantile over the scenarios (default: 95%)")
          ->type_name("LEVEL");
  command
      ->add_option("--cvar", flags->cvar,
                   "Instead minimize the mean of the worst scenarios: of the worst 5 % with 95%")
      ->type_name("LEVEL")
      ->excludes(quantile);
  command
      ->add_option("--objective", flags->objective,
                   "What a scenario is judged by: rating (the slowest rank), step or time")
      ->check(CLI::IsMember({"rating", "step", "time"}))
      ->capture_default_str();
  command->add_option("--scenarios", flags->scenarios, "Scenarios that are drawn for the search")
      ->type_name("N")
      ->capture_default_str();
  command
      ->add_option("--fresh-scenarios", flags->fresh_scenarios,
                   "Other scenarios in which the plan is tried once it is made")
      ->type_name("N")
      ->capture_default_str();
  command
      ->add_option("-o,--output", flags->output,
                   "Write the answer as JSON to this file ('-': to standard output); all commands "
                   "read it as a plan")
      ->type_name("FILE");
  add_limit_flags(*command, flags->time_limit, flags->effort, flags->tolerance);
  add_planning_globals(*command, flags->global);
  set_help(*command,
           {{kCommonGroup, "plimsoll robust model.json --on dgx-h100:2 --pooling pooling.json"},
            {"Memory", "plimsoll robust model.json --on 8x80GiB --hbm-cap 60GiB --pooling p.json"}},
           {"robust model.json --on 8x80GiB --pooling pooling.json", "", ""});
  command->callback([flags, &run] {
    run = [flags] {
      return run_planning(flags->global, flags->output, [&] { return plan_robustly(*flags); });
    };
  });
}

}  // namespace plimsoll::app
