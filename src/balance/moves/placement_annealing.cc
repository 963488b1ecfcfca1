#include "balance/moves/placement_annealing.h"

#include <algorithm>
#include <cmath>

#include "balance/moves/annealing_moves.h"
#include "balance/problem/placement_judge.h"
#include "core/check.h"

namespace plimsoll::balance {
namespace {

class Annealer {
 public:
  Annealer(const PlacementItems& items, const Start& start, const AnnealingOptions& options,
           EffortClock& clock)
      : items_(items),
        options_(options),
        clock_(clock),
        moves_(items, options.seed, options.has_soft_times, options.moves, options.max_moved),
        best_(start) {
    if (options.moves != nullptr) {
      moves_.energy().set_toll(options.toll /
                               static_cast<double>(std::max<Bytes>(options.max_moved, 1)));
    }
    // Charges and the floor do not move here.
    moves_.state().assign(start.placements);
    constant_ = std::max(0.0, start.objective - moves_.state().slowest());
    if (options.ceiling < kInfinity) best_.objective = options.ceiling;
  }

  AnnealingResult run() {
    constexpr double kTemperatures[] = {1e-5, 1e-4, 1e-3, 3e-6};
    double step = 1.0 / 3;
    int num_failures = 0;
    for (int round = 0; !is_done(); ++round) {
      const double gap = best_.objective - options_.lower_bound;
      const double aim = best_.objective - std::max(step * gap, 1e-7 * best_.objective);
      const bool is_late = num_failures % 3 == 2;
      if (num_failures % 2 == 0) moves_.state().assign(best_.placements);
      const double before = best_.objective;
      run_round(std::max(aim - constant_, 1e-300), is_late ? 3e-2 : 3e-3, kTemperatures[round % 4]);
      if (best_.objective < before) {
        step = has_split_ ? std::min(2 * step, 1.0 / 3) : 1.0 / 3;
      } else {
        ++num_failures;
        step = std::max(step / 2, 1e-3);
      }
    }
    return {std::move(best_), num_moves_};
  }

 private:
  bool is_done() const {
    return num_moves_ >= options_.max_moves || clock_.is_stopped() ||
           best_.objective <= options_.lower_bound * (1 + options_.tolerance) ||
           items_.num_units == 0;
  }

  void run_round(double tau, double kappa, double temperature) {
    constexpr double kCold = 1e-10;
    constexpr int kBatch = 256;
    moves_.energy().aim(tau, kappa);
    const std::int64_t num_moves =
        std::min(options_.moves_a_round, options_.max_moves - num_moves_);
    const std::int64_t period = kBatch * std::max(1, items_.num_ranks / kBatch);
    const double cooling =
        std::pow(kCold / temperature, static_cast<double>(kBatch) / static_cast<double>(num_moves));
    for (std::int64_t i = 0; i < num_moves; ++i) {
      ++num_moves_;
      if (i % kBatch == 0) {
        temperature *= cooling;
        if (i % (kBatch * 16) == 0) moves_.energy().refresh();
        if (clock_.spend(kBatch)) return;
        if (has_split_ && i % period == 0) rebalance();
      }
      if (!moves_.propose(temperature)) continue;
      if (!moves_.energy().is_hit()) continue;
      store();
      moves_.state().assign(best_.placements);
      return;
    }
    if (has_split_) store();
  }

  // The target may be out of reach where the placement is better than any so far.
  void rebalance() {
    constexpr double kWorthStoring = 1e-4;
    moves_.energy().rebalance();
    const double objective = moves_.state().slowest() + constant_;
    if (objective < best_.objective * (1 - kWorthStoring)) store();
  }

  void store() {
    const PlacementState& state = moves_.state();
    if (has_split_ && state.slowest() + constant_ >= best_.objective) return;
    for (int rank = 0; rank < items_.num_ranks; ++rank) {
      if (state.overdraft(rank) > 0) return;
    }
    UnitPlacements placements = state.placements();
    const PlacementValue value = evaluate(*items_.problem, placements);
    if (value.is_allowed() && value.objective < best_.objective) {
      best_ = {std::move(placements), value.objective};
    }
  }

  const PlacementItems& items_;
  const AnnealingOptions& options_;
  EffortClock& clock_;
  AnnealingMoves moves_;
  Start best_;
  double constant_ = 0;
  bool has_split_ = items_.problem->num_barriers > 1;  // of the target over barriers
  std::int64_t num_moves_ = 0;
};

}  // namespace

AnnealingResult anneal(const PlacementItems& items, const Start& start,
                       const AnnealingOptions& options, EffortClock& clock) {
  PLIMSOLL_DCHECK(options.ceiling < kInfinity || is_start_of(items, start),
                  "the start is allowed, its choices are among the items'");
  return Annealer(items, start, options, clock).run();
}

void anneal_pool(const PlacementItems& items, std::vector<Start>& pool,
                 const AnnealingOptions& options, EffortClock& clock,
                 const std::function<bool(const Start&)>& offer) {
  constexpr std::size_t kSizes[] = {8, 4, 2};
  constexpr int kManyUnits = 1000;
  const std::int64_t moves_a_start =
      items.num_units > kManyUnits ? std::int64_t{100} * items.num_units : 1;
  const auto most = static_cast<std::size_t>(
      std::clamp<std::int64_t>(options.max_moves / 3 / moves_a_start, 1, kSizes[0]));
  if (pool.size() > most) pool.resize(most);
  AnnealingOptions one = options;
  for (const std::size_t size : kSizes) {
    if (pool.size() > size) pool.resize(size);
    for (Start& start : pool) {
      if (clock.is_stopped()) return;
      one.max_moves = options.max_moves / 3 / static_cast<std::int64_t>(pool.size());
      one.moves_a_round =
          std::clamp<std::int64_t>(one.max_moves / 8, 1000 + moves_a_start / 3, 1000000);
      ++one.seed;
      start = anneal(items, start, one, clock).best;
      if (!offer(start)) return;
    }
    std::stable_sort(pool.begin(), pool.end(),
                     [](const Start& a, const Start& b) { return a.objective < b.objective; });
  }
}

}  // namespace plimsoll::balance
