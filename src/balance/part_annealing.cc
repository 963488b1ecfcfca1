#include "balance/part_annealing.h"

#include <algorithm>
#include <utility>

#include "balance/problem/placement_judge.h"
#include "core/check.h"
#include "plimsoll/core/numbers.h"

namespace plimsoll::balance {
namespace {

double best_objective(const BalancePart* part) {
  return part->starts.empty() ? kInfinity : part->starts.front().objective;
}

// Half by bound, half by the best start.
std::vector<BalancePart*> choose_parts(std::vector<BalancePart*> parts) {
  constexpr std::size_t kParts = 6;
  std::vector<BalancePart*> chosen;
  const auto choose = [&](std::size_t most) {
    for (BalancePart* part : parts) {
      if (chosen.size() == most) return;
      if (part->starts.empty()) continue;
      if (std::find(chosen.begin(), chosen.end(), part) == chosen.end()) chosen.push_back(part);
    }
  };
  choose(kParts / 2);
  std::stable_sort(parts.begin(), parts.end(), [](const BalancePart* a, const BalancePart* b) {
    return best_objective(a) < best_objective(b);
  });
  choose(kParts);
  return chosen;
}

}  // namespace

Start anneal_start(const PlacementProblem& problem, const Start& start, AnnealingOptions options,
                   EffortClock& clock) {
  PLIMSOLL_DCHECK(evaluate(problem, start.placements).is_allowed(), "the start is allowed");
  std::vector<bool> is_named(problem.charges.size(), false);
  for (int unit = 0; unit < problem.num_units(); ++unit) {
    const UnitPlacement& placement = start.placements.units[unit];
    for (const int cause : problem.units[unit].choices[placement.choice].causes) {
      is_named[cause] = true;
    }
  }
  options.lower_bound = problem.floor_ms;
  for (std::size_t cause = 0; cause < is_named.size(); ++cause) {
    if (is_named[cause]) options.lower_bound += problem.charges[cause];
  }
  const PlacementItems items = make_placement_items(problem, {is_named, {}});
  for (int unit = 0; unit < items.num_units; ++unit) {
    if (items.find_choice(unit, start.placements.units[unit].choice) < 0) return start;
    options.lower_bound += items.choices[items.first_choice[unit]].work;  // the least
  }
  options.moves_a_round = std::max<std::int64_t>(options.max_moves / 4, 1);
  return anneal(items, start, options, clock).best;
}

void anneal_parts_in_turn(
    std::vector<BalancePart*> parts, std::int64_t moves, EffortClock& clock,
    const std::function<Start(const BalancePart&, const Start&, std::int64_t)>& anneal_one) {
  constexpr std::size_t kStartsAPart = 2;
  constexpr std::size_t kSizes[] = {12, 5, 2};
  struct Entry {
    BalancePart* part = nullptr;
    Start start;
  };
  const std::vector<BalancePart*> chosen = choose_parts(std::move(parts));
  std::vector<Entry> pool;
  for (BalancePart* part : chosen) {
    for (std::size_t i = 0; i < std::min(kStartsAPart, part->starts.size()); ++i) {
      pool.push_back({part, part->starts[i]});
    }
  }
  for (const std::size_t size : kSizes) {
    if (pool.size() > size) pool.resize(size);
    for (Entry& entry : pool) {
      if (clock.is_stopped()) return;
      entry.start =
          anneal_one(*entry.part, entry.start, moves / 3 / static_cast<std::int64_t>(pool.size()));
    }
    std::stable_sort(pool.begin(), pool.end(), [](const Entry& a, const Entry& b) {
      return a.start.objective < b.start.objective;
    });
  }
  for (BalancePart* part : chosen) part->starts.clear();
  for (Entry& entry : pool) entry.part->starts.push_back(std::move(entry.start));
}

}  // namespace plimsoll::balance
