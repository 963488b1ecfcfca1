// plimsoll trace: the step that a plan predicts, as Perfetto reads it.

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cmath>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "plimsoll/help.h"
#include "plimsoll/io/files.h"
#include "plimsoll/io/trace_json.h"
#include "plimsoll/plan_commands.h"
#include "plimsoll/plans/any_plan.h"
#include "plimsoll/study/step_timeline.h"
#include "plimsoll/text/text_layout.h"

namespace plimsoll::app {
namespace {

struct TraceFlags {
  GlobalFlags global;
  AnyPlanFlags plan;
  std::string file;
  std::string output;
  std::string beside;
  std::optional<int> step;
};

struct Drawn {
  std::string trace, text;
  std::vector<Warning> warnings;
};

Result<Drawn> draw(const TraceFlags& flags) {
  PLIMSOLL_RETURN_IF_ERROR(
      check_standard_input({flags.file, flags.beside, flags.plan.planning.model}));
  PLIMSOLL_ASSIGN(const AnyPlan plan, load_any_plan(flags.plan, flags.file));
  PLIMSOLL_ASSIGN(const study::StepTimeline timeline, predict_step_of(plan));
  Drawn drawn;
  drawn.warnings = plan.warnings;
  drawn.text = fmt::format(
      "{}: {} predicted{}, {}\n", timeline.what, ms_text(timeline.end_ms),
      plan.rated_at.empty() ? "" : " at " + plan.rated_at,
      counted(static_cast<std::int64_t>(timeline.processes.size()), "process", "processes"));
  if (flags.beside.empty()) {
    drawn.trace = io::write_trace(timeline);
    return drawn;
  }
  if (flags.beside.ends_with(".gz")) {
    return fail(ErrorCode::kUsage, flags.beside, "compressed traces are not read",
                fmt::format("unpack it: gunzip -k {}", flags.beside));
  }
  PLIMSOLL_ASSIGN(const std::string recorded, io::read_text_file(flags.beside));
  PLIMSOLL_ASSIGN(io::TraceBeside beside,
                  io::write_trace_beside(timeline, recorded, flags.beside, flags.step));
  drawn.trace = std::move(beside.trace);
  drawn.text += fmt::format("{}: {} recorded", beside.recorded_name, ms_text(beside.recorded_ms));
  if (timeline.end_ms > 0) {
    const double share = beside.recorded_ms / timeline.end_ms - 1;
    drawn.text += fmt::format(", {} {} than predicted", format_percent(std::abs(share)),
                              share < 0 ? "less" : "more");
  }
  drawn.text += "\n";
  return drawn;
}

int run_trace(const TraceFlags& flags) {
  const auto drawn = draw(flags);
  if (!drawn) return report(with_flag_as_place(drawn.error()), flags.global);
  const bool is_file = !flags.output.empty() && flags.output != "-";
  if (is_file) {
    if (const auto written = io::write_text_file(flags.output, drawn->trace); !written) {
      return report(written.error(), flags.global);
    }
  }
  if (!is_file || flags.global.json) {
    print(drawn->trace);
  } else {
    print(shown(drawn->text) +
          hint(fmt::format("Open {} at https://ui.perfetto.dev.", shown(flags.output))));
  }
  if (!flags.global.quiet) {
    for (const std::string& line : warning_lines(drawn->warnings, flags.global.verbosity > 0)) {
      print_error_text(line + "\n");
    }
  }
  return kExitOk;
}

}  // namespace

void add_trace_command(CLI::App& app, Run& run) {
  auto flags = std::make_shared<TraceFlags>();
  CLI::App* command =
      app.add_subcommand("trace", "Write the step that a plan predicts as a trace for Perfetto");
  add_drawing_flags(*command, "trace", flags->file, flags->output);
  CLI::Option* const beside =
      command
          ->add_option("--beside", flags->beside,
                       "A trace that torch's profiler recorded, to be drawn on the same axis")
          ->type_name("FILE");
  command
      ->add_option("--step", flags->step,
                   "Number of the recorded ProfilerStep to begin at (default: the last one)")
      ->type_name("N")
      ->check(CLI::NonNegativeNumber)
      ->needs(beside);
  add_any_plan_flags(*command, flags->plan);
  add_global_flags(*command, flags->global);
  set_help(*command,
           {{kCommonGroup, "plimsoll trace plan.json -o trace.json --beside recorded.json"}},
           {"trace torchrec.json --model model.json --on 8x80GiB", "",
            "trace placement.json --model graph.json"});
  command->callback([flags, &run] { run = [flags] { return run_trace(*flags); }; });
}

}  // namespace plimsoll::app
