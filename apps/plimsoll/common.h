// What every command shares: global flags, where output goes, exit codes.
#pragma once

#include <fmt/format.h>

#include <charconv>
#include <functional>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>

#include "plimsoll/app.h"
#include "plimsoll/core/outcome.h"
#include "plimsoll/core/result.h"
#include "plimsoll/embedding/model.h"

namespace CLI {
class App;
}

namespace plimsoll::app {

enum ExitCode : int {
  kExitOk = 0,
  kExitUsage = 1,
  kExitInfeasible = 2,
  kExitCut = 3,
  kExitNoPlan = 4,
  kExitViolations = 5,
  kExitDiff = 6,
  kExitInternal = 70,
  kExitOutOfMemory = 71,
};

struct GlobalFlags {
  bool json = false;
  bool quiet = false;
  int verbosity = 0;
  std::string color = "auto";  // auto, always, never
  std::uint64_t seed = 0;
};

// Flags that every command takes. A command whose answer has no details takes no -v.
enum class Details { kOfAnswer, kNone };
void add_global_flags(CLI::App& command, GlobalFlags& flags, Details details = Details::kOfAnswer);

// A command registers itself on the application; `run` is set when it was chosen.
using Run = std::function<int()>;
void add_shard_command(CLI::App& app, Run& run);
void add_checkpoint_command(CLI::App& app, Run& run);
void add_partition_command(CLI::App& app, Run& run);
void add_explain_command(CLI::App& app, Run& run);
void add_size_command(CLI::App& app, Run& run);
void add_whatif_command(CLI::App& app, Run& run);
void add_check_command(CLI::App& app, Run& run);
void add_convert_command(CLI::App& app, Run& run);
void add_data_commands(CLI::App& app, Run& run);  // hardware, models, schema
void add_completion_command(CLI::App& app, Run& run);

// Where this thread prints and what ends its searches, instead of the terminal; null: the terminal.
void set_host(Host* host);

// Text for people on stdout; prose, progress and errors on stderr. Both return what they print to
// the caller's exit code.
void print(std::string_view text);
void print_error_text(std::string_view text);
void flush_output();  // of stdout

// Reports an Error the way the flags ask for (prose on stderr; with --json also one document on
// stdout) and returns the exit code for it.
int report(const Error& error, const GlobalFlags& flags);

// Bold or coloured where stdout is a terminal, NO_COLOR is unset, or --color says so.
enum class Tone { kGood, kBad, kNote, kHeading };
std::string paint(std::string_view text, Tone tone, const GlobalFlags& flags);

// Does this name a file ("-": standard input), not something that comes with the program?
bool is_file_name(const std::string& name);

// Error kUsage where more than one of these names is "-".
Result<void> check_standard_input(std::initializer_list<std::string_view> names);

// What commands plan; `name` is given to one where another kind is wanted.
enum class InputKind { kModel, kModuleStats, kGraph, kHardware };
// Error kNotFound where `name` is not a file, and names something of another kind: which command
// takes it. Nothing where it does not.
Result<void> check_kind(const std::string& name, InputKind wanted);

// A file or the name of a shipped model.
Result<embedding::Model> load_model(const std::string& name);

// How a search ended as the program's exit code.
int exit_code(SolveStatus status, StopReason stop);

// The whole of `text` as a number. Error kUsage at `place`.
template <class Number>
Result<Number> parse_number(std::string_view text, std::string_view place) {
  Number value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) {
    return fail(ErrorCode::kUsage, std::string(place), fmt::format("'{}' is not a number", text));
  }
  return value;
}

// Bytes per millisecond of a flag's text, which needs a unit. Errors at the flag.
Result<double> parse_rate(const std::string& text, const std::string& flag);

// Seconds of --time-limit; nothing where it is not given. Error kUsage.
Result<std::optional<double>> parse_time_limit(const std::string& text);

// Of --effort, --tolerance and --seed. Error kUsage.
Result<SearchOptions> make_search_options(const GlobalFlags& global, std::int64_t effort,
                                          double tolerance);

// A command begins on this thread: its time limit counts from here on, before it has read anything.
void begin_command();

// The context of the command's search, by --time-limit. From here on SIGINT (Ctrl-C) and SIGTERM
// cancel it between units of effort; a second signal ends the program. Under a host, its flag does,
// and its progress is told. Error kUsage.
Result<RunContext> begin_search(const std::string& time_limit);
void stop_watching_interrupts();

// Is somebody at a terminal who wants to see progress?
bool shows_progress(const GlobalFlags& flags);

// Adds "Examples:" below a command's help.
std::string examples(std::initializer_list<std::string_view> lines);

}  // namespace plimsoll::app
