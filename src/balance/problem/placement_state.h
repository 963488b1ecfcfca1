// A placement that searches change piece by piece.
//
// Loads and bytes per rank, with what uniform choices add to every rank kept apart as scalars, so
// that taking or leaving a uniform choice is O(1) and so is moving a piece; a block costs O(ranks
// of a host). Slots (PlacementItems::first_slot) name pieces and blocks: slot s of a unit is its
// s-th piece. Sums drift by 1e-16 a change; `assign` forms them afresh. Caps on times may be soft:
// then they do not say what may stand where, and a search asks for the overdraft instead. Where
// moves have costs, the bytes moved are kept up to date, too.
#pragma once

#include <vector>

#include "balance/problem/move_costs.h"
#include "balance/problem/placement_items.h"

namespace plimsoll::balance {

class PlacementState {
 public:
  // `moves` may be null; not owned.
  explicit PlacementState(const PlacementItems& items, bool has_soft_times = false,
                          const MoveCosts* moves = nullptr);

  void clear();
  void assign(const UnitPlacements& placements);  // choices as in the problem
  UnitPlacements placements() const;              // as above; every unit must be placed

  // Index into PlacementItems::choices, -1 while the unit is not placed.
  int choice(int unit) const { return choice_[unit]; }
  int place(int slot) const { return place_[slot]; }  // rank or host of a slot in use
  const std::vector<int>& slots_on_rank(int rank) const { return on_rank_[rank]; }
  const std::vector<int>& slots_on_host(int host) const { return on_host_[host]; }

  // Takes a choice; its pieces are put one by one, from piece 0. Uniform choices are whole at once.
  void take(int unit, int choice);
  void put(int unit, int piece, int place);
  void remove(int unit);  // with all pieces put so far
  void move(int slot, int place);

  // Would piece `piece` of the choice fit there, and may it stand there? For `take` of a uniform
  // choice: can_take.
  bool can_put(int unit, int choice, int piece, int place) const;
  bool can_take(int choice) const;
  // Does the rank hold another piece of the unit than this one?
  bool holds_other(int unit, int piece, int rank) const;
  // Is what the rank's pools hold within their caps?
  bool is_within_caps(int rank) const;

  // Of the t-th resource of PlacementItems::resources: what a rank, or its pool, has left, and
  // whether two ranks share it.
  Bytes free_bytes(std::size_t t, int rank) const {
    const Pools& pools = pools_[t];
    const int pool = pools.of_rank[rank];
    return pools.cap[pool] - pools.used[pool] -
           pools.num_ranks[pool] * uniform_bytes_[items_->resources[t]];
  }
  bool is_one_pool(std::size_t t, int a, int b) const {
    return pools_[t].of_rank[a] == pools_[t].of_rank[b];
  }

  double load(int rank, int barrier) const {
    return load_[rank * num_barriers_ + barrier] +
           uniform_[class_of_[rank] * num_barriers_ + barrier];
  }
  double total_load(int rank) const {
    double sum = 0;
    for (int g = 0; g < num_barriers_; ++g) sum += load(rank, g);
    return sum;
  }
  double uniform_load() const { return uniform_work_; }  // of all uniform choices, mean over ranks
  double mean_load() const { return work_; }             // of everything, mean over ranks
  double slowest(int barrier) const;                     // the largest load
  double slowest() const;                                // sum of that over barriers
  // What the rank's pools hold of soft resources beyond their caps, as shares of these, added up;
  // 0 where all fits, or nothing is soft.
  double overdraft(int rank) const;
  bool has_soft_times() const { return has_soft_times_; }
  Bytes moved() const { return moved_; }  // by all that is placed; 0 without costs of moves
  const MoveCosts* moves() const { return moves_; }
  const PlacementItems& items() const { return *items_; }
  int num_barriers() const { return num_barriers_; }

 private:
  void add(const PlacementItems::Choice& choice, int piece, int place, int sign);
  void count_moved(int unit, const PlacementItems::Choice& choice, int piece, int place, int sign);
  bool fits(int record, int rank, const Amounts& extra) const;
  bool is_apart_from_all(int unit, int first_rank, int num_ranks) const;
  void link(int slot, int place);
  void unlink(int slot);

  const PlacementItems* items_;
  const MoveCosts* moves_;
  Bytes moved_ = 0;
  int num_barriers_;
  std::vector<int> class_of_;    // [num_ranks]
  std::vector<double> load_;     // [num_ranks * num_barriers] without uniform loads
  std::vector<double> uniform_;  // [num_classes * num_barriers]
  double uniform_work_ = 0, work_ = 0;
  std::vector<int> choice_;            // [num_units]
  std::vector<int> place_, position_;  // [slots]; position in on_rank_ or on_host_, -1 if free
  std::vector<std::vector<int>> on_rank_, on_host_;
  Amounts uniform_bytes_{};  // on every rank
  struct Pools {
    std::vector<int> of_rank;            // [num_ranks]
    std::vector<Bytes> cap, used;        // [pools]; used without uniform bytes
    std::vector<int> num_ranks;          // [pools]
    Bytes least_cap = 0, most_used = 0;  // no pool has used more since the last clear
    int most_ranks = 1;
    bool is_soft = false;
  };
  std::vector<Pools> pools_;               // by PlacementItems::resources
  bool has_soft_times_ = false;            // is any of them soft?
  std::vector<std::vector<int>> sets_of_;  // [num_units] of PlacementProblem::apart
};

}  // namespace plimsoll::balance
