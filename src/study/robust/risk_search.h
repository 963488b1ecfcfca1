// Placements whose slowest rank is fast in bad scenarios: moves judged by the measure itself.
//
// Problem. balance::PlacementProblem, but every piece has its loads in each of n scenarios, and
// what is least is a measure (RiskMeasure) of the n objectives. Method. Simulated annealing on
// measure + 1e-2 mean, in rounds of falling temperature that each start from the best placement so
// far. A scenario is drawn near the quantile or from the tail, a barrier, and the rank that is
// slowest there; a piece of it moves to another rank (45 %) or is swapped with one (40 %); else one
// unit or two take other choices, whose pieces go where they load such a scenario least. Rules and
// bytes are kept by balance::PlacementState. Cost. O(ranks x scenarios x barriers) a move.
// Promises. Never worse than the best start; what is returned is judged afresh, not by running
// sums. A function of its arguments.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "core/effort_clock.h"
#include "plimsoll/balance/placement_problem.h"
#include "plimsoll/study/robust.h"

namespace plimsoll::study {

struct RiskProblem {
  balance::PlacementProblem placement;  // rules, bytes, charges; its loads are those of the means
  int num_scenarios = 0;
  // [units][choices][runs] as the placement's: [rank classes][scenarios][barriers] in one list.
  std::vector<std::vector<std::vector<std::vector<double>>>> load;
};

// The same with mean and variance of every piece in place of its loads: two scenarios.
RiskProblem moments_of(const RiskProblem& problem);

struct RiskSearchOptions {
  bool is_of_moments = false;  // the problem is one of moments_of
  RiskMeasure measure = RiskMeasure::kQuantile;
  double level = .95;
  std::int64_t max_moves = 100'000;  // >= 0
  std::uint64_t seed = 0;
};

struct RiskPlacement {
  balance::UnitPlacements placements;
  double risk = 0;  // of moments: what they say it is, about
};

// The objective in every scenario. Precondition: an allowed placement.
std::vector<double> scenario_objectives(const RiskProblem& problem,
                                        const balance::UnitPlacements& placements);

// Nothing where no start is allowed.
std::optional<RiskPlacement> search_risk(const RiskProblem& problem,
                                         const std::vector<balance::UnitPlacements>& starts,
                                         const RiskSearchOptions& options, EffortClock& clock);

}  // namespace plimsoll::study
