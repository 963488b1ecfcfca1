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

// Is the first argument of a command always one of these words, and never a file?
bool takes_words_only(const std::string& command) {
  return command == "models" || command == "schema" || command == "hardware" ||
         command == "completion" || command == "help";
}

// Words that an option takes; empty where only the user knows.
Words values_of(const std::string& command, const CLI::Option& option) {
  if (Words choices = choices_of(option); !choices.empty()) return choices;
  const std::string& name =
      option.get_lnames().empty() ? option.get_name() : option.get_lnames()[0];
  if (name == "on") return hardware();
  if (name == "model") return shipped_for("check");
  if (name == "machine") {
    Words words;
    add_ids(io::shipped_machines(), words);
    return words;
  }
  if (name == "cost-model") {
    Words words;
    for (const embedding::CostModel& model : embedding::cost_models()) {
      words.emplace_back(model.name);
    }
    return words;
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

// May a file stand for the words that an option takes?
bool takes_file(const CLI::Option& option) {
  return option.check_lname("on") || option.check_lname("model") || option.check_lname("machine");
}

// Lines of a shell's `case "$command $flag"`, for bash and zsh alike: the words that a flag takes,
// and whether it takes files as well.
std::string value_cases(const CLI::App& app, const char* set) {
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
      cases +=
          fmt::format(fmt::runtime(set), patterns, joined(values), takes_file(*option) ? 1 : 0);
    }
  }
  return cases;
}

Words command_names(const CLI::App& app) {
  Words names;
  for (const CLI::App* command : app.get_subcommands({})) names.push_back(command->get_name());
  return names;
}

// Lines of a shell's `case "$command"`: its flags, what its first argument may name, and whether
// that may be a file as well.
std::string command_cases(const CLI::App& app, const char* set) {
  std::string cases;
  for (const CLI::App* command : app.get_subcommands({})) {
    const std::string name = command->get_name();
    cases += fmt::format(fmt::runtime(set), name, joined(flags_of(*command)),
                         joined(shipped_for(name)), takes_words_only(name) ? 0 : 1);
  }
  return cases + fmt::format(fmt::runtime(set), "help", "", joined(command_names(app)), 0);
}

// A word behind a flag that takes a value is that value's. Else a word that begins with '-' is a
// flag, and the command's first argument one of the names that it knows, or a file. Files are
// completed by bash itself where no word is known.
std::string bash_script(const CLI::App& app) {
  return fmt::format(
      R"(# bash completion for plimsoll: source this file
# Sets what a flag takes; fails where it takes nothing.
_plimsoll_values() {{
  case "$1" in
{}    *) return 1 ;;
  esac
}}
# Is the word the command's first argument? Bash cuts --flag=value and dgx-h100:2 into three words.
_plimsoll_is_first() {{
  local i previous="" words is_file
  for ((i = 2; i < COMP_CWORD; i++)); do
    case "$previous ${{COMP_WORDS[i]}}" in
      *' '-*|*' ='|*' :'|'= '*|': '*) ;;
      *) _plimsoll_values "${{COMP_WORDS[1]}} $previous" || return 1 ;;
    esac
    previous="${{COMP_WORDS[i]}}"
  done
}}
_plimsoll() {{
  local command="${{COMP_WORDS[1]}}" word="${{COMP_WORDS[COMP_CWORD]}}"
  local before="${{COMP_WORDS[COMP_CWORD-1]}}" flags="{}" words="" names="" is_file=0 takes_file=0
  case "$command" in
{}  esac
  if [ "$word" = "=" ]; then
    word=""
  elif [ "$before" = "=" ]; then
    before="${{COMP_WORDS[COMP_CWORD-2]}}"
  fi
  if [ "$COMP_CWORD" -eq 1 ]; then
    words="{} help"
    [ "${{word#-}}" != "$word" ] && words="$flags"
  elif ! _plimsoll_values "$command $before"; then
    if [ "${{word#-}}" != "$word" ]; then
      words="$flags"
    elif _plimsoll_is_first; then
      words="$names"
      is_file=$takes_file
    fi
  fi
  COMPREPLY=($(compgen -W "$words" -- "$word"))
  if [ -n "$words" ] && [ "$is_file" -eq 1 ]; then
    compopt -o filenames 2> /dev/null
    local IFS=$'\n'
    COMPREPLY+=($(compgen -f -- "$word"))
  fi
}}
complete -o default -F _plimsoll plimsoll
)",
      value_cases(app, "    {}) words=\"{}\"; is_file={} ;;\n"), joined(flags_of(app)),
      command_cases(app, "    {}) flags=\"{}\"; names=\"{}\"; takes_file={} ;;\n"),
      joined(command_names(app)));
}

// The same for zsh. The file is both autoloaded by compinit, which then runs it as _plimsoll, and
// sourced.
std::string zsh_script(const CLI::App& app) {
  return fmt::format(
      R"(#compdef plimsoll
# Sets what a flag takes; fails where it takes nothing.
_plimsoll_values() {{
  case "$1" in
{}    *) return 1 ;;
  esac
}}
# Is the word the command's first argument?
_plimsoll_is_first() {{
  local -a candidates
  local -i i is_file
  for ((i = 3; i < CURRENT; i++)); do
    [[ "${{words[i]}}" == -* ]] && continue
    _plimsoll_values "${{words[2]}} ${{words[i-1]}}" || return 1
  done
}}
_plimsoll() {{
  local -a candidates flags names
  local command="${{words[2]}}" word="${{words[CURRENT]}}" before="${{words[CURRENT-1]}}"
  local -i is_file=0 takes_file=0
  flags=({})
  case "$command" in
{}  esac
  if [[ "$word" == --*=* ]]; then
    before="${{word%%=*}}"
    word="${{word#*=}}"
    compset -P '*='
  fi
  if (( CURRENT == 2 )); then
    candidates=({} help)
    [[ "$word" == -* ]] && candidates=($flags)
  elif ! _plimsoll_values "$command $before"; then
    if [[ "$word" == -* ]]; then
      candidates=($flags)
    else
      is_file=1
      _plimsoll_is_first && candidates=($names) && is_file=$takes_file
    fi
  fi
  compadd -- $candidates
  (( is_file )) && _files
  return 0
}}
if [[ ${{funcstack[1]}} == _plimsoll ]]; then
  _plimsoll "$@"
else
  compdef _plimsoll plimsoll
fi
)",
      value_cases(app, "    {}) candidates=({}); is_file={} ;;\n"), joined(flags_of(app)),
      command_cases(app, "    {}) flags=({}); names=({}); takes_file={} ;;\n"),
      joined(command_names(app)));
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
  text += fmt::format(
      "complete -c plimsoll -f -n __fish_use_subcommand -a help -d 'Print the help of a command'\n"
      "complete -c plimsoll -f -n '__fish_seen_subcommand_from help' -a {}\n",
      in_quotes(joined(command_names(app))));
  for (const CLI::App* command : app.get_subcommands({})) {
    const std::string name = command->get_name();
    text += fmt::format("complete -c plimsoll -f -n __fish_use_subcommand -a {} -d {}\n", name,
                        in_quotes(command->get_description()));
    const std::string where = fmt::format("-n '__fish_seen_subcommand_from {}'", name);
    if (const Words words = shipped_for(name); !words.empty()) {
      text += fmt::format("complete -c plimsoll {}{} -a {}\n", takes_words_only(name) ? "-f " : "",
                          where, in_quotes(joined(words)));
    }
    for (const CLI::Option* option : command->get_options()) {
      if (!option->nonpositional()) continue;
      text += fmt::format("complete -c plimsoll {}", where);
      for (const std::string& flag : option->get_snames()) text += " -s " + flag;
      for (const std::string& flag : option->get_lnames()) text += " -l " + flag;
      if (takes_value(*option)) {
        const Words values = values_of(name, *option);
        const bool is_file = takes_file(*option);
        text += values.empty()
                    ? " -r"
                    : fmt::format(" {} -a {}", is_file ? "-r" : "-x", in_quotes(joined(values)));
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
