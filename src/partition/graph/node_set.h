// A set of small numbers, 64 to a word.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/check.h"

namespace plimsoll::partition {

class NodeSet {
 public:
  explicit NodeSet(std::size_t size = 0) : words_((size + 63) / 64) {}

  bool contains(std::size_t i) const { return (words_[i / 64] >> (i % 64) & 1) != 0; }
  void insert(std::size_t i) { words_[i / 64] |= std::uint64_t{1} << (i % 64); }
  // Precondition of these: sets of one size.
  void insert(const NodeSet& others) {
    PLIMSOLL_DCHECK(words_.size() == others.words_.size(), "the sets have one size");
    for (std::size_t w = 0; w < words_.size(); ++w) words_[w] |= others.words_[w];
  }
  bool is_within(const NodeSet& other) const {
    PLIMSOLL_DCHECK(words_.size() == other.words_.size(), "the sets have one size");
    for (std::size_t w = 0; w < words_.size(); ++w) {
      if ((words_[w] & ~other.words_[w]) != 0) return false;
    }
    return true;
  }
  int count() const {
    int sum = 0;
    for (const std::uint64_t word : words_) sum += std::popcount(word);
    return sum;
  }
  // Calls `visit(i)` for each member, ascending.
  template <class Visit>
  void for_each(Visit visit) const {
    for (std::size_t w = 0; w < words_.size(); ++w) {
      for (std::uint64_t left = words_[w]; left != 0; left &= left - 1) {
        visit(64 * w + static_cast<std::size_t>(std::countr_zero(left)));
      }
    }
  }
  std::size_t hash() const {
    std::uint64_t sum = 0;
    for (const std::uint64_t word : words_) {
      sum = (sum ^ word) * 0x9E3779B97F4A7C15U;
      sum ^= sum >> 29U;
    }
    return sum;
  }
  bool operator==(const NodeSet&) const = default;

 private:
  std::vector<std::uint64_t> words_;
};

struct NodeSetHash {
  std::size_t operator()(const NodeSet& set) const { return set.hash(); }
};

}  // namespace plimsoll::partition
