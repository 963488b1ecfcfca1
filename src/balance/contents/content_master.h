// The linear program that a dive by contents asks for prices: how to fill the ranks or hosts that
// are empty with what is left, at the least uniform load.
//
// Rows: units left of every class; parts owed of every item (they have no other place to go); and
// for every room, that no more patterns need it than ranks have it. Columns: uniform steps, parts
// owed that others pay so that they count for units left, and patterns from knapsacks over cells,
// sizes rounded to the nearest: a pattern may miss the room by half a cell a part.
// Patterns are kept from one program to the next, the most recently used ones.
// Cost. 5 to 60 pricings, O(items x cells x log copies) each; a unit of effort is about 1,000
// cells. Sources: docs/mathematics/balanced-sharding.md#contents-of-hosts-and-ranks,
// docs/mathematics/balanced-sharding.md#dives-by-contents.
#pragma once

#include <vector>

#include "balance/contents/placement_contents.h"
#include "core/effort_clock.h"
#include "math/bounded_knapsack.h"
#include "math/small_simplex.h"

namespace plimsoll::balance {

// Of one rank, or of one host: blocks and what all of its ranks hold together.
struct Filling {
  std::vector<math::KnapsackCount> counts;  // items of the model, ascending
  int cells = 0;                            // of a rank; 0 of hosts
  bool operator==(const Filling&) const = default;
};

// Bins with equal room, in cells.
struct Bins {
  int cells = 0;
  int count = 0;
};

// Fillings found so far, those used last at the end. Those of hosts are of one room alone.
struct FillingPool {
  std::vector<Filling> ranks, hosts;
};

class ContentMaster {
 public:
  // room > 0, cells >= 1. `pool` outlives it; other rooms may have used it before.
  ContentMaster(const ContentModel& model, double room, int cells, FillingPool& pool,
                EffortClock& clock);

  // Of the units left and parts owed of `contents`, none of whose units is uniform. `bins`: rooms
  // ascending. With `hosts`, one bin of whole hosts.
  void solve(const Contents& contents, const std::vector<Bins>& bins, bool hosts);

  // Of the last solve().
  // Uniform load without what is forced, penalties for what is missed, and the price of bytes
  // beyond those that are free.
  double value() const { return value_; }
  double missed() const { return missed_; }
  struct Use {
    Filling filling;
    double amount = 0;
  };
  const std::vector<Use>& uses() const { return uses_; }

  // Tables at the last prices, each item's times its factor (empty: all 1), for what is left now.
  // A later one of pieces, or of blocks, takes its place.
  math::KnapsackTable& make_table(const Contents& contents, bool blocks,
                                  const std::vector<double>& factors);
  std::vector<math::KnapsackCount> to_items(const std::vector<math::KnapsackCount>& counts,
                                            bool blocks) const;

  int cells_of(double load) const;    // more than cells() where it does not fit
  int room_cells(double load) const;  // left beside a load
  int cells() const { return cells_; }
  double room() const { return room_; }

 private:
  struct Need {
    int class_index = -1;
    int item = -1;  // owed parts of it; -1: units
    double amount = 0;
  };
  struct Entry {
    int item = 0;
    int need = 0;
    double share = 1;
    std::int64_t copies = 0;
  };
  struct Program;
  struct Found {
    double worth = 0;
    int room = 0, blocks = 0;
  };
  void find_needs(const Contents& contents);
  void find_entries(const Contents& contents);
  double byte_cost(int item) const;
  math::KnapsackTable& price(bool blocks, const std::vector<double>& factors);
  std::vector<std::pair<int, double>> rows_of(const Filling& filling, int num_rooms,
                                              bool hosts) const;
  // The steps of solve().
  std::vector<math::SimplexRow> make_rows(const std::vector<Bins>& bins);
  void add_uniform(const Contents& contents, math::SmallSimplex& simplex) const;
  void add_overpaid(math::SmallSimplex& simplex) const;
  void add_pool(const Contents& contents, Program& program) const;
  void add_filling(std::size_t number, Program& program) const;
  bool add_fillings(Program& program);  // that are new; false: none
  std::vector<Found> find_fillings(const Program& program, const math::KnapsackTable& pieces);
  Filling make_filling(const Found& found, bool hosts, math::KnapsackTable& pieces);
  void take_answer(const Contents& contents, Program& program);
  bool is_open(const Contents& contents, const Filling& filling) const;
  int cells_of(const Filling& filling) const;
  int room_of(const Filling& filling) const;  // the first that fits; rooms_.size(): none

  const ContentModel& model_;
  double room_;
  int cells_;
  EffortClock& clock_;
  std::vector<int> size_;  // [items] cells
  std::vector<Need> needs_;
  std::vector<int> need_of_class_, need_of_owed_;  // [classes], [items]; -1: none
  std::vector<Entry> entries_[2];                  // pieces, blocks
  math::KnapsackTable tables_[2];                  // as above
  std::vector<double> prices_;                     // [needs]
  std::vector<int> rooms_;                         // cells, ascending
  FillingPool& pool_;
  std::vector<Use> uses_;
  double value_ = 0, missed_ = 0;
  double penalty_ = 0;
};

}  // namespace plimsoll::balance
