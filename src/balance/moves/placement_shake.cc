#include "balance/moves/placement_shake.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>
#include <vector>

#include "balance/moves/rank_dealing.h"
#include "balance/problem/placement_judge.h"
#include "balance/problem/placement_state.h"
#include "core/check.h"
#include "core/random.h"
#include "plimsoll/core/numbers.h"

namespace plimsoll::balance {
namespace {

using Choice = PlacementItems::Choice;

constexpr std::int64_t kEffort = 8;  // of a change, and of going back
constexpr double kMeanWeight = 0.1;  // of a rank's mean load beside what exceeds tau

class Shake {
 public:
  Shake(const PlacementItems& items, const Start& start, const ExchangeOptions& options,
        EffortClock& clock)
      : items_(items),
        options_(options),
        clock_(clock),
        state_(items),
        dealing_(state_, clock),
        random_(options.seed),
        best_(start),
        first_(start.placements),
        first_effort_(clock.effort()) {
    state_.assign(start.placements);
    constant_ = std::max(0.0, start.objective - state_.slowest());
    order_.resize(static_cast<std::size_t>(items.num_ranks));
    std::iota(order_.begin(), order_.end(), 0);
    find_open();
  }

  Start run() {
    // A better placement may leave no unit open.
    while (!open_units_.empty() && !is_done()) run_round();
    return std::move(best_);
  }

 private:
  bool is_done() const {
    return clock_.is_stopped() || clock_.effort() - first_effort_ >= options_.max_effort ||
           best_.objective <= options_.lower_bound * (1 + options_.tolerance);
  }

  // Of every unit the choices that may be part of a better placement, going by mean loads.
  void find_open() {
    std::vector<double> least;
    double sum = 0;
    for (int unit = 0; unit < items_.num_units; ++unit) {
      least.push_back(items_.choices[items_.first_choice[unit]].work);
      sum += least.back();
    }
    const double slack = best_.objective - constant_ - sum;
    open_.assign(least.size(), {});
    open_units_.clear();
    for (int unit = 0; unit < items_.num_units; ++unit) {
      for (int c = items_.first_choice[unit]; c < items_.first_choice[unit + 1]; ++c) {
        const Choice& choice = items_.choices[c];
        if (choice.work - least[unit] <= slack && choice.peak <= best_.objective - constant_) {
          open_[unit].push_back(c);
        }
      }
      if (open_[unit].size() > 1 || has_block(unit)) open_units_.push_back(unit);
    }
  }

  bool has_block(int unit) const {
    return items_.num_hosts > 1 && std::any_of(open_[unit].begin(), open_[unit].end(), [&](int c) {
             return items_.choices[c].spread == Spread::kHost;
           });
  }

  // Cooling; ends with a new incumbent or after so many shakes.
  void run_round() {
    constexpr int kShakes = 4000;
    constexpr double kHot = 1e-2, kCold = 1e-5;
    const double gap = best_.objective - options_.lower_bound;
    const double step = std::max(step_ * gap, 1e-7 * best_.objective);
    dealing_.aim(best_.objective - step - constant_);
    // Without a better placement: from the incumbent, on from there, from the start, on from there.
    if (num_failures_ % 2 == 0) kept_ = num_failures_ % 4 == 0 ? best_.placements : first_;
    state_.assign(kept_);
    double energy = energy_now();
    double temperature = kHot;
    const double cooling = std::pow(kCold / kHot, 1.0 / kShakes);
    for (int i = 0; i < kShakes && !is_done(); ++i, temperature *= cooling) {
      if (!change()) {
        state_.assign(kept_);
        continue;
      }
      mend();
      const double now = energy_now();
      if (dealing_.total_over() == 0 && store()) {
        step_ = std::min(0.3, 1.5 * step_);
        num_failures_ = 0;
        find_open();
        return;
      }
      if (now > energy && random_.unit() >= std::exp((energy - now) / temperature)) {
        state_.assign(kept_);
        continue;
      }
      energy = now;
      kept_ = state_.placements();
    }
    step_ = std::max(step_ / 2, 1e-3);
    ++num_failures_;
  }

  double energy_now() const {
    return (dealing_.total_over() + kMeanWeight * state_.mean_load()) / dealing_.tau();
  }

  bool store() {
    UnitPlacements placements = state_.placements();
    const PlacementValue value = evaluate(*items_.problem, placements);
    if (!value.is_allowed() || value.objective >= best_.objective) return false;
    best_ = {std::move(placements), value.objective};
    return true;
  }

  // False where a unit found no place.
  bool change() {
    clock_.spend(kEffort + items_.num_units / 4);
    PLIMSOLL_DCHECK(!open_units_.empty(), "there is a unit to change");
    const int num_changed = 1 + (random_.below(2) == 0 ? 0 : random_.below(3));
    for (int i = 0; i < num_changed; ++i) {
      const int unit = open_units_[random_.below(static_cast<int>(open_units_.size()))];
      const std::vector<int>& open = open_[unit];
      const int choice = open[random_.below(static_cast<int>(open.size()))];
      state_.remove(unit);
      if (!insert(unit, choice)) return false;
    }
    return true;
  }

  bool insert(int unit, int c) {
    const Choice& choice = items_.choices[c];
    if (choice.spread == Spread::kUniform) {
      if (!state_.can_take(c)) return false;
      state_.take(unit, c);
      return true;
    }
    state_.take(unit, c);
    for (int piece = 0; piece < choice.num_pieces; ++piece) {
      const int place = choose_place(unit, c, piece);
      if (place < 0) return false;
      state_.put(unit, piece, place);
    }
    return true;
  }

  // Ranks: the lightest. Hosts: any one, since which of them has the blocks is what shakes are for.
  int choose_place(int unit, int c, int piece) {
    if (items_.choices[c].spread == Spread::kHost) {
      const int host = random_.below(items_.num_hosts);
      return state_.can_put(unit, c, piece, host) ? host : -1;
    }
    int best = -1;
    double least = kInfinity;
    for (int rank = 0; rank < items_.num_ranks; ++rank) {
      const double load = dealing_.load(rank);
      if (load < least && state_.can_put(unit, c, piece, rank)) least = load, best = rank;
    }
    return best;
  }

  // Ranks above tau deal with all others, the lightest first, while anything is gained.
  void mend() {
    constexpr int kMaxPasses = 3;
    double before = dealing_.total_over();
    for (int pass = 0; pass < kMaxPasses && before > 0 && !is_done(); ++pass) {
      std::stable_sort(order_.begin(), order_.end(),
                       [this](int a, int b) { return dealing_.load(a) < dealing_.load(b); });
      for (std::size_t i = order_.size(); i-- > 0;) {
        for (std::size_t k = 0; k < order_.size() && dealing_.over(order_[i]) > 0; ++k) {
          if (k != i) dealing_.deal(order_[i], order_[k]);
        }
      }
      const double now = dealing_.total_over();
      if (now >= before * (1 - 1e-9)) break;
      before = now;
    }
  }

  const PlacementItems& items_;
  const ExchangeOptions& options_;
  EffortClock& clock_;
  PlacementState state_;
  RankDealing dealing_;
  SplitMix64 random_;
  Start best_;
  const UnitPlacements first_;
  UnitPlacements kept_;
  std::int64_t first_effort_;
  double constant_ = 0;  // charges and the floor do not move here
  double step_ = 0.1;    // of the gap, below the incumbent: tau
  int num_failures_ = 0;
  std::vector<int> order_;
  std::vector<std::vector<int>> open_;  // [units] choices
  std::vector<int> open_units_;
};

}  // namespace

Start shake(const PlacementItems& items, const Start& start, const ExchangeOptions& options,
            EffortClock& clock) {
  PLIMSOLL_DCHECK(is_exchangeable(items), "the items are exchangeable");
  PLIMSOLL_DCHECK(is_start_of(items, start),
                  "the start is allowed, its choices are among the items'");
  return Shake(items, start, options, clock).run();
}

}  // namespace plimsoll::balance
