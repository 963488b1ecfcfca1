// A text table with a header line, columns as wide as their widest cell.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

namespace plimsoll::app {

class TextTable {
 public:
  // `right` marks right-aligned columns; missing entries are left-aligned.
  explicit TextTable(std::vector<std::string> header, std::vector<bool> right = {})
      : rows_{std::move(header)}, right_(std::move(right)) {
    right_.resize(rows_.front().size(), false);
  }

  void add(std::vector<std::string> row) { rows_.push_back(std::move(row)); }

  std::string text() const {
    std::vector<std::size_t> width(rows_.front().size(), 0);
    for (const auto& row : rows_) {
      for (std::size_t c = 0; c < row.size(); ++c) width[c] = std::max(width[c], row[c].size());
    }
    std::string text;
    for (std::size_t r = 0; r < rows_.size(); ++r) {
      std::string line;
      for (std::size_t c = 0; c < rows_[r].size(); ++c) {
        const std::string padding(width[c] - rows_[r][c].size(), ' ');
        if (c > 0) line += "  ";
        line += right_[c] ? padding + rows_[r][c] : rows_[r][c] + padding;
      }
      line.erase(line.find_last_not_of(' ') + 1);
      text += line + "\n";
      if (r > 0) continue;
      for (std::size_t c = 0; c < width.size(); ++c) {
        text += (c > 0 ? "  " : "") + std::string(width[c], '-');
      }
      text += "\n";
    }
    return text;
  }

 private:
  std::vector<std::vector<std::string>> rows_;
  std::vector<bool> right_;
};

}  // namespace plimsoll::app
