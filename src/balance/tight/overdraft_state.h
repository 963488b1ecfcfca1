// A placement that may overdraw every cap, rank by rank: what the walks of tabu_walk.h change.
//
// A rank uses its load and the bytes of every resource in use (resources, the load first); of the
// load the target is the cap. With o = max(0, use / cap - 1) a rank's term is the sum of o + 10 o^2
// over the resources, and the energy is the sum of all terms and of what the choices taken cost
// (set_costs). Bytes are whole numbers below 2^53, so that sums of doubles tell exactly whether a
// cap is kept; sums of loads drift by 1e-16 a change, and `refresh` forms them afresh.
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
  // [choices] >= 0, from now on: what a unit adds to the energy that takes a choice. None at first.
  void set_costs(std::vector<double> costs);
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

  double energy() const { return overdraft_ + cost_; }
  double overdraft() const { return overdraft_; }  // the sum of all terms
  double term(int rank) const { return term_[rank]; }
  bool is_reached() const { return num_over_ == 0; }            // within all caps and the target
  bool is_within_caps() const { return num_over_bytes_ == 0; }  // of all resources
  double slowest() const;

  double cost(int choice) const { return costs_.empty() ? 0 : costs_[choice]; }

  std::size_t num_resources() const { return width_; }  // and the load
  // What a piece, or a block on each rank, needs: [num_resources].
  const double* need(int choice, int piece) const {
    return need_.data() + at(PlacementItems::record_of(items_->choices[choice], piece));
  }
  double over(int rank, std::size_t resource) const { return over_[at(rank) + resource]; }
  double inverse_cap(int rank, std::size_t resource) const { return inverse_[at(rank) + resource]; }
  // The term of what is used beyond a cap, as a share of it >= 0.
  template <class Shares>
  static Shares term_of(Shares over) {
    constexpr double kSteepness = 10;
    return over * (1 + kSteepness * over);
  }

  // By how much all terms would grow: of a piece at each of the ranks, or a block at each of the
  // hosts, valid until the next call; of a uniform choice; of two that change places.
  const std::vector<double>& growth(int choice, int piece);
  double growth_everywhere(int choice);
  double growth_of_swap(int slot_a, int slot_b);
  // Of two units of one piece each, or one block, that take other choices of the same kind and
  // change places, or stay where both stand on one rank. From `most` on it may be too small, but is
  // at least `most`.
  double growth_of_exchange(int slot_a, int choice_a, int slot_b, int choice_b, double most);
  void exchange(int slot_a, int choice_a, int slot_b, int choice_b);
  // The largest share of a cap that is used with the piece, 0 being all of it.
  double fullest(int choice, int piece, int rank) const;
  // Share of the largest cap of any rank, the largest of all resources.
  double size(int choice, int piece) const;

  std::int64_t num_looks() const { return num_looks_; }  // at ranks, until now
  void count_looks(std::int64_t more) { num_looks_ += more; }
  UnitPlacements placements() const;  // every unit must be placed
  const PlacementItems& items() const { return *items_; }

 private:
  struct Ranks {
    int first = 0, end = 0;
  };
  static constexpr std::size_t kLanes = 2;  // resources that are added at once

  // Of a rank or a record: its resources, and zeros up to a whole number of kLanes.
  std::size_t at(int index) const { return static_cast<std::size_t>(index) * stride_; }
  const double* need_of(int slot) const;
  bool is_block(int slot) const;
  Ranks ranks_of(int choice, int place) const;
  void add(int choice, int piece, Ranks ranks, double sign);
  void update(Ranks ranks);
  // Of a rank whose use changes by what `change_at` says from each resource on.
  template <class ChangeAt>
  double term_after(int rank, const ChangeAt& change_at) const;
  double term_with(int rank, const double* more, const double* less) const;
  double term_with(int rank, const double* more) const;
  void link(int slot, int place);
  void unlink(int slot);

  const PlacementItems* items_;
  std::size_t width_;   // resources
  std::size_t stride_;  // a multiple of kLanes
  std::size_t num_ranks_;
  std::vector<double> need_;     // [records * stride]
  std::vector<double> inverse_;  // [ranks * stride] of caps
  std::vector<double> cap_;      // [ranks * stride]
  std::vector<double> largest_;  // [resources] cap of any rank
  std::vector<double> over_;     // [ranks * stride] use - cap
  std::vector<double> term_;     // [ranks]
  std::vector<char> is_over_, is_over_bytes_;
  int num_over_ = 0, num_over_bytes_ = 0;
  double overdraft_ = 0, cost_ = 0;
  std::vector<double> costs_;
  std::vector<int> choice_, place_, position_;
  std::vector<std::vector<int>> on_rank_, on_host_;
  std::vector<double> growth_, growth_of_host_, change_;
  std::int64_t num_looks_ = 0;
};

}  // namespace plimsoll::balance
