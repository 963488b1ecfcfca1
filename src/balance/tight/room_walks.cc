#include "balance/tight/room_walks.h"

#include <algorithm>
#include <iterator>
#include <numeric>

#include "balance/moves/replica_exchange.h"
#include "balance/problem/one_load.h"
#include "balance/problem/placement_judge.h"
#include "balance/tight/tight_search.h"
#include "core/check.h"

namespace plimsoll::balance {
namespace {

constexpr double kFactors[] = {1.05, 1.15, 1.3};  // by experiment
constexpr double kLeast = 1e-3;                   // of the slowest barrier's load: targets' scale

}  // namespace

std::optional<UnitPlacements> walk_within_rooms(const PlacementProblem& problem,
                                                const RoomWalkOptions& options,
                                                EffortClock& clock) {
  PLIMSOLL_CHECK(problem.num_barriers > 1, "there are several barriers");
  const auto slowest = std::max_element(options.load.begin(), options.load.end());
  const auto barrier = static_cast<int>(slowest - options.load.begin());
  const double others = std::accumulate(options.load.begin(), options.load.end(), 0.0) - *slowest;
  std::optional<UnitPlacements> best;
  double incumbent = options.incumbent;
  for (const double factor : kFactors) {
    std::vector<double> room = options.load;
    for (double& r : room) r *= factor;
    const PlacementProblem within = with_rooms_beside(problem, barrier, room);
    const PlacementItems items = make_placement_items(within, options.filter);
    if (!is_overdrawable(items)) return best;
    const double paid = options.constant + factor * others;
    TightOptions tight;
    tight.lower_bound = std::max(options.lower_bound - paid, kLeast * *slowest);
    tight.incumbent = incumbent - paid;
    tight.max_effort = options.max_effort / std::ssize(kFactors);
    tight.tolerance = options.tolerance;
    tight.seed = options.seed;
    if (tight.incumbent <= tight.lower_bound || clock.is_stopped()) break;
    std::optional<UnitPlacements> found = search_tight(items, tight, clock);
    if (!found) continue;
    const PlacementValue value = evaluate(problem, *found);
    if (!value.is_allowed() || value.objective >= incumbent) continue;
    incumbent = value.objective;
    best = std::move(found);
  }
  return best;
}

}  // namespace plimsoll::balance
