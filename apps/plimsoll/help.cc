#include "plimsoll/help.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "plimsoll/text/text_layout.h"

namespace plimsoll::app {
namespace {

constexpr std::size_t kColumns = 100;
constexpr std::size_t kTextColumn = 30;

// A label and, from column 30 on, what it means.
std::string entry(const std::string& label, const std::string& text) {
  std::string line = "  " + label;
  if (line.size() + 2 > kTextColumn) {
    line += "\n" + std::string(kTextColumn, ' ');
  } else {
    line.resize(kTextColumn, ' ');
  }
  std::string body = wrapped(text, kColumns - kTextColumn, 0);
  for (std::size_t at = body.find('\n'); at != std::string::npos; at = body.find('\n', at + 1)) {
    body.insert(at + 1, std::string(kTextColumn, ' '));
  }
  return line + body + "\n";
}

std::string usage_line(const CLI::App& app, const std::string& name) {
  std::string text = "Usage: " + name;
  for (const CLI::Option* option : app.get_options()) {
    if (!option->nonpositional() && option->get_positional()) {
      text += option->get_required() ? " " + option->get_name()
                                     : fmt::format(" [{}]", option->get_name());
    }
  }
  if (!app.get_subcommands({}).empty()) text += " COMMAND";
  return text + " [options]\n";
}

// "SIZE" of "SIZE:check", which is how CLI11 joins a name and what is checked; "NAME[:TABLES]"
// whole.
std::string value_name(const std::string& type) {
  int depth = 0;
  for (std::size_t i = 0; i < type.size(); ++i) {
    if (type[i] == '[') ++depth;
    if (type[i] == ']') --depth;
    if (type[i] == ':' && depth == 0) return type.substr(0, i);
  }
  return type;
}

// What the example of a group adds where several commands have the group.
constexpr std::pair<std::string_view, std::string_view> kGroupExamples[] = {
    {"Model", "--optimizer rowwise_adagrad"},
    {"Cost model", "--cost-model torchrec-1.8"},
    {"Memory", "--reservation heuristical:0.1"},
    {"Hardware", "--local-world-size 4"},
    {"TorchEasyRec", "--easyrec-environment"},
    {"What the balanced search minimizes", "--objective rating"},
    {"Which plans the balanced search considers", "--widths all --time-limit 10s"},
    {"TorchRec's planner", "--search torchrec --proposer dynamic_programming"},
    {"Reports and replay", "--effort 100000"},
    {"Memory and time of a module", "--optimizer-bytes 12GiB"},
    {"Which modules are checkpointed", "--segments 4"},
    {"FSDP", "--world-size 8 --fsdp-buffers"},
    {"Devices and rules", "--devices 4 --memory 16GiB"},
    {"Traced models", "--launch-floor 5us"},
    {"Pipelines", "--microbatches 16"}};

}  // namespace

std::vector<std::string> choices_of(const CLI::Option& option) {
  const std::string type = option.get_type_name();
  const std::size_t open = type.find('{');
  const std::size_t close = type.find('}');
  std::vector<std::string> choices;
  if (open == std::string::npos || close == std::string::npos) return choices;
  for (std::size_t begin = open + 1; begin < close;) {
    const std::size_t end = std::min(type.find(',', begin), close);
    choices.push_back(type.substr(begin, end - begin));
    begin = end + 1;
  }
  return choices;
}

std::string option_label(const CLI::Option& option) {
  std::string label;
  for (const std::string& name : option.get_snames()) label += "-" + name + ", ";
  for (const std::string& name : option.get_lnames()) label += "--" + name + ", ";
  if (label.empty()) return option.get_name(true);
  label.resize(label.size() - 2);
  if (option.get_expected_max() == 0) return label;
  constexpr std::size_t kShort = 44;
  const std::vector<std::string> choices = choices_of(option);
  const std::string set = fmt::format("{{{}}}", fmt::join(choices, ","));
  if (!choices.empty() && set.size() <= kShort) return label + " " + set;
  return label + " " + (choices.empty() ? value_name(option.get_type_name()) : "NAME");
}

std::string option_text(const CLI::Option& option) {
  std::string text = option.get_description();
  if (!option.get_default_str().empty()) {
    text += fmt::format(" (default: {})", option.get_default_str());
  }
  return text;
}

std::string HelpFormatter::make_help(const CLI::App* app, std::string name,
                                     CLI::AppFormatMode /*mode*/) const {
  if (name.empty()) name = app->get_name();
  if (app->get_parent() != nullptr) name = "plimsoll " + app->get_name();
  std::string text = wrapped(app->get_description(), kColumns, 0) + "\n\n" + usage_line(*app, name);
  for (const CLI::Option* option : app->get_options()) {
    if (!option->nonpositional() && option->get_positional()) {
      text += entry(option->get_name(), option->get_description());
    }
  }
  const auto commands = app->get_subcommands({});
  if (!commands.empty()) text += "\nCommands:\n";
  for (const CLI::App* command : commands) {
    text += entry(command->get_name(), command->get_description());
  }
  for (const std::string& group : app->get_groups()) {
    std::string options;
    for (const CLI::Option* option : app->get_options()) {
      if (option->get_group() != group || !option->nonpositional()) continue;
      options += entry(option_label(*option), option_text(*option));
    }
    if (options.empty()) continue;
    text += fmt::format("\n{}:\n{}", group, options);
    if (const auto example = examples_.find(group); example != examples_.end()) {
      text += fmt::format("  Example: {}\n", wrapped(example->second, kColumns - 11, 11));
    }
  }
  const std::string footer = app->get_footer();
  return footer.empty() ? text : text + "\n" + footer;
}

void set_help(CLI::App& command, std::map<std::string, std::string> examples,
              const GroupSubjects& subjects) {
  for (const auto& [group, flags] : kGroupExamples) {
    const bool is_of_graph =
        group == "Devices and rules" || group == "Traced models" || group == "Pipelines";
    const bool is_of_modules = group == "Memory and time of a module" ||
                               group == "Which modules are checkpointed" || group == "FSDP";
    const std::string& subject = is_of_graph     ? subjects.graph
                                 : is_of_modules ? subjects.modules
                                                 : subjects.tables;
    if (subject.empty()) continue;
    examples.try_emplace(std::string(group), fmt::format("plimsoll {} {}", subject, flags));
  }
  const std::string& any = !subjects.tables.empty()    ? subjects.tables
                           : !subjects.modules.empty() ? subjects.modules
                                                       : subjects.graph;
  const char* const general =
      command.get_option_no_throw("--seed") != nullptr ? "--seed 7" : "--color never";
  if (!any.empty())
    examples.try_emplace(kGeneralGroup, fmt::format("plimsoll {} {}", any, general));
  // A command takes over its parent's footer, whose examples are of other commands.
  if (command.get_parent() != nullptr &&
      command.get_footer() == command.get_parent()->get_footer()) {
    command.footer("");
  }
  command.formatter(std::make_shared<HelpFormatter>(std::move(examples)));
  if (CLI::Option* const help = command.get_help_ptr()) {
    help->group(kCommonGroup)->description("Print this help");
  }
}

}  // namespace plimsoll::app
