// What deals of two ranks leave above a target: room gathered on one rank, and other choices of a
// unit. A part of exchanges (placement_exchange.h).
//
// Where two or three pieces fill a rank, the room that is left is in shares that hold no piece.
//   relieve   every rank above tau gives one piece away: to a rank that deals with others, drawn at
//             random, until it has room for it; or its unit takes another choice, as finer pieces,
//             as a block on the host of most room, or uniform. The ways that add least to the mean
//             load come first.
//   refine    where room is left over, a unit takes finer pieces where it stands, for the deals
//             that follow.
//   cheapen   units that are uniform take pieces of less work on gathered room, small ones first.
// Memory is hard. Cost. Gathering ends after 2 * ranks deals that bring nothing.
#pragma once

#include <cstdint>
#include <vector>

#include "balance/moves/rank_dealing.h"
#include "core/random.h"

namespace plimsoll::balance {

class RankRelief {
 public:
  // All outlive it. `end`: of the clock's effort.
  RankRelief(PlacementState& state, RankDealing& dealing, SplitMix64& random,
             const EffortClock& clock, std::int64_t end)
      : items_(state.items()),
        state_(state),
        dealing_(dealing),
        random_(random),
        clock_(clock),
        end_(end) {}

  void relieve(const std::vector<int>& ranks);  // by rising load
  void refine();
  void cheapen();

 private:
  // A choice that a unit may take, and what it adds to the load of all ranks together.
  struct Way {
    double work = 0;
    int unit = -1, choice = -1;
  };
  bool is_done() const { return clock_.is_stopped() || clock_.effort() >= end_; }
  const PlacementItems::Choice& choice_of(int unit) const {
    return items_.choices[state_.choice(unit)];
  }
  double added_work(int unit, int choice) const;
  void find_ways(int rank);
  Way find_finer(int rank, double most_work) const;
  bool take(int unit, int choice, int rank);
  bool take_block(int unit, int choice, int rank);
  bool take_pieces(int unit, int choice, int rank);
  bool put_all(int unit, int choice, int rank);
  bool is_taken(int rank) const;
  int gather(double need);

  const PlacementItems& items_;
  PlacementState& state_;
  RankDealing& dealing_;
  SplitMix64& random_;
  const EffortClock& clock_;
  const std::int64_t end_;
  std::vector<Way> ways_;
  std::vector<int> taken_;   // ranks that gathering leaves alone
  std::vector<int> places_;  // of the pieces of a unit
};

}  // namespace plimsoll::balance
