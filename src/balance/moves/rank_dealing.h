// Deals the pieces of two ranks again, exactly where they are few: a part of exchanges
// (placement_exchange.h) and shakes (placement_shake.h).
//
// Against a target tau the two ranks are to exceed it least, and then to be as unequal as they can:
// room is of use where it is together. With up to kMaxDealt pieces all subsets are tried, each from
// the one before by one piece (Gray's code); with more, up to three pieces change sides, or two.
// Memory is hard. Only for problems that is_exchangeable allows.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <utility>
#include <vector>

#include "balance/problem/placement_state.h"
#include "core/effort_clock.h"

namespace plimsoll::balance {

class RankDealing {
 public:
  // Both outlive it.
  RankDealing(PlacementState& state, EffortClock& clock)
      : items_(state.items()), state_(state), clock_(clock) {}

  void aim(double tau) { tau_ = tau; }
  double tau() const { return tau_; }
  double load(int rank) const { return state_.load(rank, 0); }
  double over(int rank) const { return over(load(rank)); }
  double room(int rank) const { return tau_ - load(rank); }
  double total_over() const;
  double load_of(int slot) const { return items_.load[record_of(slot)]; }  // of a piece that stands

  // The pieces of both where that is better than now; is it?
  bool deal(int a, int b);

 private:
  // How two ranks stand after a deal: less over tau is better, then less even.
  struct Deal {
    double over = 0;
    double difference = 0;
  };
  double over(double load) const { return std::max(0.0, load - tau_); }
  Deal value(double a, double b) const;
  bool is_better(const Deal& deal, const Deal& than) const;
  std::int64_t work_of_deal();
  void find_pieces(int a, int b);
  void find_twins();
  bool parts_twins() const;
  void find_different();
  std::size_t record_of(int slot) const;
  void try_subsets(int a, int b);
  void try_changes(int a, int b);
  void try_change(int a, int b, double more, std::initializer_list<std::size_t> changed);
  void keep(const Deal& deal, int a, int b);
  bool has_room(int a, int b) const;

  const PlacementItems& items_;
  PlacementState& state_;
  EffortClock& clock_;
  double tau_ = 0;
  std::int64_t work_ = 0;  // not yet spent
  // Of the two ranks at hand: pieces, those of the first one first.
  std::vector<int> slots_;
  std::vector<double> loads_;
  std::vector<char> is_on_a_;
  std::size_t num_on_a_ = 0;
  std::vector<std::size_t> different_;  // of pieces that may change sides
  // One on each rank, of a unit that wants distinct ranks.
  std::vector<std::pair<std::size_t, std::size_t>> twins_;
  Deal best_;
  std::vector<std::pair<int, int>> wanted_;  // slot, rank
};

}  // namespace plimsoll::balance
