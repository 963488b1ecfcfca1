#include "balance/prices/filtered_bound.h"

#include <algorithm>
#include <utility>

#include "core/effort_clock.h"

namespace plimsoll::balance {

FilteredBound filtered_bound(const PlacementGroups& groups, const FilteredOptions& options) {
  FilteredBound result;
  result.survivors = filter_by_target(groups, kInfinity, options.rules);
  AverageOptions first;
  first.context = options.context;
  result.average = average_bound(groups, result.survivors, first);
  result.num_evaluations = result.average.num_evaluations;
  result.value = result.average.value;
  result.prices = result.average.prices;
  result.infeasible = result.average.infeasible;
  if (result.infeasible) return result;
  // Targets below `dead` are refuted, at `alive` they are not; `survivors` is what `alive` leaves.
  double dead = 0;
  double alive = kInfinity;
  double next = result.value;
  while (next > 0 && !(options.context != nullptr && is_stopped(*options.context))) {
    Survivors survivors = filter_by_target(groups, next, options.rules);
    const bool is_same = !survivors.is_dead() &&
                         survivors.num_choices == result.survivors.num_choices &&
                         survivors.num_places == result.survivors.num_places;
    AverageOptions at;
    at.start = &result.prices;
    at.context = options.context;
    at.goal = is_same ? kInfinity : next;
    const AverageBound bound =
        is_same && alive == kInfinity ? result.average : average_bound(groups, survivors, at);
    result.num_evaluations += bound.num_evaluations;
    if (bound.value <= next) {
      alive = next;
      result.survivors = std::move(survivors);
      if (alive <= result.value) break;  // nothing was refuted
    } else {
      dead = next;
      result.target = next;
      result.refuted_by = bound.infeasible;
      if (!bound.infeasible) result.prices = bound.prices;
      // Up to `alive` nothing more survives: there the average itself is the bound.
      result.value = is_same ? std::max(dead, std::min(bound.value, alive)) : dead;
      if (is_same) break;
    }
    if (alive < kInfinity && alive - dead <= options.tolerance * alive) break;
    next = alive == kInfinity ? 2 * dead : (dead + alive) / 2;
  }
  return result;
}

}  // namespace plimsoll::balance
