// The least recompute time by trying everything: no sweep, no slack, no piecewise-linear function.
#pragma once

#include <algorithm>
#include <functional>
#include <optional>
#include <vector>

#include "plimsoll/checkpoint/checkpoint_problem.h"

namespace plimsoll::checkpoint {

// Calls `visit` with every set of units of [first, end) that do not overlap, in forward order.
inline void for_each_antichain(const CheckpointProblem& problem, int first, int end, int outer,
                               const std::function<void(const std::vector<int>&)>& visit) {
  std::vector<int> chosen;
  const std::function<void(int)> from = [&](int position) {
    visit(chosen);
    for (int u = 0; u < static_cast<int>(problem.units.size()); ++u) {
      const CandidateUnit& unit = problem.units[u];
      if (u == outer || unit.first < position || unit.last >= end) continue;
      chosen.push_back(u);
      from(unit.last + 1);
      chosen.pop_back();
    }
  };
  from(first);
}

// The cheapest discards of convex units: whenever a position is short, buy the cheapest bytes of
// what ended before it. Exact, as the constraints on prefixes form a contrapolymatroid.
inline std::optional<double> greedy_price(const CheckpointProblem& problem,
                                          const std::vector<int>& chosen, Bytes budget) {
  struct Offer {
    double slope;
    Bytes left;
  };
  std::vector<Offer> offers;
  double ms = 0;
  Bytes gone = 0;
  const auto buy_until = [&](Bytes need) {
    while (gone < need - budget) {
      Offer* best = nullptr;
      for (Offer& offer : offers) {
        if (offer.left > 0 && (best == nullptr || offer.slope < best->slope)) best = &offer;
      }
      if (best == nullptr) return false;
      const Bytes bought = std::min(best->left, need - budget - gone);
      best->left -= bought;
      gone += bought;
      ms += best->slope * static_cast<double>(bought);
    }
    return true;
  };
  std::size_t next = 0;
  for (int position = 0; position < problem.num_modules(); ++position) {
    if (!buy_until(problem.base_at(position))) return std::nullopt;
    // Nothing of a unit is gone before its last position has passed.
    if (next < chosen.size() && problem.units[chosen[next]].last == position) {
      const CandidateUnit& unit = problem.units[chosen[next++]];
      ms += unit.price.fixed;
      for (const math::CostPiece& piece : unit.price.pieces) {
        offers.push_back({piece.slope, piece.length});
      }
    }
  }
  if (problem.end_base && !buy_until(*problem.end_base)) return std::nullopt;
  return ms;
}

// A unit opens only at its end, but its whole inside must fit with what was gone before it.
inline CheckpointProblem with_covered_bases_raised(CheckpointProblem problem,
                                                   const std::vector<int>& chosen) {
  for (int u : chosen) {
    const CandidateUnit& unit = problem.units[u];
    Bytes highest = problem.base_at(unit.first);
    for (int p = unit.first; p <= unit.last; ++p) highest = std::max(highest, problem.base_at(p));
    problem.base[problem.tree.post_order[unit.first]] = highest;
  }
  return problem;
}

inline std::optional<double> least_time(const CheckpointProblem& problem, Bytes budget) {
  std::optional<double> best;
  for_each_antichain(problem, 0, problem.num_modules(), -1, [&](const std::vector<int>& chosen) {
    const auto ms = greedy_price(with_covered_bases_raised(problem, chosen), chosen, budget);
    if (ms && (!best || *ms < *best)) best = ms;
  });
  return best;
}

// Units priced by points: every antichain, every point, and, with nested units, every choice inside
// a unit that discards all. Pairs of (smallest budget, time), `extra` added to a plan's budget.
inline std::vector<std::pair<Bytes, double>> all_plans(
    const CheckpointProblem& problem,
    const std::function<Bytes(const std::vector<UnitDecision>&)>& extra = {}) {
  const std::function<std::vector<std::vector<UnitDecision>>(int, int, int)> choices =
      [&](int first, int end, int outer) {
        std::vector<std::vector<UnitDecision>> all;
        for_each_antichain(problem, first, end, outer, [&](const std::vector<int>& chosen) {
          std::vector<std::vector<UnitDecision>> partial{{}};
          for (int u : chosen) {
            const CandidateUnit& unit = problem.units[u];
            std::vector<UnitDecision> here;
            for (int k = 0; k < static_cast<int>(unit.points.size()); ++k) {
              const Bytes bytes = unit.points[k].bytes;
              here.push_back({u, bytes, k, {}});
              if (!problem.model.nested_units || bytes != unit.kept_inside ||
                  unit.points[k].needs > unit.threshold) {
                continue;
              }
              for (auto& inner : choices(unit.first, unit.last + 1, u)) {
                if (!inner.empty()) here.push_back({u, bytes, k, inner});
              }
            }
            std::vector<std::vector<UnitDecision>> extended;
            for (const auto& before : partial) {
              for (const UnitDecision& decision : here) {
                extended.push_back(before);
                extended.back().push_back(decision);
              }
            }
            partial = std::move(extended);
          }
          all.insert(all.end(), partial.begin(), partial.end());
        });
        return all;
      };
  std::vector<std::pair<Bytes, double>> plans;
  for (const auto& decisions : choices(0, problem.num_modules(), -1)) {
    const PlanFigures figures = replay(problem, decisions);
    plans.emplace_back(figures.peak + (extra ? extra(decisions) : 0), figures.recompute_ms);
  }
  return plans;
}

inline std::optional<double> least_time(const std::vector<std::pair<Bytes, double>>& plans,
                                        Bytes budget) {
  std::optional<double> best;
  for (const auto& [peak, ms] : plans) {
    if (peak <= budget && (!best || ms < *best)) best = ms;
  }
  return best;
}

}  // namespace plimsoll::checkpoint
