// The least loaded rank or host that can take a piece, without looking at all of them.
//
// A heap of heights (loads of pieces and blocks alone, of rank class 0, summed over the barriers)
// whose stale entries are passed over. O(log ranks) where memory does not bind. With several
// barriers a piece goes to the rank where the squares of all loads grow least, O(ranks), unless
// ranks are too many for that.
#pragma once

#include <queue>
#include <vector>

#include "balance/problem/placement_state.h"

namespace plimsoll::balance {

class LightestPlace {
 public:
  // The state must be empty and outlive it.
  explicit LightestPlace(PlacementState& state);

  // Takes the choice and puts all of its pieces; false, and nothing put, where one fits nowhere.
  bool place(int unit, int choice);
  void put(int unit, int piece, int place);  // of the unit's choice
  void remove(int unit);
  double height(int rank) const { return height_[rank]; }

 private:
  using Heap = std::priority_queue<std::pair<double, int>, std::vector<std::pair<double, int>>,
                                   std::greater<>>;
  static constexpr int kMaxSplitRanks = 512;
  int lightest(int unit, int choice, int piece);
  int lightest_of_barriers(int unit, int choice, int piece) const;
  double host_height(int host) const;
  void change(int choice, int piece, int place, int sign);

  PlacementState& state_;
  const PlacementItems& items_;
  bool is_split_;               // are ranks compared barrier by barrier?
  std::vector<double> height_;  // [ranks]
  Heap ranks_, hosts_;
  std::vector<std::pair<double, int>> passed_;
};

}  // namespace plimsoll::balance
