#include "balance/tight/tight_search.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "balance/tight/fill_program.h"
#include "balance/tight/overdraft_state.h"
#include "balance/tight/tabu_walk.h"
#include "core/check.h"
#include "core/random.h"

namespace plimsoll::balance {
namespace {

constexpr double kLess = 1e-12;  // of energies

class TightSearch {
 public:
  TightSearch(const PlacementItems& items, const TightOptions& options, EffortClock& clock)
      : items_(items),
        options_(options),
        clock_(clock),
        random_(options.seed),
        state_(items),
        walk_(state_, random_),
        best_(options.incumbent) {
    if (options.start != nullptr) take(*options.start);
  }

  std::optional<UnitPlacements> run() {
    rise();
    double step = kFirstStep;  // of the gap
    while (!is_done()) {
      const double target = options_.lower_bound + (1 - step) * (best_ - options_.lower_bound);
      const std::int64_t budget = budget_of(kLongWalk);
      const bool is_fresh = best_standing_.choice.empty() || num_walks_ % 2 == 0;
      const bool is_reached =
          is_fresh ? walk_from_program(target, budget) : walk_from(best_standing_, target, budget);
      step =
          is_reached ? std::min(kLargestStep, kRise * step) : std::max(kSmallestStep, kFall * step);
    }
    return std::move(found_);
  }

 private:
  static constexpr double kFirstStep = .3, kLargestStep = .5, kSmallestStep = .01;
  static constexpr double kRise = 1.5, kFall = .8;
  static constexpr double kCostOfExcess = .3;                     // a rank; by experiment
  static constexpr std::int64_t kShortWalk = 16, kLongWalk = 25;  // one in so many of the effort

  void take(const UnitPlacements& start) {
    best_standing_.place.assign(items_.unit_of_slot.size(), -1);
    for (int unit = 0; unit < items_.num_units; ++unit) {
      const UnitPlacement& placement = start.units[unit];
      best_standing_.choice.push_back(items_.find_choice(unit, placement.choice));
      for (std::size_t i = 0; i < placement.slots.size(); ++i) {
        best_standing_.place[items_.first_slot[unit] + static_cast<int>(i)] = placement.slots[i];
      }
    }
  }

  // Some placement: where a walk fails, the next one goes on with a larger target. Programs of
  // large targets take choices that leave much to mend, so that new ones are rare.
  void rise() {
    constexpr double kFirst = 1.1, kGrowth = 2;
    constexpr int kWalksAProgram = 8;
    double target = kFirst * options_.lower_bound;
    for (int i = 0; best_ == kInfinity && !is_done(); ++i) {
      const std::int64_t budget = budget_of(kShortWalk);
      const bool is_reached = i % kWalksAProgram == 0 ? walk_from_program(target, budget)
                                                      : walk_from(last_standing_, target, budget);
      if (!is_reached) target *= kGrowth;
    }
  }

  std::int64_t budget_of(std::int64_t share) const {
    return std::max<std::int64_t>(options_.max_effort / share, 1);
  }

  bool is_done() const {
    return effort_ >= options_.max_effort || clock_.is_stopped() ||
           best_ <= options_.lower_bound * (1 + options_.tolerance);
  }

  bool spend(std::int64_t effort) {
    effort_ += effort;
    return clock_.spend(effort);
  }

  bool walk_from_program(double target, std::int64_t budget) {
    constexpr std::int64_t kVisitsAMove = 40;      // of choices, by pivots
    constexpr std::int64_t kLeastOfProgram = 300;  // moves, of the smallest
    constexpr std::int64_t kProgramShare = 2;      // of what a walk may take
    const auto num_choices = static_cast<std::int64_t>(items_.choices.size());
    const std::int64_t max_visits = kProgramShare * budget * kVisitsAMove;
    const Fill fill =
        find_fill(items_, target, std::max<std::int64_t>(max_visits / num_choices, 1));
    if (spend(kLeastOfProgram + fill.num_pivots * num_choices / kVisitsAMove)) return false;
    std::vector<double> costs = fill.excess;
    for (double& cost : costs) cost *= kCostOfExcess * items_.num_ranks;
    if (!costs.empty()) state_.set_costs(std::move(costs));
    state_.clear();
    walk_.begin(target);
    walk_.place(fill.choices);
    return walk(target, budget);
  }

  bool walk_from(const OverdraftState::Standing& standing, double target, std::int64_t budget) {
    state_.assign(standing);
    walk_.begin(target);
    return walk(target, budget);
  }

  // A walk goes back to the least energy where it was after a while without less, and on from there
  // with other rests and a few other choices. Is the target reached?
  bool walk(double target, std::int64_t budget) {
    constexpr int kStepsARefresh = 500, kStepsADeal = 20, kFirstRest = 3, kRests = 4,
                  kMostKicks = 3;
    const int patience = std::min(100 + 5 * items_.num_units, 1000);
    ++num_walks_;
    walk_.set_rest(kFirstRest);
    double least = state_.energy();
    last_standing_ = state_.standing();
    bool is_reached = keep(target) || state_.is_reached();
    int since = 0;
    std::int64_t spent = 1;
    if (spend(spent)) return is_reached;
    for (int i = 1; !is_reached && spent < budget; ++i) {
      const std::int64_t effort = step(since % kStepsADeal == kStepsADeal - 1);
      spent += effort;
      if (i % kStepsARefresh == 0) state_.refresh();
      is_reached = keep(target) || state_.is_reached();
      if (spend(effort)) break;
      if (state_.energy() < least - kLess) {
        least = state_.energy();
        last_standing_ = state_.standing();
        since = 0;
      } else if (++since == patience) {
        since = 0;
        state_.assign(last_standing_);
        walk_.set_rest(2 << random_.below(kRests));
        walk_.kick(random_.below(kMostKicks + 1));
      }
    }
    return is_reached;
  }

  // Its effort.
  std::int64_t step(bool deals_hosts) {
    constexpr std::int64_t kLooksAMove = 128;
    const std::int64_t before = state_.num_looks();
    if (deals_hosts) walk_.deal_hosts();
    if (!state_.is_reached()) walk_.step();
    return 1 + (state_.num_looks() - before) / kLooksAMove;
  }

  // Keeps what is better than the incumbent; is the target reached?
  bool keep(double target) {
    constexpr double kWorthKeeping = 1e-6;
    if (!state_.is_within_caps() || state_.slowest() >= best_ * (1 - kWorthKeeping)) return false;
    state_.refresh();
    if (!state_.is_within_caps()) return false;
    best_ = state_.slowest();
    best_standing_ = state_.standing();
    found_ = state_.placements();
    return best_ <= target;
  }

  const PlacementItems& items_;
  const TightOptions& options_;
  EffortClock& clock_;
  SplitMix64 random_;
  OverdraftState state_;
  TabuWalk walk_;
  double best_;
  OverdraftState::Standing best_standing_;  // of the incumbent
  OverdraftState::Standing last_standing_;  // of the least energy of the last walk
  std::optional<UnitPlacements> found_;
  int num_walks_ = 0;
  std::int64_t effort_ = 0;
};

}  // namespace

std::optional<UnitPlacements> search_tight(const PlacementItems& items, const TightOptions& options,
                                           EffortClock& clock) {
  PLIMSOLL_CHECK(items.empty_units.empty(), "every unit has a choice");
  if (items.num_units == 0) return std::nullopt;
  return TightSearch(items, options, clock).run();
}

}  // namespace plimsoll::balance
