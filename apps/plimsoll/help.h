// Help texts: options in groups, the common ones first, with an example each, within 100 columns.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "plimsoll/core/result.h"

namespace plimsoll::app {

inline constexpr const char* kCommonGroup = "Common options";
inline constexpr const char* kGeneralGroup = "General options";

// One example for each group of options that it names; for commands and for the program itself.
class HelpFormatter : public CLI::Formatter {
 public:
  explicit HelpFormatter(std::map<std::string, std::string> examples)
      : examples_(std::move(examples)) {}
  std::string make_help(const CLI::App* app, std::string name,
                        CLI::AppFormatMode mode) const override;

 private:
  std::map<std::string, std::string> examples_;  // by group
};

// A command line of each kind of input, such as "check model.json plan.json --on 8x80GiB", to which
// the example of a group that several commands share adds its flags; empty: no such examples.
struct GroupSubjects {
  std::string tables;
  std::string modules;
  std::string graph;
};

// Gives a command such help; its option -h is among the common ones.
void set_help(CLI::App& command, std::map<std::string, std::string> examples,
              const GroupSubjects& subjects = {});

// "-o,--output FILE", "--objective {rating,step,time}".
std::string option_label(const CLI::Option& option);
// Its description, with the default where it has one.
std::string option_text(const CLI::Option& option);
// The words between which an option chooses; empty where it takes any.
std::vector<std::string> choices_of(const CLI::Option& option);

// Options whose text a parser reads: what it refuses is bad usage at the option.
template <class Value>
CLI::Option* add_parsed(CLI::App& command, const std::string& names,
                        Result<Value> (*parse)(std::string_view), std::optional<Value>& value,
                        const std::string& help) {
  return command
      .add_option_function<std::string>(
          names, [parse, &value](const std::string& text) { value = *parse(text); }, help)
      ->check([parse](const std::string& text) {
        const auto read = parse(text);
        return read ? std::string() : read.error().message + "; " + read.error().remedy;
      });
}

}  // namespace plimsoll::app
