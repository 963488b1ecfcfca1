#include "balance/moves/placement_backtracking.h"

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

#include "balance/problem/placement_state.h"
#include "core/check.h"

namespace plimsoll::balance {
namespace {

constexpr std::size_t kMaxSlots = 4096;  // each a level of recursion
constexpr int kRanksANode = 8;           // looked at in the time of a node

class Backtracking {
 public:
  Backtracking(const PlacementItems& items, std::int64_t max_nodes, EffortClock& clock)
      : items_(items), max_nodes_(max_nodes), clock_(clock), state_(items) {
    order_.resize(static_cast<std::size_t>(items.num_units));
    std::iota(order_.begin(), order_.end(), 0);
    std::vector<std::pair<int, double>> key(order_.size());  // few ways first, then large shares
    for (const int unit : order_) {
      key[unit] = {items.num_choices(unit) * num_places(unit), -least_share(unit)};
    }
    std::stable_sort(order_.begin(), order_.end(), [&](int a, int b) { return key[a] < key[b]; });
  }

  std::optional<UnitPlacements> run() {
    if (!place_unit(0)) return std::nullopt;
    return state_.placements();
  }

 private:
  // Ranks that the unit may use, one less for every unit that must stand apart from it.
  int num_places(int unit) const {
    const PlacementProblem& problem = *items_.problem;
    const std::vector<int>& allowed = problem.units[unit].allowed_ranks;
    auto places = allowed.empty() ? items_.num_ranks : static_cast<int>(allowed.size());
    for (const std::vector<int>& set : problem.apart) {
      if (std::binary_search(set.begin(), set.end(), unit)) {
        places -= static_cast<int>(set.size()) - 1;
      }
    }
    return std::max(places, 1);
  }

  bool is_apart(int unit) const {
    const auto& apart = items_.problem->apart;
    return std::any_of(apart.begin(), apart.end(), [unit](const std::vector<int>& set) {
      return set.size() > 1 && std::binary_search(set.begin(), set.end(), unit);
    });
  }

  // Of all caps, what the choice takes that takes least.
  double least_share(int unit) const {
    double least = 1;
    for (int c = items_.first_choice[unit]; c < items_.first_choice[unit + 1]; ++c) {
      double share = 0;
      for (const int resource : items_.resources) {
        double cap = 1;
        for (const Amounts& caps : items_.problem->caps) cap += static_cast<double>(caps[resource]);
        share = std::max(share, static_cast<double>(items_.choices[c].bytes[resource]) / cap);
      }
      least = std::min(least, share);
    }
    return least;
  }

  void spend(std::int64_t nodes) {
    num_nodes_ += nodes;
    clock_.spend(nodes);
  }

  bool is_done() const { return num_nodes_ >= max_nodes_ || clock_.is_stopped(); }

  bool place_unit(std::size_t at) {
    if (at == order_.size()) return true;
    const int unit = order_[at];
    for (int c = items_.first_choice[unit]; c < items_.first_choice[unit + 1] && !is_done(); ++c) {
      const bool is_uniform = items_.choices[c].spread == Spread::kUniform;
      if (is_uniform) spend(1 + items_.num_ranks / kRanksANode);
      if (is_uniform && (is_apart(unit) || !state_.can_take(c))) continue;
      state_.take(unit, c);
      if (place_piece(at, c, 0)) return true;
      state_.remove(unit);
    }
    return false;
  }

  bool place_piece(std::size_t at, int c, int piece) {
    const PlacementItems::Choice& choice = items_.choices[c];
    if (choice.spread == Spread::kUniform || piece == choice.num_pieces) return place_unit(at + 1);
    const int unit = order_[at];
    const bool is_host = choice.spread == Spread::kHost;
    std::vector<std::pair<double, int>> places;  // by load
    for (int place = 0; place < (is_host ? items_.num_hosts : items_.num_ranks); ++place) {
      places.emplace_back(state_.total_load(is_host ? place * items_.width : place), place);
    }
    std::sort(places.begin(), places.end());
    spend(static_cast<std::int64_t>(places.size()) / kRanksANode);
    for (const auto& [load, place] : places) {
      if (is_done()) return false;
      spend(1);
      if (!state_.can_put(unit, c, piece, place)) continue;
      state_.put(unit, piece, place);
      if (place_piece(at, c, piece + 1)) return true;
      take_back(unit, c, piece);
    }
    return false;
  }

  // Leaves the pieces in front of `piece`.
  void take_back(int unit, int c, int piece) {
    std::vector<int> kept;
    for (int p = 0; p < piece; ++p) kept.push_back(state_.place(items_.first_slot[unit] + p));
    state_.remove(unit);
    state_.take(unit, c);
    for (int p = 0; p < piece; ++p) state_.put(unit, p, kept[p]);
  }

  const PlacementItems& items_;
  std::int64_t max_nodes_;
  EffortClock& clock_;
  PlacementState state_;
  std::vector<int> order_;
  std::int64_t num_nodes_ = 0;
};

}  // namespace

std::optional<UnitPlacements> find_by_backtracking(const PlacementItems& items,
                                                   std::int64_t max_nodes, EffortClock& clock) {
  PLIMSOLL_CHECK(max_nodes >= 0, "the limit of nodes is not negative");
  PLIMSOLL_CHECK(items.empty_units.empty(), "every unit has a choice");
  if (items.unit_of_slot.size() > kMaxSlots) return std::nullopt;
  return Backtracking(items, max_nodes, clock).run();
}

}  // namespace plimsoll::balance
