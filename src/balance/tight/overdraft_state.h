// A placement that may overdraw every cap, by resource and then by rank, so that what a piece would
// overdraw is known of all ranks at once: what the walks of tabu_walk.h change.
//
// A rank uses its load and the bytes of every resource in use (resources, the load first); of the
// load the target is the cap. With o = max(0, use / cap - 1) a rank's term is the sum of o + 10 o^2
// over the resources, and the energy is the sum of all terms. Bytes are whole numbers below 2^53,
// so that sums of doubles tell exactly whether a cap is kept; sums of loads drift by 1e-16 a
// change, and `refresh` forms them afresh.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "balance/problem/placement_items.h"

namespace plimsoll::balance {

class OverdraftState {
 public:
  explicit OverdraftState(const PlacementItems& items);

  // Of whole units: where each stands.
  struct Standing {
    std::vector<int> choice;  // [units], -1: not placed
    std::vector<int> place;   // [slots]
  };

  void aim(double target);  // ms > 0; what is placed stays
  void refresh();
  void clear();
  void assign(const Standing& standing);
  Standing standing() const { return {choice_, place_}; }

  int choice(int unit) const { return choice_[unit]; }
  int place(int slot) const { return place_[slot]; }
  const std::vector<int>& slots_on_rank(int rank) const { return on_rank_[rank]; }
  const std::vector<int>& slots_on_host(int host) const { return on_host_[host]; }

  void take(int unit, int choice);  // uniform choices are whole at once
  void put(int unit, int piece, int place);
  void remove(int unit);
  void swap(int slot_a, int slot_b);  // two pieces, or two blocks

  double energy() const { return energy_; }
  double term(int rank) const { return term_[rank]; }
  bool is_reached() const { return num_over_ == 0; }            // within all caps and the target
  bool is_within_caps() const { return num_over_bytes_ == 0; }  // of all resources
  double slowest() const;

  // By how much the energy would grow: of a piece at each of the ranks, or a block at each of the
  // hosts, valid until the next call; of a uniform choice; of two that change places.
  const std::vector<double>& growth(int choice, int piece);
  double growth_everywhere(int choice);
  double growth_of_swap(int slot_a, int slot_b);
  // The largest share of a cap that is used with the piece, 0 being all of it.
  double fullest(int choice, int piece, int rank) const;
  // Share of the largest cap of any rank, the largest of all resources.
  double size(int choice, int piece) const;

  std::int64_t num_looks() const { return num_looks_; }  // at ranks, until now
  UnitPlacements placements() const;                     // every unit must be placed
  const PlacementItems& items() const { return *items_; }

 private:
  struct Ranks {
    int first = 0, end = 0;
  };
  static double square_of(double over) { return over * (1 + kSteepness * over); }
  static constexpr double kSteepness = 10;

  std::size_t at(int resource, int rank) const {
    return static_cast<std::size_t>(resource) * num_ranks_ + static_cast<std::size_t>(rank);
  }
  const double* need(int choice, int piece) const {
    const int record = PlacementItems::record_of(items_->choices[choice], piece);
    return need_.data() + static_cast<std::size_t>(record) * static_cast<std::size_t>(width_);
  }
  const double* need_of(int slot) const;
  bool is_block(int slot) const;
  Ranks ranks_of(int choice, int place) const;
  void add(int choice, int piece, Ranks ranks, double sign);
  void update(Ranks ranks);
  double term_with(int rank, const double* more, const double* less) const;
  void link(int slot, int place);
  void unlink(int slot);

  const PlacementItems* items_;
  int width_;  // resources
  std::size_t num_ranks_;
  std::vector<double> need_;     // [records * resources]
  std::vector<double> inverse_;  // [resources * ranks] of caps
  std::vector<double> cap_;      // [resources * ranks]
  std::vector<double> largest_;  // [resources] cap of any rank
  std::vector<double> over_;     // [resources * ranks] use - cap
  std::vector<double> term_;     // [ranks]
  std::vector<char> is_over_, is_over_bytes_;
  int num_over_ = 0, num_over_bytes_ = 0;
  double energy_ = 0;
  std::vector<int> choice_, place_, position_;
  std::vector<std::vector<int>> on_rank_, on_host_;
  std::vector<double> growth_, growth_of_host_;
  std::int64_t num_looks_ = 0;
};

}  // namespace plimsoll::balance
