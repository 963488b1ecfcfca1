// Problems whose modules return in any order, and the least time of each by trying everything.
#pragma once

#include <algorithm>
#include <functional>
#include <limits>
#include <optional>
#include <vector>

#include "checkpoint/brute_force.h"
#include "checkpoint/random.h"
#include "checkpoint/random_trees.h"

namespace plimsoll::checkpoint {

inline constexpr Bytes kNoNeed = std::numeric_limits<Bytes>::min();

inline bool is_above(const CheckpointProblem& problem, int above, int node) {
  while (node >= 0 && node != above) node = problem.tree.parent[node];
  return node == above;
}

// Small trees; a third have points for prices, half an end of the step.
inline CheckpointProblem mixed_problem(int seed, bool has_needs = false) {
  bench::SmallTree shape;
  shape.has_points = seed % 3 == 0;
  shape.has_end = seed % 2 == 0;
  CheckpointProblem problem = bench::small_tree(static_cast<std::uint64_t>(seed), shape);
  problem.total_activations = 50;
  for (CandidateUnit& unit : problem.units) {
    problem.total_activations += unit.kept_inside;
    if (has_needs && seed % 4 == 0) unit.threshold = unit.own_need = unit.threshold + seed % 7;
    for (math::CostPoint& point : unit.points) {
      if (!has_needs) point.needs = kNoNeed;
    }
    std::reverse(unit.points.begin(), unit.points.end());  // the most bytes stand last
  }
  return problem;
}

// Any order of return.
inline CheckpointProblem scrambled(CheckpointProblem problem, int seed) {
  Random random(seed);
  ModuleTree& tree = problem.tree;
  for (int i = problem.num_modules() - 1; i > 0; --i) {
    std::swap(tree.post_order[i], tree.post_order[random.below(i + 1)]);
  }
  for (int p = 0; p < problem.num_modules(); ++p) tree.position[tree.post_order[p]] = p;
  tree.is_nested = false;
  return problem;
}

// Calls `visit` with every set of units none of which is above another, by position.
inline void for_each_unit_set(const CheckpointProblem& problem,
                              const std::function<void(std::vector<int>)>& visit) {
  const auto node = [&problem](int unit) { return problem.units[unit].nodes.front(); };
  std::vector<int> chosen;
  const std::function<void(int)> from = [&](int next) {
    if (next == static_cast<int>(problem.units.size())) {
      std::vector<int> sorted = chosen;
      std::sort(sorted.begin(), sorted.end(), [&](int a, int b) {
        return problem.tree.position[node(a)] < problem.tree.position[node(b)];
      });
      visit(std::move(sorted));
      return;
    }
    from(next + 1);
    for (const int other : chosen) {
      if (is_above(problem, node(next), node(other)) || is_above(problem, node(other), node(next)))
        return;
    }
    chosen.push_back(next);
    from(next + 1);
    chosen.pop_back();
  };
  from(0);
}

// What a plan needs: every base less what returned before it, and what units need for themselves.
inline Bytes peak_in_any_order(const CheckpointProblem& problem,
                               const std::vector<UnitDecision>& decisions, int in_flight = 1) {
  Bytes peak = kNoNeed, gone = 0;
  for (int p = 0; p < problem.num_modules(); ++p) {
    peak = std::max(peak, problem.base_at(p) - gone);
    for (const UnitDecision& decision : decisions) {
      const CandidateUnit& unit = problem.units[decision.unit];
      if (problem.tree.position[unit.nodes.front()] != p) continue;
      Bytes need = unit.own_need;
      if (decision.point >= 0) need = std::max(need, unit.points[decision.point].needs);
      if (need != kNoNeed) peak = std::max(peak, need - gone);
      gone += decision.discarded;
    }
  }
  if (problem.end_base) peak = std::max(peak, *problem.end_base - gone);
  return peak + (in_flight - 1) * (problem.total_activations - gone);
}

// [budget] the least time of any plan, from 0 on; infinity where there is none.
inline std::vector<double> least_times(const CheckpointProblem& problem, Bytes last,
                                       int in_flight = 1) {
  std::vector<double> least(static_cast<std::size_t>(last) + 1, kInfinity);
  const bool has_points = std::any_of(problem.units.begin(), problem.units.end(),
                                      [](const auto& unit) { return !unit.points.empty(); });
  CheckpointProblem apart = problem;
  for (CandidateUnit& unit : apart.units) {
    unit.first = unit.last = problem.tree.position[unit.nodes.front()];
  }
  for_each_unit_set(problem, [&](const std::vector<int>& chosen) {
    std::vector<UnitDecision> decisions;
    const std::function<void(std::size_t, double)> choose = [&](std::size_t k, double ms) {
      if (k == chosen.size()) {
        const Bytes peak = std::max<Bytes>(0, peak_in_any_order(problem, decisions, in_flight));
        for (Bytes b = peak; b <= last; ++b) least[b] = std::min(least[b], ms);
        return;
      }
      const std::vector<math::CostPoint>& points = problem.units[chosen[k]].points;
      for (int point = 0; point < static_cast<int>(points.size()); ++point) {
        decisions.push_back({chosen[k], points[point].bytes, point, {}});
        choose(k + 1, ms + points[point].price);
        decisions.pop_back();
      }
    };
    if (has_points || chosen.empty()) {
      choose(0, 0);
      return;
    }
    CheckpointProblem raised = apart;  // needs are bases that only these units have
    for (const int u : chosen) {
      Bytes& base = raised.base[raised.units[u].nodes.front()];
      base = std::max(base, raised.units[u].own_need);
    }
    for (Bytes b = 0; b <= last; ++b) {
      if (const auto ms = greedy_price(raised, chosen, b)) least[b] = std::min(least[b], *ms);
    }
  });
  return least;
}

}  // namespace plimsoll::checkpoint
