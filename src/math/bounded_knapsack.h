// All best fillings of one bin at once: the value of a knapsack at every room up to its size.
//
// Problem. For every x of 0..room: the most value of items whose sizes add up to at most x, item i
// at most `copies` times. Sizes are whole cells. Besides, items so small that whole cells say
// little may be poured: any amount at `pour` value a cell.
// Method. Dynamic programming item by item: one pass where the copies cannot run out, else one for
// 1, 2, 4, ... copies at once. Items of size 0 are all taken. An item that is no smaller and worth
// no more than another one whose copies cannot run out is left out. Cost. O(items x room x log
// copies) time, and a byte of memory for each room and pass, which says where the pass took more.
// Monotone queues would save the logarithm, but these passes have no branches and are several times
// faster at 16,000 cells. Promises. Exact; ties leave later items out.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace plimsoll::math {

struct KnapsackItem {
  int size = 0;             // >= 0 cells
  double value = 0;         // not taken unless > 0
  std::int64_t copies = 0;  // >= 0
};

struct KnapsackCount {
  int item = 0;
  std::int64_t count = 0;
  bool operator==(const KnapsackCount&) const = default;
};

class KnapsackTable {
 public:
  KnapsackTable() = default;
  // room >= 0, pour >= 0.
  KnapsackTable(std::span<const KnapsackItem> items, int room, double pour = 0) {
    fill(items, room, pour);
  }
  // Again, in the same memory.
  void fill(std::span<const KnapsackItem> items, int room, double pour = 0);

  double value(int room) const { return best_[room]; }
  const std::vector<double>& values() const { return best_; }  // [room + 1], non-decreasing
  // A best filling without what is poured, items ascending.
  std::vector<KnapsackCount> filling(int room) const;
  // Cells of it that are poured full.
  int poured(int room) const { return poured_from_.empty() ? 0 : room - poured_from_[room]; }

 private:
  // `times` copies of an item at once, or, where they cannot run out, any number of it.
  struct Pass {
    int item = 0;
    int size = 0;  // of one copy
    int times = 1;
    bool lasts = false;
    double value = 0;  // of all `times`
  };
  void add_passes(int number, const KnapsackItem& item, bool lasts);
  void add_pass(const Pass& pass);

  std::vector<double> best_;
  std::vector<int> poured_from_;  // [room + 1] where pouring began; empty: nothing is poured
  std::vector<Pass> passes_;
  std::vector<unsigned char> is_taken_;  // [passes][room + 1]; more may be left over
  std::vector<KnapsackCount> free_;      // of size 0
};

}  // namespace plimsoll::math
