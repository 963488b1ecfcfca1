#include "balance/reopened_placement.h"

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

#include "balance/balanced_placement.h"
#include "balance/problem/placement_judge.h"
#include "core/check.h"
#include "core/effort_clock.h"
#include "plimsoll/core/checked.h"

namespace plimsoll::balance {
namespace {

constexpr int kReopenedRounds = 4;
constexpr std::int64_t kShare = 2;  // a round has one in so many of the effort
constexpr double kCaution = .9;  // of the bytes placed again that should move just as many as may
constexpr double kFewer = .7;    // of the bytes placed again, after a search without gain

// Bytes that move if the unit leaves where it stands; none where it stands nowhere, or everywhere.
Bytes bytes_at_home(const MoveCosts& costs, std::size_t unit) {
  const UnitPlacement& home = costs.home[unit];
  Bytes bytes = 0;
  if (home.choice < 0) return bytes;
  for (const SlotMoves& slot : costs.units[unit][static_cast<std::size_t>(home.choice)].slots) {
    bytes = saturated_add(bytes, slot.elsewhere);
  }
  return bytes;
}

// [num_units] does the unit stay at home?
std::vector<bool> find_kept(const MoveCosts& costs, const UnitPlacements& best, Bytes limit) {
  const std::size_t num_units = costs.home.size();
  std::vector<std::size_t> order(num_units);
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::vector<std::pair<bool, Bytes>> keys;  // is at home, bytes
  for (const std::size_t unit : order) {
    keys.emplace_back(best.units[unit] == costs.home[unit], bytes_at_home(costs, unit));
  }
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return keys[a] < keys[b]; });
  std::vector<bool> is_kept(num_units, true);
  Bytes sum = 0;
  for (const std::size_t unit : order) {
    sum = saturated_add(sum, keys[unit].second);
    if (keys[unit].first && sum > limit) break;
    is_kept[unit] = false;
  }
  return is_kept;
}

// Leaves the unit where it stands; its pieces may still change places among each other.
void keep_home(const PlacementProblem& problem, const UnitPlacement& home, Unit& unit) {
  unit.choices = {unit.choices[static_cast<std::size_t>(home.choice)]};
  UnitChoice& choice = unit.choices.front();
  if (choice.spread == Spread::kUniform) return;
  std::vector<int> slots = home.slots;
  std::sort(slots.begin(), slots.end());
  const auto end = std::unique(slots.begin(), slots.end());
  choice.distinct_ranks = choice.spread == Spread::kDevice && end == slots.end();
  slots.erase(end, slots.end());
  unit.allowed_ranks.clear();
  const int width = choice.spread == Spread::kHost ? problem.ranks_per_host : 1;
  for (const int slot : slots) {
    for (int i = 0; i < width; ++i) unit.allowed_ranks.push_back(slot * width + i);
  }
}

}  // namespace

Relocation reopen(const PlacementProblem& problem, const MoveCosts& costs, Relocation best,
                  Bytes max_moved, double price, const SearchOptions& search, EffortClock& clock) {
  PLIMSOLL_DCHECK(evaluate(problem, best.start.placements).is_allowed() &&
                      moved_bytes(costs, best.start.placements) <= max_moved,
                  "the placement is allowed and moves at most that");
  SearchOptions share = search;
  share.effort = (search.effort < 0 ? kDefaultBalanceEffort : search.effort) / kShare;
  Bytes limit = max_moved - std::min(max_moved, least_moved_bytes(costs));
  for (int round = 0; round < kReopenedRounds && !clock.is_stopped(); ++round) {
    const std::vector<bool> is_kept = find_kept(costs, best.start.placements, limit);
    PlacementProblem part = problem;
    BalanceOptions options;
    options.explains = false;
    options.uses_patterns = false;  // they prove, and take most of the time
    UnitPlacements& start = options.starts.emplace_back(best.start.placements);
    for (std::size_t u = 0; u < is_kept.size(); ++u) {
      if (!is_kept[u]) continue;
      keep_home(problem, costs.home[u], part.units[u]);
      start.units[u].choice = 0;
    }
    BalanceOutcome searched = balance(part, options, share, clock.context());
    if (clock.spend(searched.effort) || !searched.outcome.plan) break;
    Relocation found{{*std::move(searched.outcome.plan), 0}, 0};
    for (std::size_t u = 0; u < is_kept.size(); ++u) {
      if (is_kept[u]) found.start.placements.units[u] = costs.home[u];
    }
    const PlacementValue value = evaluate(problem, found.start.placements);
    if (!value.is_allowed()) break;
    found.start.objective = value.objective;
    found.moved = moved_bytes(costs, found.start.placements);
    if (found.moved > max_moved) {
      limit = saturated_cast(kCaution * static_cast<double>(limit) *
                             static_cast<double>(max_moved) / static_cast<double>(found.moved));
    } else if (is_better(found, best, price)) {
      best = std::move(found);
      send_home(problem, costs, price, best, clock);
    } else {
      limit = saturated_cast(kFewer * static_cast<double>(limit));
    }
  }
  return best;
}

}  // namespace plimsoll::balance
