// Units as a depth-first search (placement_dive.h) sees them: choices in whole numbers, in order.
//
// Loads are rounded down from 2^-40 of the target. Units with uniform choices alone come first,
// then units by decreasing least work; a unit's steps by rising work. Steps that fit no rank beside
// what must be uniform are left out.
#pragma once

#include <cstdint>
#include <vector>

#include "balance/moves/placement_dive.h"

namespace plimsoll::balance {

class DiveSteps {
 public:
  static constexpr std::int64_t kScale = std::int64_t{1} << 40;  // the target
  static constexpr std::int64_t kNever = std::int64_t{1} << 61;

  // A choice in whole numbers.
  struct Step {
    int choice = 0;  // into PlacementItems::choices
    Spread spread = Spread::kDevice;
    int num_pieces = 0;
    std::int64_t peak = 0;  // largest piece
    std::int64_t work = 0;  // added to all ranks together
  };

  DiveSteps(const PlacementItems& items, const DiveOptions& options);

  std::size_t size() const { return order_.size(); }
  int unit(std::size_t depth) const { return order_[depth]; }
  const std::vector<Step>& steps(std::size_t depth) const { return steps_[order_[depth]]; }
  // Does this unit, or one after it, have a block to place?
  bool has_host_from(std::size_t depth) const { return has_host_from_[depth]; }
  // Is the unit equal to the one before, so that it need not take an earlier step?
  bool is_like_previous(std::size_t depth) const { return is_like_previous_[depth]; }
  // The least work of this unit and all after it whose pieces fit the room; kNever: one fits not.
  std::int64_t least_work(std::size_t depth, std::int64_t room) const;

  std::int64_t piece_load(const Step& step, int piece) const;
  const TierBytes& piece_bytes(const Step& step, int piece) const;

 private:
  void make_steps();
  void cascade();
  void make_order();
  void find_least_work();
  bool are_equal(int a, int b) const;

  const PlacementItems& items_;
  bool relaxes_memory_;
  std::vector<std::int64_t> load_;               // [records]
  std::vector<std::vector<Step>> steps_;         // [num_units]
  std::vector<int> order_;                       // units
  std::vector<bool> has_host_from_;              // [depth + 1]
  std::vector<bool> is_like_previous_;           // [depth]
  std::vector<std::int64_t> sizes_;              // ascending, of all steps' peaks
  std::vector<std::vector<std::int64_t>> rest_;  // [depth + 1][sizes]
};

}  // namespace plimsoll::balance
