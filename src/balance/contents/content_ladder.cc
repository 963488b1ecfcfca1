#include "balance/contents/content_ladder.h"

#include <algorithm>
#include <optional>

#include "balance/prices/average_bound.h"

namespace plimsoll::balance {
namespace {

constexpr int kMaxContentClasses = 120;

// Without device and host choices of more parts.
void limit_parts(const PlacementGroups& groups, std::int64_t most, Survivors& survivors) {
  for (std::size_t c = 0; c < groups.choices.size(); ++c) {
    const GroupChoice& choice = groups.choices[c];
    if (!choice.is_everywhere && choice.num_parts > most) survivors.choice[c] = 0;
  }
}

std::int64_t most_parts(const PlacementGroups& groups, const Survivors& survivors) {
  std::int64_t most = 1;
  for (std::size_t c = 0; c < groups.choices.size(); ++c) {
    const GroupChoice& choice = groups.choices[c];
    if (survivors.choice[c] && !choice.is_everywhere) most = std::max(most, choice.num_parts);
  }
  return most;
}

}  // namespace

void search_content_ladder(const PlacementProblem& problem, const PlacementGroups& groups,
                           const Start& best, const ContentLadderOptions& options,
                           EffortClock& clock,
                           const std::function<void(const UnitPlacements&)>& offer) {
  const auto has_plan = [&] { return best.objective < kInfinity; };
  const auto target = [&] { return best.objective - options.constant; };
  const std::int64_t most = most_parts(groups, filter_by_target(groups, target()));
  std::vector<std::int64_t> rungs;
  for (const std::int64_t rung : {2, 4}) {
    if (rung < most && options.is_stepwise) rungs.push_back(rung);
  }
  rungs.push_back(most);
  const auto num_rungs = static_cast<std::int64_t>(rungs.size());
  for (const std::int64_t rung : rungs) {
    if (clock.is_stopped() ||
        options.search.lower_bound * (1 + options.search.tolerance) >= target()) {
      return;
    }
    Survivors survivors = filter_by_target(groups, target());
    if (survivors.is_dead()) return;
    AverageOptions of_average;
    of_average.context = &clock.context();
    const AverageBound average = average_bound(groups, survivors, of_average);
    if (average.infeasible) return;
    limit_parts(groups, rung, survivors);
    const std::optional<ContentModel> model =
        make_content_model(problem, groups, survivors, average.prices.price);
    if (!model || model->classes.size() > kMaxContentClasses || model->items.empty()) return;
    ContentSearchOptions one = options.search;
    one.room =
        options.room > 0 ? options.room : std::max(options.least_load - model->forced_load, 1e-9);
    one.incumbent = target();
    one.max_effort = options.search.max_effort / num_rungs;
    search_contents(*model, has_plan() ? &best.placements : nullptr, one, clock, offer);
  }
}

}  // namespace plimsoll::balance
