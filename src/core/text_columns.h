// Padding of text to columns, as Python pads it: widths count code points, longer text is kept.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace plimsoll {

// Code points of UTF-8 text.
inline std::size_t text_width(std::string_view text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xC0) != 0x80;  // not a continuation byte
  }));
}

inline std::string blanks(std::size_t width, std::string_view beside) {
  const std::size_t used = text_width(beside);
  return std::string(width > used ? width - used : 0, ' ');
}

inline std::string pad_right(std::string_view text, std::size_t width) {
  return std::string(text) + blanks(width, text);
}

inline std::string pad_left(std::string_view text, std::size_t width) {
  return blanks(width, text) + std::string(text);
}

// Width of the widest cell of each column; all rows are as long as the first.
inline std::vector<std::size_t> column_widths(const std::vector<std::vector<std::string>>& rows) {
  std::vector<std::size_t> widths(rows.empty() ? 0 : rows.front().size(), 0);
  for (const auto& row : rows) {
    for (std::size_t i = 0; i < widths.size(); ++i) {
      widths[i] = std::max(widths[i], text_width(row[i]));
    }
  }
  return widths;
}

}  // namespace plimsoll
