// What the exporters of placements share: names of modules, and small JSON objects by hand.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "io/json/json_document.h"

namespace plimsoll::io {

inline std::string quoted(const std::string& text) { return print_compact({text}); }

// One member a line; the values as they are.
inline std::string write_object(const std::vector<std::pair<std::string, std::string>>& members) {
  std::string text = "{";
  for (const auto& [key, value] : members) {
    text += (text.size() == 1 ? "\n " : ",\n ") + quoted(key) + ": " + value;
  }
  return text + (members.empty() ? "}\n" : "\n}\n");
}

// "a", "a.b", "a.b.c" of "a.b.c".
inline std::vector<std::string_view> prefixes_of(std::string_view fqn) {
  std::vector<std::string_view> prefixes;
  if (fqn.empty()) return prefixes;
  for (std::size_t dot = fqn.find('.'); dot != fqn.npos; dot = fqn.find('.', dot + 1)) {
    prefixes.push_back(fqn.substr(0, dot));
  }
  prefixes.push_back(fqn);
  return prefixes;
}

}  // namespace plimsoll::io
