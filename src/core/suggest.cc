// Nearest name by edit distance.
//
// Problem. Of a few hundred known names, find the one that a mistyped word most likely meant.
// Method. Optimal string alignment: Levenshtein's table with one more move, the swap of two
// neighbours; three rows of the table are kept. O(|word| |candidate|) time, O(|candidate|) memory.
// Promises. Ties go to the earlier candidate; nothing is said where the nearest name is far away.
// [1] L. Boytsov, "Indexing methods for approximate dictionary searching", JEA 16, 2011,
// https://doi.org/10.1145/1963190.1963191.
#include "core/suggest.h"

#include <algorithm>
#include <numeric>
#include <vector>

namespace plimsoll {
namespace {

std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> two_above(b.size() + 1);
  std::vector<std::size_t> above(b.size() + 1);
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    two_above.swap(above);
    above.swap(row);
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const bool is_equal = a[i - 1] == b[j - 1];
      row[j] = std::min({above[j] + 1, row[j - 1] + 1, above[j - 1] + (is_equal ? 0 : 1)});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        row[j] = std::min(row[j], two_above[j - 2] + 1);
      }
    }
  }
  return row[b.size()];
}

}  // namespace

std::optional<std::string> find_similar(std::string_view word,
                                        std::span<const std::string> candidates) {
  std::size_t best_distance = std::max<std::size_t>(1, word.size() / 3) + 1;
  const std::string* best = nullptr;
  for (const std::string& candidate : candidates) {
    const std::size_t distance = edit_distance(word, candidate);
    if (distance < best_distance) {
      best_distance = distance;
      best = &candidate;
    }
  }
  if (best == nullptr) return std::nullopt;
  return *best;
}

std::string suggest(std::string_view word, std::span<const std::string> candidates) {
  constexpr std::size_t kMaxListed = 16;
  if (candidates.empty()) return {};
  if (const auto similar = find_similar(word, candidates)) {
    return std::string("did you mean '").append(*similar).append("'?");
  }
  // What was typed may be a part of the name.
  constexpr std::size_t kShortestPart = 3;
  constexpr std::size_t kMaxMeant = 4;
  std::vector<std::string_view> meant;
  if (word.size() >= kShortestPart) {
    for (const std::string& candidate : candidates) {
      if (candidate.find(word) != std::string::npos) meant.emplace_back(candidate);
    }
  }
  if (!meant.empty() && meant.size() <= kMaxMeant) {
    std::string text = "did you mean ";
    for (std::size_t i = 0; i < meant.size(); ++i) {
      if (i > 0) text += i + 1 < meant.size() ? ", " : " or ";
      text += '\'';
      text += meant[i];
      text += '\'';
    }
    return text + "?";
  }
  std::string text = "known: ";
  for (std::size_t i = 0; i < std::min(candidates.size(), kMaxListed); ++i) {
    if (i > 0) text += ", ";
    text += candidates[i];
  }
  if (candidates.size() > kMaxListed) text += ", ...";
  return text;
}

}  // namespace plimsoll
