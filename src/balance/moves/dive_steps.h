// Units as a depth-first search (placement_dive.h) sees them: choices in whole numbers, in order.
//
// Loads are rounded down from 2^-40 of the target without the floor. Units with uniform choices
// alone come first, then units by falling least work; a unit's steps by rising work. Left out:
// steps that fit no rank beside what must be uniform, or that another step of equal spread and
// pieces beats in every load, resource and cause.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "balance/moves/placement_dive.h"

namespace plimsoll::balance {

class DiveSteps {
 public:
  static constexpr std::int64_t kScale = std::int64_t{1} << 40;  // the target
  static constexpr std::int64_t kNever = std::int64_t{1} << 61;
  static constexpr int kMaxBarriers = 8;
  using Loads = std::array<std::int64_t, kMaxBarriers>;

  struct Piece {
    std::vector<Loads> load;  // [rank classes]
    Amounts bytes{};
    bool operator==(const Piece&) const = default;
  };

  // A choice in whole numbers.
  struct Step {
    int choice = 0;  // into Unit::choices
    Spread spread = Spread::kDevice;
    int num_places = 0;         // device: pieces; host: blocks; uniform: 0
    std::vector<Piece> pieces;  // that differ
    std::vector<int> piece_of;  // of all pieces (host: of a block); empty: there is one only
    bool distinct_ranks = false;
    std::uint64_t causes = 0;
    // Of all barriers, each piece on the class that has least: the largest and the smallest piece.
    std::int64_t peak = 0;
    std::int64_t least = kNever;
    std::int64_t work = 0;    // added to all ranks and barriers together, at least
    Loads work_of{};          // of a barrier
    std::int64_t priced = 0;  // work and priced bytes

    const Piece& piece(int i) const {
      return piece_of.empty() ? pieces.front() : pieces[static_cast<std::size_t>(piece_of[i])];
    }
  };

  DiveSteps(const PlacementProblem& problem, const DiveOptions& options);

  std::size_t size() const { return order_.size(); }
  int unit(std::size_t depth) const { return order_[depth]; }
  const std::vector<Step>& steps(std::size_t depth) const { return steps_[order_[depth]]; }
  // Does this unit, or one after it, have a block to place?
  bool has_host_from(std::size_t depth) const { return has_host_from_[depth]; }
  // Is the unit equal to the one before, so that it need not take an earlier step?
  bool is_like_previous(std::size_t depth) const { return is_like_previous_[depth]; }
  // Of this unit and all after it: the least work of a barrier; of all, whose pieces fit the room
  // (kNever: one fits not); the least priced work.
  std::int64_t least_work_of(std::size_t depth, int barrier) const {
    return rest_of_[depth][barrier];
  }
  std::int64_t least_work(std::size_t depth, std::int64_t room) const;
  std::int64_t least_priced(std::size_t depth) const { return rest_priced_[depth]; }

  // Charges of causes, rounded down.
  std::int64_t charge(std::uint64_t causes) const;
  bool has_prices() const { return has_prices_; }
  // What the caps of all ranks are worth, rounded up.
  std::int64_t priced_caps() const { return priced_caps_; }

 private:
  std::int64_t scaled(double ms) const;
  std::int64_t priced(const Amounts& bytes, std::int64_t times) const;
  void price_caps();
  std::vector<Step> make_steps(const Unit& unit) const;
  Step make_step(const UnitChoice& choice) const;
  void cascade();
  void make_order();
  void find_least_work();
  bool are_equal(int a, int b) const;

  const PlacementProblem& problem_;
  const DiveOptions& options_;
  const double to_whole_;
  bool has_prices_ = false;
  std::int64_t priced_caps_ = 0;
  std::vector<std::int64_t> charge_;             // [causes]
  std::vector<std::vector<Step>> steps_;         // [units]
  std::vector<int> order_;                       // units
  std::vector<bool> has_host_from_;              // [depth + 1]
  std::vector<bool> is_like_previous_;           // [depth]
  std::vector<std::int64_t> sizes_;              // ascending, of all steps' peaks
  std::vector<std::vector<std::int64_t>> rest_;  // [depth + 1][sizes]
  std::vector<Loads> rest_of_;                   // [depth + 1]
  std::vector<std::int64_t> rest_priced_;        // [depth + 1]
};

}  // namespace plimsoll::balance
