// plimsoll completion: scripts that complete commands, flags and their values in a shell; and
// plimsoll manual: the manual page. Both are made from the commands themselves.

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "plimsoll/common.h"
#include "plimsoll/core/version.h"
#include "plimsoll/embedding/cost_model.h"
#include "plimsoll/embedding/partitioner.h"
#include "plimsoll/embedding/proposer.h"
#include "plimsoll/embedding/types.h"
#include "plimsoll/help.h"
#include "plimsoll/io/shipped.h"
#include "plimsoll/topology/presets.h"
#include "study/partition/placement_searches.h"

namespace plimsoll::app {
namespace {

using Words = std::vector<std::string>;

Words to_words(std::span<const std::string> names) { return {names.begin(), names.end()}; }

Words hardware() {
  Words words;
  for (const topology::HardwareNode& node : topology::nodes()) words.emplace_back(node.id);
  for (const auto& preset : topology::planner_presets()) words.emplace_back(preset.id);
  for (const topology::Accelerator& accelerator : topology::accelerators()) {
    words.push_back("8x" + std::string(accelerator.id));
  }
  return words;
}

void add_ids(std::span<const io::ShippedDocument> documents, Words& words) {
  for (const io::ShippedDocument& document : documents) words.emplace_back(document.id);
}

// What the first argument of a command may name besides a file.
Words shipped_for(const std::string& command) {
  Words words;
  const bool is_any = command == "check" || command == "convert" || command == "models";
  const bool is_of_tables = command == "shard" || command == "explain" || command == "size" ||
                            command == "whatif" || command == "replan" || command == "robust";
  if (is_any || is_of_tables) add_ids(io::shipped_models(), words);
  if (is_any || command == "checkpoint") add_ids(io::shipped_module_stats(), words);
  if (is_any || command == "partition" || command == "size") {
    add_ids(io::shipped_graphs(), words);
  }
  if (command == "schema") {
    for (const io::Schema& schema : io::schemas()) words.emplace_back(schema.name);
  }
  if (command == "hardware") words = hardware();
  if (command == "completion") words = {"bash", "zsh", "fish"};
  return words;
}

// Words that an option takes; empty where only the user knows.
Words values_of(const std::string& command, const CLI::Option& option) {
  if (Words choices = choices_of(option); !choices.empty()) return choices;
  const std::string& name =
      option.get_lnames().empty() ? option.get_name() : option.get_lnames()[0];
  if (name == "on") return hardware();
  if (name == "model") return shipped_for("check");
  if (name == "cost-model") {
    return {"torchrec-1.2", "torchrec-1.4", "torchrec-ref", "torchrec-1.5",
            "torchrec-1.7", "torchrec-1.8", "torchrec-1.9"};
  }
  if (name == "pipeline-type") return to_words(embedding::enum_names<embedding::PipelineType>());
  if (name == "optimizer") return to_words(embedding::enum_names<embedding::Optimizer>());
  if (name == "reservation") {
    return {"heuristical", "fixed_percentage", "inference", "fixed_absolute", "sku_aware"};
  }
  if (name == "proposer") return to_words(embedding::proposer_names());
  if (name == "partitioner") return to_words(embedding::partitioner_names());
  if (name == "search" && (command == "shard" || command == "explain"))
    return {"balanced", "torchrec"};
  if (name == "search" && command == "partition") {
    Words words = {"pipedream"};
    for (const study::PlacementSearch& search : study::placement_searches()) {
      words.emplace_back(search.name);
    }
    return words;
  }
  return {};
}

std::string joined(const Words& words) { return fmt::format("{}", fmt::join(words, " ")); }

Words flags_of(const CLI::App& command) {
  Words flags;
  for (const CLI::Option* option : command.get_options()) {
    for (const std::string& name : option->get_lnames()) flags.push_back("--" + name);
  }
  return flags;
}

bool takes_value(const CLI::Option& option) {
  return option.nonpositional() && option.get_expected_max() > 0;
}

// Lines of a shell's `case "$command $flag"`, for bash and zsh alike.
std::string value_cases(const CLI::App& app, const std::string& indent, const char* set) {
  std::string cases;
  for (const CLI::App* command : app.get_subcommands({})) {
    for (const CLI::Option* option : command->get_options()) {
      if (!takes_value(*option)) continue;
      const Words values = values_of(command->get_name(), *option);
      std::string patterns;
      for (const std::string& name : option->get_snames()) {
        patterns +=
            fmt::format("{}\"{} -{}\"", patterns.empty() ? "" : "|", command->get_name(), name);
      }
      for (const std::string& name : option->get_lnames()) {
        patterns +=
            fmt::format("{}\"{} --{}\"", patterns.empty() ? "" : "|", command->get_name(), name);
      }
      cases += fmt::format(fmt::runtime(set), indent, patterns, joined(values));
    }
  }
  return cases;
}

// Words behind a flag that takes a value are that value's, files where nothing is known of it; else
// a word that begins with '-' is a flag, and any other one that the command's argument may be.
std::string bash_script(const CLI::App& app) {
  std::string names;
  std::string cases;
  for (const CLI::App* command : app.get_subcommands({})) {
    names += command->get_name() + " ";
    cases += fmt::format("    {}) flags=\"{}\"; words=\"{}\" ;;\n", command->get_name(),
                         joined(flags_of(*command)), joined(shipped_for(command->get_name())));
  }
  return fmt::format(
      "# bash completion for plimsoll: source this file\n"
      "_plimsoll() {{\n"
      "  local command=\"${{COMP_WORDS[1]}}\" word=\"${{COMP_WORDS[COMP_CWORD]}}\"\n"
      "  local before=\"${{COMP_WORDS[COMP_CWORD-1]}}\" flags=\"{}\" words=\"\"\n"
      "  case \"$command\" in\n"
      "{}"
      "  esac\n"
      "  if [ \"$COMP_CWORD\" -eq 1 ]; then\n"
      "    words=\"{}\"; flags=\"{}\"; before=\"\"\n"
      "  fi\n"
      "  case \"$command $before\" in\n"
      "{}"
      "  esac\n"
      "  [ \"${{word#-}}\" != \"$word\" ] && words=\"$flags\"\n"
      "  COMPREPLY=($(compgen -W \"$words\" -- \"$word\"))\n"
      "}}\n"
      "complete -o default -F _plimsoll plimsoll\n",
      joined(flags_of(app)), cases, names, joined(flags_of(app)),
      value_cases(app, "    ", "{}{}) words=\"{}\"; flags=\"\" ;;\n"));
}

std::string zsh_script(const CLI::App& app) {
  std::string names;
  std::string cases;
  for (const CLI::App* command : app.get_subcommands({})) {
    names += command->get_name() + " ";
    cases += fmt::format("      {}) flags=({}); candidates=({}) ;;\n", command->get_name(),
                         joined(flags_of(*command)), joined(shipped_for(command->get_name())));
  }
  // The file is both autoloaded by compinit, which then runs it as _plimsoll, and sourced.
  return fmt::format(
      "#compdef plimsoll\n"
      "_plimsoll() {{\n"
      "  local -a candidates flags\n"
      "  candidates=({}); flags=({})\n"
      "  if (( CURRENT > 2 )); then\n"
      "    case \"${{words[2]}}\" in\n"
      "{}"
      "    esac\n"
      "    case \"${{words[2]}} ${{words[CURRENT-1]}}\" in\n"
      "{}"
      "    esac\n"
      "  fi\n"
      "  [[ \"${{words[CURRENT]}}\" == -* ]] && candidates=($flags)\n"
      "  compadd -- $candidates\n"
      "  _files\n"
      "}}\n"
      "if [[ ${{funcstack[1]}} == _plimsoll ]]; then\n"
      "  _plimsoll \"$@\"\n"
      "else\n"
      "  compdef _plimsoll plimsoll\n"
      "fi\n",
      names, joined(flags_of(app)), cases,
      value_cases(app, "      ", "{}{}) candidates=({}); flags=() ;;\n"));
}

// In single quotes, for fish and as good for the others.
std::string in_quotes(std::string_view text) {
  std::string result = "'";
  for (const char c : text) {
    if (c == '\'' || c == '\\') result += '\\';
    result += c;
  }
  return result + "'";
}

std::string fish_script(const CLI::App& app) {
  std::string text =
      "# fish completion for plimsoll: ~/.config/fish/completions/plimsoll.fish\n"
      "complete -c plimsoll -n __fish_use_subcommand -l version -d 'Print the version'\n";
  for (const CLI::App* command : app.get_subcommands({})) {
    const std::string name = command->get_name();
    text += fmt::format("complete -c plimsoll -f -n __fish_use_subcommand -a {} -d {}\n", name,
                        in_quotes(command->get_description()));
    const std::string where = fmt::format("-n '__fish_seen_subcommand_from {}'", name);
    if (const Words words = shipped_for(name); !words.empty()) {
      text += fmt::format("complete -c plimsoll {} -a {}\n", where, in_quotes(joined(words)));
    }
    for (const CLI::Option* option : command->get_options()) {
      if (!option->nonpositional()) continue;
      text += fmt::format("complete -c plimsoll {}", where);
      for (const std::string& flag : option->get_snames()) text += " -s " + flag;
      for (const std::string& flag : option->get_lnames()) text += " -l " + flag;
      if (takes_value(*option)) {
        const Words values = values_of(name, *option);
        text += values.empty() ? " -r" : fmt::format(" -x -a {}", in_quotes(joined(values)));
      }
      text += fmt::format(" -d {}\n", in_quotes(option->get_description()));
    }
  }
  return text;
}

// Text for roff: dashes that are typed, and no line that looks like a request.
std::string roff(std::string_view text) {
  std::string result;
  for (const char c : text) {
    if (c == '\\') {
      result += "\\e";
    } else if (c == '-') {
      result += "\\-";
    } else if ((c == '.' || c == '\'') && (result.empty() || result.back() == '\n')) {
      result += fmt::format("\\&{}", c);
    } else {
      result += c;
    }
  }
  return result;
}

std::string manual(const CLI::App& app) {
  std::string text = fmt::format(
      ".TH PLIMSOLL 1 \"\" \"plimsoll {}\" \"User Commands\"\n"
      ".SH NAME\nplimsoll \\- offline planner for distributed PyTorch models\n"
      ".SH SYNOPSIS\n.B plimsoll\n.I COMMAND\n[\\fIoptions\\fR]\n"
      ".SH DESCRIPTION\n{}\n",
      kVersion, roff(app.get_description()));
  for (const CLI::App* command : app.get_subcommands({})) {
    text += fmt::format(".SH PLIMSOLL {}\n{}.\n", roff(CLI::detail::to_lower(command->get_name())),
                        roff(command->get_description()));
    for (const CLI::Option* option : command->get_options()) {
      text += fmt::format(".TP\n\\fB{}\\fR\n{}\n", roff(option_label(*option)),
                          roff(option_text(*option)));
    }
    if (const std::string footer = command->get_footer(); !footer.empty()) {
      text += fmt::format(".PP\n.nf\n{}.fi\n", roff(footer));
    }
  }
  return text + fmt::format(
                    ".SH EXIT STATUS\n"
                    ".TP\n0\na plan, or done\n.TP\n1\nbad usage or input\n"
                    ".TP\n2\nproved infeasible\n"
                    ".TP\n3\na time limit or a signal ended the search; the plan is returned\n"
                    ".TP\n4\nno plan and no proof\n.TP\n5\na check found violations\n"
                    ".TP\n70\nan internal error\n.TP\n71\nout of memory\n"
                    ".SH EXAMPLES\n.nf\n{}.fi\n",
                    roff(app.get_footer()));
}

}  // namespace

void add_completion_command(CLI::App& app, Run& run) {
  auto shell = std::make_shared<std::string>();
  CLI::App* command = app.add_subcommand("completion", "Print a completion script for a shell");
  command->footer(examples(
      {"source <(plimsoll completion bash)", "plimsoll completion zsh > ~/.zfunc/_plimsoll",
       "plimsoll completion fish > ~/.config/fish/completions/plimsoll.fish"}));
  command->add_option("SHELL", *shell, "bash, zsh or fish")
      ->required()
      ->check(CLI::IsMember({"bash", "zsh", "fish"}));
  set_help(*command, {});
  command->callback([shell, &app, &run] {
    run = [shell, &app] {
      print(*shell == "bash"  ? bash_script(app)
            : *shell == "zsh" ? zsh_script(app)
                              : fish_script(app));
      return static_cast<int>(kExitOk);
    };
  });
  CLI::App* page = app.add_subcommand("manual", "Print the manual page");
  page->footer(examples({"plimsoll manual | man -l -"}));
  set_help(*page, {});
  page->callback([&app, &run] {
    run = [&app] {
      print(manual(app));
      return static_cast<int>(kExitOk);
    };
  });
}

}  // namespace plimsoll::app
