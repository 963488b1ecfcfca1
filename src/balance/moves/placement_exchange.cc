#include "balance/moves/placement_exchange.h"

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

#include "balance/moves/rank_dealing.h"
#include "balance/problem/placement_judge.h"
#include "balance/problem/placement_state.h"
#include "core/check.h"
#include "core/random.h"

namespace plimsoll::balance {
namespace {

class Exchange {
 public:
  Exchange(const PlacementItems& items, const Start& start, const ExchangeOptions& options,
           EffortClock& clock)
      : items_(items),
        options_(options),
        clock_(clock),
        state_(items),
        dealing_(state_, clock),
        random_(options.seed),
        best_(start),
        first_effort_(clock.effort()) {
    state_.assign(start.placements);
    constant_ = std::max(0.0, start.objective - state_.slowest());
    order_.resize(static_cast<std::size_t>(items.num_ranks));
    std::iota(order_.begin(), order_.end(), 0);
  }

  Start run() {
    constexpr double kLeastStep = 1.0 / 64;
    double step = 0.5;
    while (!is_done() && step >= kLeastStep) {
      const double gap = best_.objective - options_.lower_bound;
      dealing_.aim(best_.objective - step * gap - constant_);
      if (reach() && store()) {
        step = std::min(0.5, 1.5 * step);
      } else {
        step /= 2;
        state_.assign(best_.placements);
      }
    }
    return std::move(best_);
  }

 private:
  bool is_done() const {
    return clock_.is_stopped() || clock_.effort() - first_effort_ >= options_.max_effort ||
           best_.objective <= options_.lower_bound * (1 + options_.tolerance);
  }

  bool store() {
    UnitPlacements placements = state_.placements();
    const PlacementValue value = evaluate(*items_.problem, placements);
    if (!value.is_allowed() || value.objective >= best_.objective) return false;
    best_ = {std::move(placements), value.objective};
    return true;
  }

  // Does a placement within tau come of it?
  bool reach() {
    constexpr int kMaxFailures = 3;
    int num_failures = 0;
    double least = dealing_.total_over();
    while (!is_done() && num_failures < kMaxFailures) {
      mend();
      const double now = dealing_.total_over();
      if (now == 0) return true;
      num_failures = now < least * (1 - 1e-3) ? 0 : num_failures + 1;
      least = std::min(least, now);
      tighten();
    }
    return false;
  }

  // Partners are the lightest, and any.
  void mend() {
    constexpr int kMaxPartners = 400;
    std::stable_sort(order_.begin(), order_.end(),
                     [this](int a, int b) { return dealing_.load(a) < dealing_.load(b); });
    const int end = std::min(items_.num_ranks, kMaxPartners);
    for (int i = items_.num_ranks; i-- > 0 && !is_done();) {
      const int rank = order_[i];
      for (int k = 0; k < end && dealing_.over(rank) > 0; ++k) {
        const int other = order_[2 * k < end ? k : random_.below(items_.num_ranks)];
        if (other != rank) dealing_.deal(rank, other);
      }
    }
  }

  void tighten() {
    constexpr int kDealsARank = 8;
    for (int i = 0; i < kDealsARank * items_.num_ranks && !is_done(); ++i) {
      const int a = random_.below(items_.num_ranks);
      const int b = random_.below(items_.num_ranks);
      if (a != b) dealing_.deal(a, b);
    }
  }

  const PlacementItems& items_;
  const ExchangeOptions& options_;
  EffortClock& clock_;
  PlacementState state_;
  RankDealing dealing_;
  SplitMix64 random_;
  Start best_;
  std::int64_t first_effort_;
  double constant_ = 0;     // charges and the floor do not move here
  std::vector<int> order_;  // ranks by rising load
};

}  // namespace

bool is_exchangeable(const PlacementItems& items) {
  const PlacementProblem& problem = *items.problem;
  return items.stride == 1 && items.empty_units.empty() &&
         std::none_of(problem.apart.begin(), problem.apart.end(),
                      [](const std::vector<int>& set) { return set.size() > 1; }) &&
         std::all_of(problem.units.begin(), problem.units.end(),
                     [](const Unit& unit) { return unit.allowed_ranks.empty(); });
}

Start exchange(const PlacementItems& items, const Start& start, const ExchangeOptions& options,
               EffortClock& clock) {
  PLIMSOLL_DCHECK(is_exchangeable(items), "the items are exchangeable");
  PLIMSOLL_DCHECK(is_start_of(items, start),
                  "the start is allowed, its choices are among the items'");
  return Exchange(items, start, options, clock).run();
}

}  // namespace plimsoll::balance
