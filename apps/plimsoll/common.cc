#include "plimsoll/common.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "io/documents/report_json.h"
#include "plimsoll/core/units.h"
#include "plimsoll/help.h"
#include "plimsoll/io/files.h"
#include "plimsoll/io/model_json.h"
#include "plimsoll/io/shipped.h"
#include "plimsoll/text/text_layout.h"
#include "plimsoll/topology/presets.h"

namespace plimsoll::app {
namespace {

thread_local Host* current_host = nullptr;
thread_local std::chrono::steady_clock::time_point command_begin;

std::atomic<bool> was_interrupted{false};
constexpr int kStopSignals[] = {SIGINT, SIGTERM};

void handle_stop_signals(void (*handler)(int)) {
  for (const int signal : kStopSignals) std::signal(signal, handler);
}

// Prose with lines that fit the terminal that stderr is; as it is for a file or a pipe.
std::string for_stderr(std::string_view text) {
  winsize size{};
  constexpr std::size_t kFewestColumns = 40;
  if (isatty(STDERR_FILENO) == 0 || ioctl(STDERR_FILENO, TIOCGWINSZ, &size) != 0 ||
      size.ws_col < kFewestColumns) {
    return std::string(text);
  }
  std::string result;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    const bool is_prose =
        display_width(line) > size.ws_col && line.find_first_of("\r\x1b") == line.npos;
    result += is_prose ? wrapped(line, size.ws_col, 2) : std::string(line);
    if (end < text.size()) result += '\n';
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return result;
}

void interrupt(int) {
  was_interrupted = true;
  handle_stop_signals(SIG_DFL);
}

}  // namespace

void add_global_flags(CLI::App& command, GlobalFlags& flags, Details details) {
  command.option_defaults()->group(kCommonGroup);
  command.add_flag("--json", flags.json, "Print the answer as JSON instead of text");
  if (details == Details::kOfAnswer) {
    command.add_flag("-v,--verbose", flags.verbosity, "Print every row, and how the search went");
  }
  command.add_flag("-q,--quiet", flags.quiet, "Print no warnings, notes or progress");
  command.option_defaults()->group(kGeneralGroup);
  command.add_option("--color", flags.color, "When text is coloured")
      ->check(CLI::IsMember({"auto", "always", "never"}))
      ->capture_default_str();
}

void set_host(Host* host) { current_host = host; }

void print(std::string_view text) {
  if (current_host != nullptr) {
    current_host->output += text;
  } else {
    std::fwrite(text.data(), 1, text.size(), stdout);
  }
}

void print_error_text(std::string_view text) {
  if (current_host != nullptr) {
    current_host->errors += text;
    return;
  }
  const std::string lines = for_stderr(text);
  std::fwrite(lines.data(), 1, lines.size(), stderr);
}

void flush_output() {
  if (current_host == nullptr) std::fflush(stdout);
}

int report(const Error& error, const GlobalFlags& flags) {
  print_error_text(fmt::format("plimsoll: {}\n", shown(format_error(error))));
  if (flags.json) print(io::write_error(error));
  if (error.code == ErrorCode::kOutOfMemory) return kExitOutOfMemory;
  return error.code == ErrorCode::kInternal ? kExitInternal : kExitUsage;
}

std::string paint(std::string_view text, Tone tone, const GlobalFlags& flags) {
  const bool is_wanted =
      flags.color == "always" || (flags.color == "auto" && current_host == nullptr &&
                                  std::getenv("NO_COLOR") == nullptr && isatty(STDOUT_FILENO) != 0);
  if (!is_wanted) return std::string(text);
  const char* code = "1";
  switch (tone) {
    case Tone::kGood:
      code = "32";
      break;
    case Tone::kBad:
      code = "31";
      break;
    case Tone::kNote:
      code = "33";
      break;
    case Tone::kHeading:
      code = "1";
      break;
  }
  return fmt::format("\x1b[{}m{}\x1b[0m", code, text);
}

bool is_file_name(const std::string& name) {
  if (name == "-" || name.find('/') != std::string::npos) return true;
  for (const char* const ending : {".json", ".pt2", ".onnx", ".txt", ".yaml", ".yml"}) {
    if (name.ends_with(ending)) return true;
  }
  std::error_code error;  // a name too long for a file is none
  return std::filesystem::exists(name, error) && !std::filesystem::is_directory(name, error);
}

Result<void> check_standard_input(std::initializer_list<std::string_view> names) {
  if (std::count(names.begin(), names.end(), "-") <= 1) return {};
  return fail(ErrorCode::kUsage, "-", "standard input is named twice, but can be read only once",
              "put one of the two in a file");
}

Result<void> check_kind(const std::string& name, InputKind wanted) {
  if (is_file_name(name)) return {};
  const auto is_in = [&name](std::span<const io::ShippedDocument> documents) {
    return std::any_of(
        documents.begin(), documents.end(),
        [&name](const io::ShippedDocument& document) { return document.id == name; });
  };
  struct Kind {
    InputKind kind;
    bool is_named;
    std::string_view what, remedy;
  };
  const Kind kinds[] = {{InputKind::kModel, is_in(io::shipped_models()), "an embedding model",
                         "plan it with `plimsoll shard {} --on HARDWARE`"},
                        {InputKind::kModuleStats, is_in(io::shipped_module_stats()),
                         "module statistics", "plan them with `plimsoll checkpoint {}`"},
                        {InputKind::kGraph, is_in(io::shipped_graphs()), "an operator graph",
                         "plan it with `plimsoll partition {}`"},
                        {InputKind::kHardware, topology::find_preset(name).has_value(), "hardware",
                         "name it with `--on {}`"}};
  for (const Kind& kind : kinds) {
    if (kind.kind == wanted && kind.is_named) return {};
  }
  for (const Kind& kind : kinds) {
    if (!kind.is_named) continue;
    return fail(ErrorCode::kNotFound, name, fmt::format("this is {}", kind.what),
                fmt::format(fmt::runtime(kind.remedy), name));
  }
  return {};
}

Result<embedding::Model> load_model(const std::string& name) {
  PLIMSOLL_RETURN_IF_ERROR(check_kind(name, InputKind::kModel));
  if (!is_file_name(name)) return io::load_shipped_model(name);
  PLIMSOLL_ASSIGN(const std::string text, io::read_text_file(name));
  return io::read_model(text, name);
}

int exit_code(SolveStatus status, StopReason stop) {
  switch (status) {
    case SolveStatus::kOptimal:
    case SolveStatus::kFeasible:
      return stop == StopReason::kDeadline || stop == StopReason::kCancelled ? kExitCut : kExitOk;
    case SolveStatus::kInfeasible:
      return kExitInfeasible;
    case SolveStatus::kLimit:
      return kExitNoPlan;
  }
  return kExitInternal;
}

Result<double> parse_rate(const std::string& text, const std::string& flag) {
  auto rate = parse_bandwidth(text);
  if (!rate) {
    rate.error().place = flag;
    return tl::unexpected<Error>(std::move(rate).error());
  }
  if (*rate != 0 && text.find_first_not_of("0123456789.eE+- ") == std::string::npos) {
    return fail(ErrorCode::kUsage, flag, fmt::format("'{}' is a bandwidth without a unit", text),
                fmt::format("write {0}GB/s, {0}GiB/s or {0}Gbps", text));
  }
  return *rate;
}

Result<std::optional<double>> parse_time_limit(const std::string& text) {
  if (text.empty()) return std::nullopt;
  const auto seconds = parse_seconds(text);
  if (!seconds || !(*seconds > 0)) {
    return fail(ErrorCode::kUsage, "--time-limit", fmt::format("'{}' is not a duration", text),
                "give one above 0, such as 500ms, 5s or 2m");
  }
  return *seconds;
}

Result<SearchOptions> make_search_options(const GlobalFlags& global, std::int64_t effort,
                                          double tolerance) {
  SearchOptions options;
  options.effort = effort;
  options.tolerance = tolerance;
  if (!(tolerance >= 0 && tolerance <= 1)) {
    return fail(ErrorCode::kUsage, "--tolerance",
                fmt::format("{} is not between 0 and 1", tolerance), "give a share such as 0.01");
  }
  options.seed = global.seed;
  return options;
}

void begin_command() { command_begin = std::chrono::steady_clock::now(); }

Result<RunContext> begin_search(const std::string& time_limit) {
  PLIMSOLL_ASSIGN(const std::optional<double> seconds, parse_time_limit(time_limit));
  RunContext context = RunContext::within(seconds);
  if (context.deadline) *context.deadline -= std::chrono::steady_clock::now() - command_begin;
  if (current_host != nullptr) {
    context.cancel = current_host->cancel;
    context.progress = current_host->progress;
    return context;
  }
  handle_stop_signals(interrupt);
  context.cancel = &was_interrupted;
  return context;
}

void stop_watching_interrupts() {
  if (current_host == nullptr) handle_stop_signals(SIG_DFL);
}

bool shows_progress(const GlobalFlags& flags) {
  return !flags.quiet && current_host == nullptr && isatty(STDERR_FILENO) != 0;
}

std::string examples(std::initializer_list<std::string_view> lines) {
  std::string text = "Examples:\n";
  for (const std::string_view line : lines) text += fmt::format("  {}\n", line);
  return text;
}

}  // namespace plimsoll::app
