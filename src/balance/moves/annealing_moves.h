// The moves of annealing (placement_annealing.h): a state, its energy, and proposals that keep the
// state where they are turned down.
#pragma once

#include <cstdint>
#include <vector>

#include "balance/moves/annealing_energy.h"
#include "balance/problem/placement_state.h"
#include "core/random.h"

namespace plimsoll::balance {

class AnnealingMoves {
 public:
  // `moves` may be null; with them no move is made that leaves more than `max_moved` bytes moved.
  AnnealingMoves(const PlacementItems& items, std::uint64_t seed, bool has_soft_times,
                 const MoveCosts* moves = nullptr, Bytes max_moved = 0);

  PlacementState& state() { return state_; }
  AnnealingEnergy& energy() { return energy_; }
  // One move, drawn; was it made? More energy is accepted with the chance of the temperature > 0.
  bool propose(double temperature);

 private:
  // One unit's place before a change.
  struct Before {
    int unit = -1, choice = -1;
    std::vector<int> places;
  };
  bool is_accepted(double before, double temperature);
  int draw_rank(bool wants_loaded);
  int draw_slot(const std::vector<int>& slots);
  bool can_move(int slot, int place) const;
  bool wants_rank(int slot) const;
  bool shares_rank(int slot, int rank) const;
  bool relocate(double temperature);
  bool swap(double temperature);
  bool can_swap(int slot_a, int a, int slot_b, int b);
  double load_of(int slot, int rank) const;
  bool trade(double temperature);
  bool move_block(double temperature);
  void touch(int unit);
  Before lift(int unit);
  void restore(const Before& before);
  bool insert(int unit, int c);
  int light_rank(int unit, int c, int piece);
  int light_host(int unit, int c, int piece);
  bool change(double temperature);
  bool go_home(double temperature);
  bool is_home(int unit) const;

  const PlacementItems& items_;
  PlacementState state_;
  AnnealingEnergy energy_;
  SplitMix64 random_;
  Bytes max_moved_ = 0;
  bool may_trade_ = false;
  std::vector<int> changeable_, all_ranks_, touched_, traded_;
  std::vector<Before> lifted_;
  std::vector<std::int64_t> mark_;  // [ranks] change that touched it last
  std::int64_t mark_now_ = 0;
  bool touches_all_ = false;
};

}  // namespace plimsoll::balance
