// The order in which groups are placed, kept from one proposal to the next.
//
// Groups go by tables of their module (fewer first, where asked), then by storage or perf, largest
// first, then by position. Proposals of one search differ in few tables, so only positions whose
// key changed are moved: O(positions) to find them and a few insertions, against O(positions log
// positions) to sort.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "plimsoll/embedding/option_set.h"

namespace plimsoll::embedding {

struct GroupKey {
  bool is_placed = false;  // does the position lead a group at all?
  std::int64_t param_count = 0;
  Storage storage;
  double perf = 0;
  bool operator==(const GroupKey&) const = default;
};

class GroupOrder {
 public:
  // Positions that lead groups, first to place first; valid until the next call. The result depends
  // on `keys` alone.
  const std::vector<std::int32_t>& sort(const std::vector<GroupKey>& keys) {
    const auto precedes = [&keys](std::int32_t a, std::int32_t b) {
      const GroupKey& left = keys[static_cast<std::size_t>(a)];
      const GroupKey& right = keys[static_cast<std::size_t>(b)];
      if (left.param_count != right.param_count) return left.param_count > right.param_count;
      if (left.storage != right.storage) return left.storage > right.storage;
      if (left.perf != right.perf) return left.perf > right.perf;
      return a < b;
    };
    if (find_changes(keys)) {
      std::erase_if(order_, [this](std::int32_t p) {
        return std::find(changed_.begin(), changed_.end(), p) != changed_.end();
      });
      for (const std::int32_t p : changed_) {
        const GroupKey& key = keys[static_cast<std::size_t>(p)];
        keys_[static_cast<std::size_t>(p)] = key;
        if (key.is_placed) {
          order_.insert(std::lower_bound(order_.begin(), order_.end(), p, precedes), p);
        }
      }
      return order_;
    }
    keys_ = keys;
    order_.clear();
    for (std::size_t p = 0; p < keys.size(); ++p) {
      if (keys[p].is_placed) order_.push_back(static_cast<std::int32_t>(p));
    }
    std::sort(order_.begin(), order_.end(), precedes);
    return order_;
  }

 private:
  static constexpr std::size_t kMaxMoves = 8;  // beyond that sorting afresh is as fast

  // Lists the positions whose key changed; false if there are too many to move one by one.
  bool find_changes(const std::vector<GroupKey>& keys) {
    changed_.clear();
    if (keys.size() != keys_.size()) return false;
    for (std::size_t p = 0; p < keys.size(); ++p) {
      if (keys[p] == keys_[p]) continue;
      if (changed_.size() == kMaxMoves) return false;
      changed_.push_back(static_cast<std::int32_t>(p));
    }
    return true;
  }

  std::vector<GroupKey> keys_;  // those that order_ is sorted by
  std::vector<std::int32_t> order_;
  std::vector<std::int32_t> changed_;
};

}  // namespace plimsoll::embedding
