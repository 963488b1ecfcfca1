#include "plimsoll/app.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <exception>
#include <new>
#include <sstream>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "core/suggest.h"
#include "io/documents/report_json.h"
#include "plimsoll/common.h"
#include "plimsoll/core/version.h"
#include "plimsoll/help.h"
#include "plimsoll/plan_commands.h"

namespace plimsoll::app {
namespace {

// Of "--batch-size: why", the flag's name before it taken off.
Error value_error(const CLI::Option& option, std::string text, const std::string& help) {
  if (const std::size_t end = text.rfind(" not in {"); end != std::string::npos) {
    text.resize(end);
    return {ErrorCode::kUsage, option.get_name(), fmt::format("'{}' is not supported", text),
            suggest(text, choices_of(option)), ""};
  }
  constexpr std::string_view kRange = " not in range ";
  constexpr std::string_view kValue = "Value ";
  const std::size_t end = text.rfind(kRange);
  if (text.starts_with(kValue) && end != std::string::npos) {  // "Value 7 not in range 0 to 5"
    text = fmt::format("'{}' is not a number in the range {}",
                       text.substr(kValue.size(), end - kValue.size()),
                       text.substr(end + kRange.size()));
  }
  return {ErrorCode::kUsage, option.get_name(), text, help, ""};
}

// A word that no flag, command or argument is.
Error extra_word_error(const CLI::App& app, const CLI::App& command, const std::string& word,
                       const std::string& help) {
  const bool has_command = &command != &app;
  if (!has_command && word == "calibrate") {
    return {ErrorCode::kUsage, word, "it needs torch, so it is a command of the Python package",
            "type python -m plimsoll calibrate", ""};
  }
  std::vector<std::string> known;
  if (word.starts_with('-')) {
    for (const CLI::Option* option : command.get_options()) {
      for (const std::string& name : option->get_lnames()) known.push_back("--" + name);
    }
  } else if (!has_command) {
    for (const CLI::App* other : app.get_subcommands({})) known.push_back(other->get_name());
  }
  const auto similar = find_similar(word, known);
  const bool takes_model = command.get_option_no_throw("--model") != nullptr;
  if (!word.starts_with('-') && takes_model) {
    return {ErrorCode::kUsage, word, "one argument too many",
            fmt::format("give what the plans are of by --model {}; {}", word, help), ""};
  }
  return {ErrorCode::kUsage, word,
          word.starts_with('-') ? "no such flag"
          : has_command         ? "one argument too many"
                                : "no such command",
          similar ? fmt::format("did you mean '{}'?", *similar) : help, ""};
}

// Bad usage in our own words, with a name to mean where one is unknown.
Error usage_error(const CLI::App& app, const CLI::ParseError& error) {
  const auto chosen = app.get_subcommands();
  const CLI::App& command = chosen.empty() ? app : *chosen.front();
  const std::string help =
      fmt::format("see plimsoll {}--help", chosen.empty() ? "" : command.get_name() + " ");
  const std::string text = error.what();
  const auto is = [&error](CLI::ExitCodes code) {
    return error.get_exit_code() == static_cast<int>(code);
  };
  if (is(CLI::ExitCodes::ValidationError)) {
    for (const CLI::Option* option : command.get_options()) {
      const std::string place = option->get_name() + ": ";
      if (text.starts_with(place)) return value_error(*option, text.substr(place.size()), help);
    }
  }
  if (is(CLI::ExitCodes::ConversionError)) {  // "Could not convert: --tolerance = 1%"
    const std::size_t begin = text.find(": ");
    const std::size_t equals = text.find(" = ");
    if (begin != std::string::npos && equals != std::string::npos) {
      return {ErrorCode::kUsage, text.substr(begin + 2, equals - begin - 2),
              fmt::format("'{}' is not a number", text.substr(equals + 3)), help, ""};
    }
  }
  const std::vector<std::string> extras = app.remaining(true);
  if (is(CLI::ExitCodes::ExtrasError) && !extras.empty()) {
    const std::string& extra = extras.front();
    return extra_word_error(app, command, extra.substr(0, extra.find('=')), help);
  }
  return {ErrorCode::kUsage, "", text, help, ""};
}

bool names_json(int argc, const char* const* argv) {
  return std::any_of(argv + std::min(argc, 1), argv + argc,
                     [](const char* word) { return std::string_view(word) == "--json"; });
}

// "help" and "help shard" are "--help" and "shard --help"; "version" is "--version". What is not a
// command is left to the parser.
std::vector<const char*> with_flags_for_words(const CLI::App& app, int argc,
                                              const char* const* argv) {
  std::vector<const char*> words(argv, argv + argc);
  if (argc < 2) return words;
  const std::string_view first = words[1];
  if (first == "version") words[1] = "--version";
  if (first == "help") {
    if (argc == 2) {
      words[1] = "--help";
    } else {
      words.erase(words.begin() + 1);
      const std::vector<const CLI::App*> known = app.get_subcommands({});
      const bool is_command = std::any_of(known.begin(), known.end(), [&](const CLI::App* command) {
        return command->get_name() == words[1];
      });
      if (is_command) words.assign({argv[0], words[1], "--help"});
    }
  }
  return words;
}

void add_commands(CLI::App& app, Run& command) {
  add_shard_command(app, command);
  add_checkpoint_command(app, command);
  add_partition_command(app, command);
  add_explain_command(app, command);
  add_size_command(app, command);
  add_whatif_command(app, command);
  add_check_command(app, command);
  add_convert_command(app, command);
  add_replan_command(app, command);
  add_robust_command(app, command);
  add_diff_command(app, command);
  add_trace_command(app, command);
  add_report_command(app, command);
  add_data_commands(app, command);
  add_completion_command(app, command);
}

int run_unguarded(int argc, const char* const* argv) {
  CLI::App app(
      "Plans distributed PyTorch models offline: shards embedding tables, chooses which "
      "activations to recompute, and splits graphs into pipeline stages, each with a bound on how "
      "much better any plan could be.",
      "plimsoll");
  app.option_defaults()->group(kCommonGroup);
  set_help(app, {});
  app.require_subcommand(0, 1);
  app.footer(
      examples({"plimsoll shard mlperf-dlrm-dcnv2 --on dgx-h100:2",
                "plimsoll checkpoint llama-3-8b --budget 70%", "plimsoll partition bert24-training",
                "plimsoll check model.json plan.json --on 16x40GiB", "plimsoll shard --help"}));
  bool wants_version = false;
  bool wants_json = false;
  app.add_flag("--version", wants_version, "Print the version");
  app.add_flag("--json", wants_json, "With --version: one JSON document");
  Run command;
  add_commands(app, command);
  try {
    const std::vector<const char*> words = with_flags_for_words(app, argc, argv);
    app.parse(static_cast<int>(words.size()), words.data());
  } catch (const CLI::ParseError& error) {
    // Help is not an error; everything else is bad usage.
    if (error.get_exit_code() == 0) {
      std::ostringstream help;
      app.exit(error, help, help);
      print(help.str());
      return kExitOk;
    }
    GlobalFlags flags;
    flags.json = names_json(argc, argv);
    return report(usage_error(app, error), flags);
  }
  if (wants_version) {
    print(wants_json ? io::write_version() : fmt::format("plimsoll {}\n", kVersion));
    return kExitOk;
  }
  if (!command) {
    if (!wants_json) {
      print_error_text(app.help());
      return kExitUsage;
    }
    GlobalFlags flags;
    flags.json = true;
    return report({ErrorCode::kUsage, "", "no command is given", "see plimsoll --help", ""}, flags);
  }
  return command();
}

// What a library below us threw: nothing of ours throws.
Error caught_error() {
  try {
    throw;
  } catch (const std::bad_alloc&) {
    return {ErrorCode::kOutOfMemory, "", "out of memory",
            "plan where more memory is free, or raise the limit of this process (ulimit -v)", ""};
  } catch (const std::exception& error) {
    return {ErrorCode::kInternal, "", fmt::format("internal error: {}", error.what()), "", ""};
  } catch (...) {
    return {ErrorCode::kInternal, "", "internal error", "", ""};
  }
}

int run_guarded(int argc, const char* const* argv) {
  begin_command();
  try {
    return run_unguarded(argc, argv);
  } catch (...) {
    GlobalFlags flags;
    flags.json = names_json(argc, argv);
    return report(caught_error(), flags);
  }
}

}  // namespace

int run(int argc, const char* const* argv) {
  const int code = run_guarded(argc, argv);
  if (code == kExitInternal || (std::fflush(stdout) == 0 && std::ferror(stdout) == 0)) return code;
  if (errno == EPIPE) return kExitUsage;  // `| head`: who reads has seen enough
  print_error_text(fmt::format("plimsoll: standard output: cannot write: {}\n",
                               std::generic_category().message(errno)));
  return kExitUsage;
}

int run(int argc, const char* const* argv, Host& host) {
  set_host(&host);
  const int code = run_guarded(argc, argv);
  set_host(nullptr);
  return code;
}

}  // namespace plimsoll::app
