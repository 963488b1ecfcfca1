// Names as people type them.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>

namespace plimsoll::topology {

inline std::string to_lower(std::string_view text) {
  std::string lower(text);
  std::transform(lower.begin(), lower.end(), lower.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  });
  return lower;
}

}  // namespace plimsoll::topology
