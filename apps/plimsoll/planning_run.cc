#include "plimsoll/planning_run.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <charconv>

#include "core/search_record.h"
#include "plimsoll/io/files.h"
#include "plimsoll/text/text_layout.h"

namespace plimsoll::app {
namespace {

constexpr const char* kClearLine = "\r\x1b[K";

std::string progress_text(const Progress& progress) {
  std::string text = fmt::format("\reffort {}", progress.effort);
  if (progress.incumbent) text += fmt::format(": {:.6g} ms", *progress.incumbent);
  if (progress.lower_bound) text += fmt::format(", bound {:.6g} ms", *progress.lower_bound);
  if (progress.incumbent && progress.lower_bound && *progress.lower_bound > 0) {
    text += fmt::format(", gap {:.3g} %", (*progress.incumbent / *progress.lower_bound - 1) * 100);
  }
  return text + " \x1b[K";
}

}  // namespace

void add_planning_globals(CLI::App& command, GlobalFlags& flags) {
  add_global_flags(command, flags);
  command.add_option("--seed", flags.seed, "Seed of random choices")
      ->check([](const std::string& text) {
        std::uint64_t seed = 0;
        const char* end = text.data() + text.size();
        const auto [stop, error] = std::from_chars(text.data(), end, seed);
        return error == std::errc() && stop == end
                   ? std::string()
                   : fmt::format("'{}' is not a whole number from 0 to 2^64 - 1", text);
      })
      ->type_name("N")
      ->capture_default_str();
}

void add_limit_flags(CLI::App& command, std::string& time_limit, std::int64_t& effort,
                     double& tolerance) {
  command.add_option("--time-limit", time_limit, "Stop after this time, such as 5s or 2m")
      ->type_name("TIME");
  command.add_option("--effort", effort, "Stop after this many units of search effort")
      ->type_name("N")
      ->check(CLI::Range(std::int64_t{0}, std::int64_t{1} << 60));
  command.add_option("--tolerance", tolerance, "A gap up to this counts as optimal")
      ->type_name("SHARE")
      ->check(CLI::Range(0.0, 1.0));
}

int run_planning(const GlobalFlags& flags, const std::string& output,
                 const std::function<Result<Answered>()>& plan) {
  const bool has_file = !output.empty() && output != "-";
  if (has_file) {  // a search may take long
    if (const auto can_write = io::check_writable(output); !can_write) {
      return report(can_write.error(), flags);
    }
  }
  const Result<Answered> answered = plan();
  stop_watching_interrupts();
  if (shows_progress(flags)) print_error_text(kClearLine);
  if (!answered) return report(answered.error(), flags);
  if (has_file) {
    if (const auto written = io::write_text_file(output, answered->document); !written) {
      return report(written.error(), flags);
    }
  }
  std::string details;
  if (prints_document(flags, output)) {
    print(answered->document);
  } else if (!answered->text) {
    return report(answered->text.error(), flags);
  } else {
    print(*answered->text);
    flush_output();  // what stands behind it at a terminal is another stream's
    details = answered->details;
  }
  if (!flags.quiet) {
    for (const std::string& line : warning_lines(answered->warnings, flags.verbosity > 0)) {
      print_error_text(line + "\n");
    }
  }
  print(details);
  flush_output();
  const std::size_t first = prints_document(flags, output) ? 0 : answered->num_remarks_in_text;
  for (std::size_t i = first; i < answered->remarks.size(); ++i) {
    print_error_text(shown(answered->remarks[i]) + "\n");
  }
  return exit_code(answered->status, answered->stop);
}

bool prints_document(const GlobalFlags& flags, const std::string& output) {
  return flags.json || output == "-";
}

Result<RunContext> watch_search(const std::string& time_limit, const GlobalFlags& flags) {
  PLIMSOLL_ASSIGN(RunContext context, begin_search(time_limit));
  if (shows_progress(flags)) {
    context.progress = [](const Progress& progress) { print_error_text(progress_text(progress)); };
  }
  return context;
}

void put_limits(std::int64_t effort, double tolerance, Provenance& provenance) {
  SearchRecord record;
  if (effort >= 0) record.effort = effort;
  if (tolerance != SearchOptions{}.tolerance) record.tolerance = tolerance;
  put_search_record(record, provenance.options);
}

std::vector<std::string> explanation_remarks(const Explanation& explanation, SolveStatus status) {
  std::vector<std::string> remarks;
  for (const std::string& line : explanation.lines) {
    remarks.push_back(fmt::format(
        "{}: {}", status == SolveStatus::kInfeasible ? "proved infeasible" : "note", line));
  }
  return remarks;
}

}  // namespace plimsoll::app
