#include "balance/barriers/box_search.h"

#include <numeric>
#include <vector>

#include "balance/barriers/barrier_dive.h"
#include "balance/barriers/barrier_windows.h"

namespace plimsoll::balance {
namespace {

constexpr double kShareOfTimes = .98;
constexpr double kWorthADive = 1.01;  // what a program promises, beside the best objective
constexpr double kUnplaced = 1e-6;    // units

std::vector<double> load_of(const BarrierModel& model, const std::vector<double>& room,
                            const BarrierAnswer& answer) {
  std::vector<double> load = room;
  for (std::size_t s = 0; s < model.steps.size(); ++s) {
    for (std::size_t b = 0; b < load.size(); ++b) {
      load[b] += answer.num_uniform[s] * model.steps[s].load[b];
    }
  }
  return load;
}

}  // namespace

std::vector<double> search_boxes(const PlacementProblem& problem, const BoxSearchOptions& options,
                                 EffortClock& clock, const BoxOffer& offer) {
  std::vector<double> load;
  double least = kInfinity;  // of what programs promise
  const auto model = make_barrier_model(problem, options.forbidden);
  if (!model) return load;
  double best = options.incumbent;
  const auto goal = [&] { return best / (1 + options.tolerance) - options.constant; };
  BarrierWindowOptions windows;
  windows.max_effort = options.max_effort / (model->times.empty() ? 1 : 2);
  windows.visit = [&](const std::vector<double>& room, const BarrierAnswer& answer) {
    const double promised =
        std::accumulate(room.begin(), room.end(), options.constant + answer.value);
    if (answer.missed <= kUnplaced && promised < least) {
      least = promised;
      load = load_of(*model, room, answer);
    }
    if (answer.missed > kUnplaced || promised >= kWorthADive * best) return goal();
    for (const double share : {1.0, kShareOfTimes}) {
      if (share < 1 && model->times.empty()) break;
      const auto found = dive_by_barriers(*model, problem.num_units(), room, answer, share, clock);
      if (found && offer(*found, best)) break;
    }
    return goal();
  };
  windows.goal = goal();
  search_barrier_windows(*model, problem.num_units(), windows, clock);
  if (model->times.empty() || clock.is_stopped() || !(goal() > 0)) return load;
  windows.goal = goal();
  windows.limits = model->times;
  search_barrier_windows(*model, problem.num_units(), windows, clock);
  return load;
}

}  // namespace plimsoll::balance
