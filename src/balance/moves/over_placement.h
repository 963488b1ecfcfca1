// A placement that may overdraw every cap, and the energy that says by how much: what replicas of
// replica_exchange.h change.
//
// A rank uses its load and the bytes of every resource in use ("resources", the load first); of
// each it has a cap, of the load the target. Bytes are whole numbers below 2^53, so that sums of
// doubles tell exactly whether a cap is kept; sums of loads drift by 1e-16 a change, and `refresh`
// forms them afresh.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "balance/problem/placement_items.h"

namespace plimsoll::balance {

class OverPlacement {
 public:
  OverPlacement(const PlacementItems& items, const PerResource<double>& byte_price);

  // The target, ms > 0; what is placed stays.
  void aim(double target);
  void refresh();

  int choice(int unit) const { return choice_[unit]; }  // -1: not placed
  int place(int slot) const { return place_[slot]; }
  const std::vector<int>& slots_on_rank(int rank) const { return on_rank_[rank]; }
  const std::vector<int>& slots_on_host(int host) const { return on_host_[host]; }

  void take(int unit, int choice);  // uniform choices are whole at once
  void put(int unit, int piece, int place);
  void remove(int unit);
  void move(int slot, int place);

  // By how much the energy would grow; of equals what stays emptiest is a little less.
  double growth(int choice, int piece, int place) const;

  // The same of a piece or block that moves, and of two that change places (all of it, without
  // ties).
  double growth_of_move(int slot, int place) const;
  double growth_of_swap(int slot_a, int slot_b) const;

  double energy() const { return over_ + kappa_ * priced_; }
  double over(int rank) const { return term_[rank]; }
  bool is_within_caps() const { return num_overdrawn_ == 0; }  // of all resources
  double slowest() const;
  std::int64_t num_updates() const { return num_updates_; }  // of a rank's term, until now
  double priced(int choice) const { return cost_[choice]; }  // mean load and priced bytes
  UnitPlacements placements() const;                         // every unit must be placed
  const PlacementItems& items() const { return *items_; }

 private:
  static double square_of(double over) { return over * (1 + kSteepness * over); }
  static constexpr double kSteepness = 10;
  static constexpr double kKappa = .2;

  std::size_t at(int rank) const { return static_cast<std::size_t>(rank) * width_; }
  const double* record(const PlacementItems::Choice& choice, int piece) const {
    return need_.data() +
           static_cast<std::size_t>(PlacementItems::record_of(choice, piece)) * width_;
  }
  bool is_block(int unit) const { return items_->choices[choice_[unit]].spread == Spread::kHost; }
  const double* need_of(int slot) const;
  // The term of the rank with `more` and without `less`, either of which may be null.
  double term_with(int rank, const double* more, const double* less) const;
  struct Ranks {
    int first = 0, end = 0;
  };
  Ranks ranks_of(const PlacementItems::Choice& choice, int place) const;
  // What is used, without the energy.
  void use(const PlacementItems::Choice& choice, int piece, int place, double sign);
  void use_everywhere(const PlacementItems::Choice& choice, double sign);
  void add(const PlacementItems::Choice& choice, int piece, int place, double sign);
  void add_everywhere(const PlacementItems::Choice& choice, double sign);
  void update(int rank);
  void link(int slot, int place);
  void unlink(int slot);

  const PlacementItems* items_;
  std::size_t width_;            // resources
  std::vector<double> need_;     // [records * resources]
  std::vector<double> cost_;     // [choices]
  std::vector<double> cap_;      // [ranks * resources]
  std::vector<double> inverse_;  // of cap_
  std::vector<double> use_;      // [ranks * resources], without what is uniform
  std::vector<double> uniform_;  // [resources]
  std::vector<double> term_;     // [ranks]
  std::vector<char> is_overdrawn_;
  std::vector<int> choice_, place_, position_;
  std::vector<std::vector<int>> on_rank_, on_host_;
  int num_overdrawn_ = 0;
  double over_ = 0, priced_ = 0, kappa_ = 0;
  std::int64_t num_updates_ = 0;
};

}  // namespace plimsoll::balance
