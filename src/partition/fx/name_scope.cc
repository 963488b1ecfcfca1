#include "partition/fx/name_scope.h"

#include <algorithm>
#include <array>

namespace plimsoll::partition {
namespace {

// Python 3.11's keywords and builtins as far as they are lower-case, and torch.fx's own. Sorted.
constexpr std::array<std::string_view, 113> kReserved = {
    "abs",       "aiter",      "all",         "and",        "anext",        "any",
    "as",        "ascii",      "assert",      "async",      "await",        "bin",
    "bool",      "break",      "breakpoint",  "bytearray",  "bytes",        "callable",
    "chr",       "class",      "classmethod", "compile",    "complex",      "continue",
    "copyright", "credits",    "def",         "del",        "delattr",      "device",
    "dict",      "dir",        "divmod",      "elif",       "else",         "enumerate",
    "eval",      "except",     "exec",        "exit",       "filter",       "finally",
    "float",     "for",        "format",      "from",       "frozenset",    "fx_pytree",
    "getattr",   "global",     "globals",     "hasattr",    "hash",         "help",
    "hex",       "id",         "if",          "import",     "in",           "inf",
    "input",     "int",        "is",          "isinstance", "issubclass",   "iter",
    "lambda",    "len",        "license",     "list",       "locals",       "map",
    "max",       "memoryview", "min",         "nan",        "next",         "nonlocal",
    "not",       "object",     "oct",         "open",       "or",           "ord",
    "pass",      "pow",        "print",       "property",   "pytree",       "quit",
    "raise",     "range",      "repr",        "return",     "reversed",     "round",
    "set",       "setattr",    "slice",       "sorted",     "staticmethod", "str",
    "sum",       "super",      "torch",       "try",        "tuple",        "type",
    "vars",      "while",      "with",        "yield",      "zip",
};

bool is_lower(char c) { return c >= 'a' && c <= 'z'; }
bool is_upper(char c) { return c >= 'A' && c <= 'Z'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }

// Runs of other characters become one underscore.
std::string make_identifier(std::string_view wish) {
  if (wish.size() > 4 && wish.starts_with("__") && wish.ends_with("__")) {
    wish = wish.substr(2, wish.size() - 4);
  }
  std::string name;
  bool in_gap = false;
  for (std::size_t i = 0; i < wish.size(); ++i) {
    const char c = wish[i];
    const bool is_legal = is_lower(c) || is_upper(c) || is_digit(c) || c == '_';
    if (!is_legal) {
      if (!in_gap) name += '_';
      in_gap = true;
      continue;
    }
    in_gap = false;
    if (is_upper(c)) {
      if (i > 0 && is_lower(wish[i - 1])) name += '_';
      name += static_cast<char>(c - 'A' + 'a');
    } else {
      name += c;
    }
  }
  if (name.empty()) return "_unnamed";
  return is_digit(name.front()) ? "_" + name : name;
}

// "add_12": where "_12" begins; the end if there is no number.
std::size_t find_number(const std::string& name) {
  std::size_t first = name.size();
  while (first > 0 && is_digit(name[first - 1])) --first;
  const bool has_number = first < name.size() && first > 1 && name[first - 1] == '_';
  return has_number ? first - 1 : name.size();
}

long read_number(std::string_view digits) {
  long number = 0;
  for (const char digit : digits) number = std::min(number, 100'000'000L) * 10 + (digit - '0');
  return number;
}

}  // namespace

std::string NameScope::take(std::string_view wish) {
  std::string name = make_identifier(wish);
  const std::size_t end = find_number(name);
  const std::string base = name.substr(0, end);
  long number = 0;
  if (end == name.size() || used_.contains(name)) {
    number = last_number_[base];
    if (std::binary_search(kReserved.begin(), kReserved.end(), name)) {
      name = base + "_" + std::to_string(++number);
    }
  } else {
    number = read_number(std::string_view(name).substr(end + 1));
  }
  while (used_.contains(name)) name = base + "_" + std::to_string(++number);
  used_.insert(name);
  last_number_[base] = number;
  return name;
}

}  // namespace plimsoll::partition
