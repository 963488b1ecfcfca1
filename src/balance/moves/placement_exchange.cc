#include "balance/moves/placement_exchange.h"

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

#include "balance/moves/rank_dealing.h"
#include "balance/moves/rank_relief.h"
#include "balance/problem/placement_judge.h"
#include "balance/problem/placement_state.h"
#include "core/check.h"
#include "core/random.h"

namespace plimsoll::balance {
namespace {

std::int64_t end_of(const EffortClock& clock, std::int64_t max_effort) {
  return max_effort < EffortClock::kNever - clock.effort() ? clock.effort() + max_effort
                                                           : EffortClock::kNever;
}

class Exchange {
 public:
  Exchange(const PlacementItems& items, const Start& start, const ExchangeOptions& options,
           EffortClock& clock)
      : items_(items),
        options_(options),
        clock_(clock),
        state_(items),
        end_(end_of(clock, options.max_effort)),
        dealing_(state_, clock),
        random_(options.seed),
        relief_(state_, dealing_, random_, clock, end_),
        best_(start) {
    state_.assign(start.placements);
    constant_ = std::max(0.0, start.objective - state_.slowest());
    has_few_pieces_ = has_few_pieces();
    order_.resize(static_cast<std::size_t>(items.num_ranks));
    std::iota(order_.begin(), order_.end(), 0);
  }

  Start run() {
    constexpr double kLeastStep = 1.0 / 64;
    double step = 0.5;
    dealing_.aim(best_.objective - constant_);
    cheapen();
    while (!is_done() && step >= kLeastStep) {
      const double gap = best_.objective - options_.lower_bound;
      dealing_.aim(best_.objective - step * gap - constant_);
      if (reach() && store()) {
        cheapen();
        step = std::min(0.5, 1.5 * step);
      } else {
        step /= 2;
        if (!has_few_pieces_) state_.assign(best_.placements);
      }
    }
    return std::move(best_);
  }

 private:
  bool is_done() const {
    return clock_.is_stopped() || clock_.effort() >= end_ ||
           best_.objective <= options_.lower_bound * (1 + options_.tolerance);
  }

  bool has_few_pieces() const {
    constexpr std::size_t kFewPieces = 3;  // a rank, in the mean
    std::size_t count = 0;
    for (int rank = 0; rank < items_.num_ranks; ++rank) count += state_.slots_on_rank(rank).size();
    return count <= kFewPieces * static_cast<std::size_t>(items_.num_ranks);
  }

  bool store() {
    UnitPlacements placements = state_.placements();
    const PlacementValue value = evaluate(*items_.problem, placements);
    if (!value.is_allowed() || value.objective >= best_.objective) return false;
    best_ = {std::move(placements), value.objective};
    return true;
  }

  void cheapen() {
    if (!has_few_pieces_) return;
    relief_.cheapen();
    store();
  }

  // Does a placement within tau come of it?
  bool reach() {
    constexpr int kMaxFailures = 3;
    const double gain = has_few_pieces_ ? .1 : 1e-3;  // of what is above tau
    int num_failures = 0;
    double least = dealing_.total_over();
    while (!is_done() && num_failures < kMaxFailures) {
      mend();
      if (has_few_pieces_) relief_.relieve(order_);
      const double now = dealing_.total_over();
      if (now == 0) return true;
      num_failures = now < least * (1 - gain) ? 0 : num_failures + 1;
      least = std::min(least, now);
      tighten();
      if (has_few_pieces_) relief_.refine();
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
        if (other != rank && is_partner(rank, other)) dealing_.deal(rank, other);
      }
    }
  }

  bool is_partner(int rank, int other) const {
    constexpr double kLeastRoom = .1;  // of what is above tau
    return !has_few_pieces_ || dealing_.room(other) >= kLeastRoom * dealing_.over(rank);
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
  const std::int64_t end_;  // of the clock's effort
  RankDealing dealing_;
  SplitMix64 random_;
  RankRelief relief_;
  Start best_;
  bool has_few_pieces_ = false;
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
