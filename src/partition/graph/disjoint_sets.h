// Disjoint sets of small whole numbers under union.
#pragma once

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <vector>

namespace plimsoll::partition {

// Union-find; the root of a set is its smallest element.
class DisjointSets {
 public:
  explicit DisjointSets(int size) : parent_(static_cast<std::size_t>(size)) {
    std::iota(parent_.begin(), parent_.end(), 0);
  }
  int find(int x) {
    while (parent_[x] != x) x = parent_[x] = parent_[parent_[x]];
    return x;
  }
  void unite(int a, int b) {
    a = find(a);
    b = find(b);
    if (a != b) parent_[std::max(a, b)] = std::min(a, b);
  }

 private:
  std::vector<int> parent_;
};

}  // namespace plimsoll::partition
