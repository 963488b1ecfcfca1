// Mending what overdraws a cap or the target: a walk from one placement to the next, each time by
// the best of many changes that concern one overdrawn rank, whether better or not.
//
// A step draws a rank in proportion to its term (overdraft_state.h). Of every unit that has a piece
// there, and of some uniform ones, all open choices are tried, each piece where the energy grows
// least; of the rank's pieces and its host's blocks, swaps with those of other ranks and hosts; of
// two units on the rank, or one there and one on a few other ranks, all their choices, so that
// memory of one resource is traded for that of another. The change of least energy is made. Units
// that were changed rest for a few steps, unless that leads to less energy than ever before [1]: so
// the walk leaves where it stands.
// Cost. About (units of the rank) x (choices) x (ranks) looks at a rank a step.
// Promises. A function of the state, its target, the options and the generator.
// [1] F. Glover, "Tabu search, part I", ORSA Journal on Computing 1(3), 1989,
//     https://doi.org/10.1287/ijoc.1.3.190.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "balance/tight/overdraft_state.h"
#include "core/random.h"

namespace plimsoll::balance {

class TabuWalk {
 public:
  // Both outlive it.
  TabuWalk(OverdraftState& state, SplitMix64& random);

  // A walk begins: choices whose largest piece alone is beyond a cap or is at least `target` are
  // closed, unless a unit has no other.
  void begin(double target);
  // Places what is not placed: a unit's choice, what is largest first.
  void place(const std::vector<int>& choices);
  // Other choices, drawn, for so many units, drawn.
  void kick(int num_units);
  // One change; precondition: some rank is overdrawn.
  void step();
  // Takes what stands on two hosts off, the first one of an overdrawn rank, and deals it again:
  // blocks by block_dealing.h, then pieces, what is largest first. Stays where energy is less.
  // Precondition: some rank is overdrawn.
  void deal_hosts();
  // How long a changed unit rests: from so many steps (at least 1) to twice as many.
  void set_rest(int steps) { shortest_rest_ = steps; }

 private:
  struct Change {
    double energy = 0;  // after it
    int unit = -1, choice = -1;
    int slot_a = -1, slot_b = -1;  // a swap where slot_a >= 0
    int choice_b = -1;             // an exchange where >= 0; `choice` is that of slot_a
  };

  std::vector<std::pair<double, int>> find_pieces(int host) const;
  int draw_rank();
  void find_units(int rank);
  void try_choices(int unit);
  void try_swaps(int rank);
  void try_swaps(const std::vector<int>& here, const std::vector<int>& there);
  void try_exchanges(int rank);
  void try_exchanges(const std::vector<int>& here, const std::vector<int>& there, bool are_one);
  void offer(const Change& change);
  double energy_with(int unit, int choice, const std::vector<int>& before);
  void lift(int unit, std::vector<int>& places);
  void restore(int unit, int choice, const std::vector<int>& places);
  int find_place(int choice, int piece, int but);
  void insert(int unit, int choice, int but);
  void make(const Change& change);
  void rest(int unit);
  bool is_resting(int unit) const { return rests_until_[unit] > num_steps_; }

  const PlacementItems& items_;
  OverdraftState& state_;
  SplitMix64& random_;
  std::vector<std::vector<int>> open_;                       // [units] choices
  std::vector<std::vector<int>> of_one_rank_, of_one_host_;  // [units] those of one piece or block
  std::vector<int> uniform_;  // units with a uniform choice and another
  std::vector<std::int64_t> rests_until_;
  std::int64_t num_steps_ = 0;
  int shortest_rest_ = 3;
  double least_ = 0;
  Change best_;
  std::vector<int> units_, places_;
};

}  // namespace plimsoll::balance
