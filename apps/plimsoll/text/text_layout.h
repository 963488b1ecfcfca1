// How text for people is laid out: widths, cut names, folded lists, figures with few digits.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "plimsoll/core/outcome.h"
#include "plimsoll/core/run_context.h"
#include "plimsoll/core/units.h"

namespace plimsoll::app {

// Columns of the terminal that stdout is; else those that COLUMNS names; else 100. At least 40.
std::size_t text_columns();

// With control characters, escape codes among them, and bytes that are not UTF-8 as "\x1b"; line
// ends and tabs stay. Names come from files: nothing that they hold may steer a terminal.
std::string shown(std::string_view text);

// Columns that a terminal gives the text: wide characters two, combining ones and colors none.
std::size_t display_width(std::string_view text);

// At most `width` columns, the middle as "..." where the text is longer.
std::string cut_to(std::string_view text, std::size_t width);

// The same, cut at the end.
std::string head_of(std::string_view text, std::size_t width);

// Words in lines of at most `width` columns; all lines but the first begin with `indent` blanks.
std::string wrapped(std::string_view text, std::size_t width, std::size_t indent);

// Every line of the text wrapped to the terminal, what goes on after `indent` blanks.
std::string in_lines(std::string_view text, std::size_t indent);

// "  slowest rank   2.283 ms    ...": a row of a first screen, wrapped below column `indent` of it.
std::string screen_row(std::string_view name, std::string_view what, std::size_t indent = 28);

// Numbers with many digits after the point in four digits: "3.7831180237707054 ms" as "3.783 ms".
std::string with_short_numbers(std::string_view text);

// What to type to see or do more, below a text.
std::string hint(std::string_view text);

// "4,096".
std::string grouped(std::int64_t number);
// "1 rank", "4,096 ranks".
std::string counted(std::int64_t number, std::string_view one, std::string_view many);
// "2.283", four digits; "-" without a value.
std::string short_figure(const std::optional<double>& value);
// "2.283 ms", four digits.
std::string ms_text(double ms);
// "43 GiB", "55.28 GiB", "448 MiB".
std::string size_text(Bytes bytes);

// "0.9 s", "32 s"; at least "0.001 s".
std::string seconds_text(double seconds);

// "no plan is better (verified)", or "this plan is at most 5.9 % above it (verified)"; "not known"
// without a bound.
std::string bound_words(const Certificate& certificate);

// Names that are equal except for one number, which counts up, or one name alone.
struct FoldedName {
  std::string first, last;    // "layers.0.mlp", "layers.10.mlp"
  std::string before, after;  // of the number: "layers.", ".mlp"; of one name alone empty
  int count = 1;
  // "layers.0-10.mlp".
  std::string range() const;
};
std::vector<FoldedName> fold_names(const std::vector<std::string>& names);
// The same as texts: "cat_0 .. cat_4", "cat_6".
std::vector<std::string> folded(const std::vector<std::string>& names);

// What all names begin with, up to a '.' that no number follows, at least two names given.
std::string common_prefix(const std::vector<std::string>& names);

// "0-7,9" of ascending numbers.
std::string fold_numbers(const std::vector<int>& numbers);

// A line of one kind ("unknown_code"), such as a warning or a finding.
struct CodedLine {
  std::string code, line;
};
// Of more than three lines of one code the first and how many more there are; all where `is_all`.
std::vector<std::string> fold_lines(const std::vector<CodedLine>& lines, bool is_all);

// "warning: place: message" lines. Folded like that.
std::vector<std::string> warning_lines(const std::vector<Warning>& warnings, bool is_all);

}  // namespace plimsoll::app
