// The most valuable content of a host or rank at given prices of units: the pricing problem of
// pattern bounds and dives.
//
// Problem. A unit of class t is worth pi_t; a piece or block of a choice with n of them gives pi_t
// / n less what its bytes cost. Find the content of a bin that is worth most, where no rank of it
// carries more than `room`: a block loads every rank of its host, a piece one rank.
// Method. One knapsack table K for ranks, one B for blocks, over cells of room / cells; a host with
// block load b is worth B(b) + sum over its ranks of K(room - b), the best b is a scan. A host
// whose ranks differ in block load is worth no more than with all at the least one.
// Sizes rounded down give bounds: whatever fits the room fits the cells. Items of less than a
// `kPourShare` of the room are poured then, by the best value per load.
// Cost. O(items x cells). Source:
// docs/mathematics/balanced-sharding.md#contents-of-hosts-and-ranks.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "balance/patterns/pattern_model.h"
#include "math/bounded_knapsack.h"

namespace plimsoll::balance {

struct PatternCount {
  int item = 0;      // into PatternModel::items
  double count = 0;  // whole unless poured
  bool operator==(const PatternCount&) const = default;
};

// What one bin holds.
struct Pattern {
  int bin = 0;
  std::vector<PatternCount> blocks;
  std::vector<std::vector<PatternCount>> ranks;  // [tables of the bin] of every such rank
  bool operator==(const Pattern&) const = default;
};

// How many units of each class are uniform, and how much blocks load the ranks of a host: of bins
// that are a host each, in their order.
struct RoomLimits {
  std::vector<double> lo;            // [classes]; empty: 0
  std::vector<double> hi;            // [classes]; empty: all
  std::vector<double> least_blocks;  // [bins] ms; empty: 0
  std::vector<double> most_blocks;   // [bins] ms; empty: any
  bool operator==(const RoomLimits&) const = default;
};

class PatternPricing {
 public:
  static constexpr double kPourShare = 1.0 / 512;

  // room > 0, cells >= 1. Both references must outlive it.
  PatternPricing(const PlacementGroups& groups, const PatternModel& model, double room, int cells);

  // Fills the tables. pi: [classes]; price: [accounts] ms a byte.
  void price(const std::vector<double>& pi, const std::vector<double>& price);

  // Of the last price().
  double value(int bin) const;
  Pattern best_pattern(int bin);
  // Worth of a host when its blocks take `cells`.
  double value_at(int bin, int block_cells) const;

  // Another room; the tables are those of the last price() until the next. With limits of blocks
  // a bin's blocks load its ranks that much.
  void set_room(double room, const RoomLimits& limits);
  double room() const { return room_; }
  int cells() const { return cells_; }
  // Cells of one item on a table or, of blocks, on a kind of hosts; cells() + 1 where it cannot
  // stand.
  int size_of(int item, int place) const;
  bool fits(const Pattern& pattern) const;

 private:
  struct Poured {
    int item = -1;
    double per_cell = 0;  // copies
  };
  void build(bool is_block, int place, const std::vector<double>& pi,
             const std::vector<double>& price);
  static std::vector<PatternCount> filling(math::KnapsackTable& table, const Poured& poured,
                                           int cells);
  int best_block_cells(int bin) const;
  int rank_cells(int bin, int block_cells) const {
    return cells_ - std::max(block_cells, least_cells_[bin]);
  }

  const PlacementGroups& groups_;
  const PatternModel& model_;
  double room_;
  int cells_;
  std::vector<math::KnapsackTable> rank_tables_, block_tables_;
  std::vector<Poured> poured_ranks_, poured_blocks_;
  std::vector<int> least_cells_, most_cells_;  // [bins] of blocks
};

}  // namespace plimsoll::balance
