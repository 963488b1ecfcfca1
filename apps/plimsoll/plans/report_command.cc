// plimsoll report: a plan as a page to look at.

#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "io/documents/study_json.h"
#include "io/export/what_if_page.h"
#include "plimsoll/help.h"
#include "plimsoll/io/files.h"
#include "plimsoll/io/plan_report_json.h"
#include "plimsoll/plan_commands.h"
#include "plimsoll/plans/any_plan.h"
#include "plimsoll/study/plan_report.h"
#include "plimsoll/text/text_layout.h"

namespace plimsoll::app {
namespace {

struct ReportFlags {
  GlobalFlags global;
  AnyPlanFlags plan;
  std::string file;
  std::string output;
  std::string against;
  std::string title;
  bool is_fragment = false;
};

// Without its folder: a page may be looked at elsewhere.
std::string name_of(const std::string& file) {
  return file == "-" ? "plan" : std::filesystem::path(file).filename().string();
}

// What the command prints or writes; empty what it does not.
struct Shown {
  std::string page, document;
};

bool writes_file(const ReportFlags& flags) { return !flags.output.empty() && flags.output != "-"; }

template <class Page, class Document>
Shown show(const ReportFlags& flags, const Page& page, const Document& document) {
  return {writes_file(flags) || !flags.global.json ? page() : "",
          flags.global.json ? document() : ""};
}

std::string title_of(const ReportFlags& flags) {
  return flags.title.empty() ? name_of(flags.file) : flags.title;
}

Result<Shown> show_sweep(const ReportFlags& flags, const io::ReadWhatIf& sweep) {
  if (!flags.against.empty()) {
    return fail(ErrorCode::kUsage, "--against", "a sweep is not compared with another",
                "leave it out");
  }
  const auto page = [&] {
    const std::string title = title_of(flags);
    return flags.is_fragment ? io::write_what_if_fragment(sweep.answer, title)
                             : io::write_what_if_page(sweep.answer, title);
  };
  return show(flags, page, [&] { return io::write_what_if(sweep.answer, sweep.inputs); });
}

Result<study::PlanReport> make_report(const ReportFlags& flags, const io::PlanFile& opened) {
  PLIMSOLL_ASSIGN(const AnyPlan plan, take_any_plan(flags.plan, opened));
  auto made =
      std::visit([](const auto& answer) { return study::report_plan(answer); }, plan.answer);
  if (!made) {
    made.error().place = plan.name;
    return made;
  }
  study::PlanReport report = *std::move(made);
  report.name = title_of(flags);
  report.warnings.insert(report.warnings.end(), plan.warnings.begin(), plan.warnings.end());
  // Where a plan has no times of its own there is no schedule to show.
  if (auto timeline = predict_step_of(plan)) report.timeline = *std::move(timeline);
  if (flags.against.empty()) return report;
  PLIMSOLL_ASSIGN(const AnyPlan other, load_any_plan(flags.plan, flags.against, &plan));
  PLIMSOLL_ASSIGN(report.difference, compare_any_plans(other, plan));
  report.compared_with = name_of(flags.against);
  return report;
}

Result<Shown> show(const ReportFlags& flags) {
  PLIMSOLL_RETURN_IF_ERROR(
      check_standard_input({flags.file, flags.against, flags.plan.planning.model}));
  PLIMSOLL_ASSIGN(const io::PlanFile opened, open_any_plan(flags.file));
  if (io::is_what_if_tree(opened.root)) {
    PLIMSOLL_ASSIGN(const io::ReadWhatIf sweep, io::read_what_if_tree(opened.root, flags.file));
    return show_sweep(flags, sweep);
  }
  PLIMSOLL_ASSIGN(const study::PlanReport made, make_report(flags, opened));
  const auto page = [&] {
    return flags.is_fragment ? io::write_report_fragment(made) : io::write_report_page(made);
  };
  return show(flags, page, [&] { return io::write_report(made); });
}

int run_report(const ReportFlags& flags) {
  const auto made = show(flags);
  if (!made) return report(with_flag_as_place(made.error()), flags.global);
  const bool is_file = writes_file(flags);
  if (is_file) {
    if (const auto written = io::write_text_file(flags.output, made->page); !written) {
      return report(written.error(), flags.global);
    }
  }
  if (flags.global.json) {
    print(made->document);
  } else if (is_file) {
    print(shown(flags.output) + ": open it in a browser\n");
  } else {
    print(made->page);
  }
  return kExitOk;
}

}  // namespace

void add_report_command(CLI::App& app, Run& run) {
  auto flags = std::make_shared<ReportFlags>();
  CLI::App* command = app.add_subcommand(
      "report", "Write a page that shows a plan or a sweep: one HTML file to look at");
  add_drawing_flags(*command, "page", flags->file, flags->output);
  command->get_option("PLAN")->description(
      "A plan of any kind that `plimsoll check` reads, or a sweep of `plimsoll whatif`; '-' for "
      "standard input");
  command
      ->add_option("--against", flags->against,
                   "Another plan of that kind: the page shows what differs from it")
      ->type_name("FILE");
  command
      ->add_option("--title", flags->title,
                   "Title of the page (default: the name of the plan's file)")
      ->type_name("TEXT");
  command->add_flag(
      "--fragment", flags->is_fragment,
      "Write the page's body only, without scripts and so without charts, to put into "
      "another page");
  add_any_plan_flags(*command, flags->plan);
  add_global_flags(*command, flags->global, Details::kNone);
  set_help(*command, {{kCommonGroup, "plimsoll report plan.json -o plan.html --against old.json"}},
           {"report torchrec.json -o plan.html --model model.json --on 8x80GiB", "",
            "report placement.json -o plan.html --model graph.json"});
  command->callback([flags, &run] { run = [flags] { return run_report(*flags); }; });
}

}  // namespace plimsoll::app
