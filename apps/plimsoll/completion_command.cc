// plimsoll completion: scripts that complete commands and flags in a shell, made from the commands
// themselves.

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>

#include "plimsoll/common.h"

namespace plimsoll::app {
namespace {

std::string flags_of(const CLI::App& command) {
  std::string flags;
  for (const CLI::Option* option : command.get_options()) {
    for (const std::string& name : option->get_lnames()) flags += fmt::format("--{} ", name);
  }
  if (!flags.empty()) flags.pop_back();
  return flags;
}

std::string bash_script(const CLI::App& app) {
  std::string names;
  std::string cases;
  for (const CLI::App* command : app.get_subcommands({})) {
    names += command->get_name() + " ";
    cases += fmt::format("    {}) words=\"{}\" ;;\n", command->get_name(), flags_of(*command));
  }
  return fmt::format(
      "# bash completion for plimsoll: source this file\n"
      "_plimsoll() {{\n"
      "  local words=\"{}{}\"\n"
      "  case \"${{COMP_WORDS[1]}}\" in\n"
      "{}"
      "  esac\n"
      "  [ \"$COMP_CWORD\" -eq 1 ] && words=\"{}{}\"\n"
      "  COMPREPLY=($(compgen -W \"$words\" -- \"${{COMP_WORDS[COMP_CWORD]}}\"))\n"
      "}}\n"
      "complete -o default -F _plimsoll plimsoll\n",
      names, flags_of(app), cases, names, flags_of(app));
}

std::string zsh_script(const CLI::App& app) {
  std::string names;
  std::string cases;
  for (const CLI::App* command : app.get_subcommands({})) {
    names += command->get_name() + " ";
    cases += fmt::format("    {}) candidates=({}) ;;\n", command->get_name(), flags_of(*command));
  }
  // The file is both autoloaded by compinit, which then runs it as _plimsoll, and sourced.
  return fmt::format(
      "#compdef plimsoll\n"
      "_plimsoll() {{\n"
      "  local -a candidates\n"
      "  candidates=({}{})\n"
      "  if (( CURRENT > 2 )); then\n"
      "    case \"${{words[2]}}\" in\n"
      "{}"
      "    esac\n"
      "  fi\n"
      "  compadd -- $candidates\n"
      "  _files\n"
      "}}\n"
      "if [[ ${{funcstack[1]}} == _plimsoll ]]; then\n"
      "  _plimsoll \"$@\"\n"
      "else\n"
      "  compdef _plimsoll plimsoll\n"
      "fi\n",
      names, flags_of(app), cases);
}

}  // namespace

void add_completion_command(CLI::App& app, Run& run) {
  auto shell = std::make_shared<std::string>();
  CLI::App* command = app.add_subcommand("completion", "Print a shell's completion script");
  command->footer(examples(
      {"source <(plimsoll completion bash)", "plimsoll completion zsh > ~/.zfunc/_plimsoll"}));
  command->add_option("SHELL", *shell, "bash or zsh")
      ->required()
      ->check(CLI::IsMember({"bash", "zsh"}));
  command->callback([shell, &app, &run] {
    run = [shell, &app] {
      print(*shell == "bash" ? bash_script(app) : zsh_script(app));
      return static_cast<int>(kExitOk);
    };
  });
}

}  // namespace plimsoll::app
