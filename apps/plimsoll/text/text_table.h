// A text table with a header line, columns as wide as their widest cell, that fits the terminal.
#pragma once

#include <algorithm>
#include <numeric>
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

  // Columns that tell little: while lines are longer than `columns`, the first of these in which
  // all rows are equal goes.
  void drop_equal(const std::vector<std::string>& names, std::size_t indent,
                  std::size_t columns = text_columns()) {
    for (const std::string& name : names) {
      const auto& header = rows_.front();
      const auto found = std::find(header.begin(), header.end(), name);
      if (width_of_lines(indent) <= columns || found == header.end() || empty()) continue;
      const auto c = found - header.begin();
      const auto is_equal = [&](const auto& row) {
        return row[static_cast<std::size_t>(c)] == rows_[1][static_cast<std::size_t>(c)];
      };
      if (!std::all_of(rows_.begin() + 1, rows_.end(), is_equal)) continue;
      for (auto& row : rows_) row.erase(row.begin() + c);
      right_.erase(right_.begin() + c);
    }
  }

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
  std::vector<std::size_t> natural_widths() const {
    std::vector<std::size_t> width(rows_.front().size(), 0);
    for (const auto& row : rows_) {
      for (std::size_t c = 0; c < row.size(); ++c) {
        width[c] = std::max(width[c], display_width(row[c]));
      }
    }
    return width;
  }

  static std::size_t sum_of(const std::vector<std::size_t>& width, std::size_t indent) {
    return std::accumulate(width.begin(), width.end(), indent + 2 * (width.size() - 1));
  }

  std::size_t width_of_lines(std::size_t indent) const { return sum_of(natural_widths(), indent); }

  std::vector<std::size_t> fitted_widths(std::size_t indent, std::size_t columns) const {
    constexpr std::size_t kNarrowest = 8;
    std::vector<std::size_t> width = natural_widths();
    std::size_t total = sum_of(width, indent);
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
