// A text table with a header line, columns as wide as their widest cell, that fits the terminal.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "plimsoll/text/text_layout.h"

namespace plimsoll::app {

class TextTable {
 public:
  // `right` marks right-aligned columns; missing entries are left-aligned.
  explicit TextTable(std::vector<std::string> header, std::vector<bool> right = {})
      : rows_{std::move(header)}, right_(std::move(right)) {
    right_.resize(rows_.front().size(), false);
  }

  void add(std::vector<std::string> row) {
    for (std::string& cell : row) cell = shown(cell);
    rows_.push_back(std::move(row));
  }

  bool empty() const { return rows_.size() == 1; }  // except for the header

  // Each line after `indent` blanks. Where lines would be longer than `columns`, the widest
  // left-aligned columns lose the middle of their cells, the last one the end.
  std::string text(std::size_t indent = 0, std::size_t columns = text_columns()) const {
    const std::vector<std::size_t> width = fitted_widths(indent, columns);
    std::string text;
    for (std::size_t r = 0; r < rows_.size(); ++r) {
      std::string line(indent, ' ');
      for (std::size_t c = 0; c < rows_[r].size(); ++c) {
        const bool is_last = c + 1 == rows_[r].size();
        const std::string cell =
            is_last ? head_of(rows_[r][c], width[c]) : cut_to(rows_[r][c], width[c]);
        const std::string padding(width[c] - display_width(cell), ' ');
        if (c > 0) line += "  ";
        line += right_[c] ? padding + cell : cell + padding;
      }
      line.erase(line.find_last_not_of(' ') + 1);
      text += line + "\n";
      if (r > 0) continue;
      line.assign(indent, ' ');
      for (std::size_t c = 0; c < width.size(); ++c) {
        line += (c > 0 ? "  " : "") + std::string(width[c], '-');
      }
      text += line + "\n";
    }
    return text;
  }

 private:
  std::vector<std::size_t> fitted_widths(std::size_t indent, std::size_t columns) const {
    constexpr std::size_t kNarrowest = 8;
    std::vector<std::size_t> width(rows_.front().size(), 0);
    for (const auto& row : rows_) {
      for (std::size_t c = 0; c < row.size(); ++c) {
        width[c] = std::max(width[c], display_width(row[c]));
      }
    }
    std::size_t total = indent + 2 * (width.size() - 1);
    for (const std::size_t w : width) total += w;
    while (total > columns) {
      std::size_t widest = width.size();
      for (std::size_t c = 0; c < width.size(); ++c) {
        if (right_[c] || width[c] <= std::max(kNarrowest, display_width(rows_.front()[c]))) {
          continue;
        }
        if (widest == width.size() || width[c] > width[widest]) widest = c;
      }
      if (widest == width.size()) break;  // figures are never cut
      --width[widest];
      --total;
    }
    return width;
  }

  std::vector<std::vector<std::string>> rows_;
  std::vector<bool> right_;
};

}  // namespace plimsoll::app
