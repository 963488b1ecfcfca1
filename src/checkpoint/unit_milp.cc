#include "plimsoll/checkpoint/unit_milp.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "checkpoint/milp_options.h"
#include "plimsoll/core/suggest.h"

namespace plimsoll::checkpoint {
namespace {

using solve::kInfinity;
using solve::MilpProblem;
using solve::MilpTerm;

// Cbc looks for no objective that is better by less than 1e-5; of a peak in units of the largest
// base that is far too much.
constexpr double kPeakWeight = 1e4;

Result<void> check(const UnitMilpProblem& problem) {
  const std::size_t n = problem.base.size();
  if (problem.parent.size() != n || problem.position.size() != n || problem.cost.size() != n) {
    return fail(ErrorCode::kSchema, "base",
                fmt::format("{} bases beside {} parents, {} positions and {} costs", n,
                            problem.parent.size(), problem.position.size(), problem.cost.size()),
                "give each node one of each");
  }
  if (!std::isfinite(problem.budget)) {
    return fail(ErrorCode::kValue, "budget", fmt::format("the budget is {}", problem.budget),
                "give a finite number of bytes");
  }
  const int num_nodes = static_cast<int>(n);
  std::vector<bool> is_taken(n);
  for (int i = 0; i < num_nodes; ++i) {
    const std::string place = fmt::format("node {}", i);
    const int position = problem.position[i], parent = problem.parent[i];
    if (position < 0 || position >= num_nodes || is_taken[position]) {
      return fail(ErrorCode::kSchema, place, fmt::format("its position is {}", position),
                  "give each position from 0 on to one node");
    }
    is_taken[position] = true;
    if (parent < -1 || parent >= num_nodes) {
      return fail(ErrorCode::kSchema, place, fmt::format("its parent is {}", parent),
                  "name a node, or -1");
    }
    int steps = 0;
    for (int above = parent; above >= 0; above = problem.parent[above]) {
      if (++steps > num_nodes) {
        return fail(ErrorCode::kConflict, place, "its parents run in a circle",
                    "give each tree one root");
      }
    }
    bool is_finite = std::isfinite(problem.base[i]);
    if (const auto& cost = problem.cost[i]) {
      is_finite &= std::isfinite(cost->capacity) && cost->capacity >= 0;
      for (const CostPiece& piece : cost->pieces) {
        is_finite &= std::isfinite(piece.slope) && std::isfinite(piece.intercept);
      }
      for (const auto& [bytes, ms] : cost->points) {
        is_finite &= bytes >= 0 && bytes <= cost->capacity && ms >= 0 && std::isfinite(ms);
      }
    }
    if (!is_finite) {
      return fail(ErrorCode::kValue, place, "a figure is negative or not finite",
                  "give finite figures, and a capacity of at least 0");
    }
  }
  return {};
}

// [n] a node's candidates above it, itself included where it is one, from below.
std::vector<std::vector<int>> find_candidate_paths(const UnitMilpProblem& problem) {
  std::vector<std::vector<int>> paths(problem.base.size());
  for (int i = 0; i < static_cast<int>(paths.size()); ++i) {
    for (int above = i; above >= 0; above = problem.parent[above]) {
      if (problem.cost[above]) paths[i].push_back(above);
    }
  }
  return paths;
}

struct Columns {
  std::vector<int> chosen, discarded, cost;  // [n], -1 where the node is no candidate
  std::vector<int> first_point;              // [n], -1 where it has none; the others follow
};

// Memory is in units of `scale` bytes, so that the solver's tolerances mean something.
Columns add_candidates(const UnitMilpProblem& problem, double scale, MilpProblem& milp) {
  const std::size_t n = problem.base.size();
  const std::vector<int> none(n, -1);
  Columns columns{none, none, none, none};
  for (std::size_t i = 0; i < n; ++i) {
    if (!problem.cost[i]) continue;
    const DiscardCost& cost = *problem.cost[i];
    const double capacity = cost.capacity / scale;
    const int y = milp.add_binary();
    const int d = milp.add_column(0, capacity);
    const int t = milp.add_column(0, kInfinity, /*cost=*/1);
    milp.add_row(-kInfinity, {{d, 1}, {y, -capacity}}, 0);
    for (const CostPiece& piece : cost.pieces) {
      milp.add_row(0, {{t, 1}, {d, -piece.slope * scale}, {y, -piece.intercept}}, kInfinity);
    }
    if (!cost.points.empty()) {
      std::vector<MilpTerm> one{{y, -1}}, bytes{{d, -1}}, ms{{t, -1}};
      for (const auto& [discarded, price] : cost.points) {
        const int z = milp.add_binary();
        if (columns.first_point[i] < 0) columns.first_point[i] = z;
        one.push_back({z, 1});
        bytes.push_back({z, discarded / scale});
        ms.push_back({z, price});
      }
      milp.add_row(0, std::move(one), 0);
      milp.add_row(0, std::move(bytes), 0);
      milp.add_row(0, std::move(ms), 0);
    }
    columns.chosen[i] = y;
    columns.discarded[i] = d;
    columns.cost[i] = t;
  }
  return columns;
}

void add_clique_rows(const UnitMilpProblem& problem, const Columns& columns, MilpProblem& milp) {
  const auto paths = find_candidate_paths(problem);
  std::vector<bool> is_lowest(paths.size());
  for (std::size_t i = 0; i < paths.size(); ++i) is_lowest[i] = problem.cost[i].has_value();
  for (const auto& path : paths) {
    for (std::size_t k = 1; k < path.size(); ++k) is_lowest[path[k]] = false;
  }
  for (std::size_t i = 0; i < paths.size(); ++i) {
    if (!is_lowest[i] || paths[i].size() < 2) continue;
    std::vector<MilpTerm> terms;
    for (const int node : paths[i]) terms.push_back({columns.chosen[node], 1});
    milp.add_row(-kInfinity, std::move(terms), 1);
  }
}

std::vector<int> by_position(const std::vector<int>& position) {
  std::vector<int> order(position.size());
  for (std::size_t i = 0; i < position.size(); ++i) order[position[i]] = static_cast<int>(i);
  return order;
}

// sum_k = sum_{k-1} + discards since; sum_k >= base - budget.
void add_prefix_rows(const UnitMilpProblem& problem, double scale, const Columns& columns,
                     MilpProblem& milp) {
  double highest = problem.budget;
  int previous = -1;
  std::vector<MilpTerm> since;
  for (const int node : by_position(problem.position)) {
    if (problem.base[node] > highest) {
      highest = problem.base[node];
      const int sum = milp.add_column((highest - problem.budget) / scale, kInfinity);
      std::vector<MilpTerm> terms = std::exchange(since, {});
      if (previous >= 0) terms.push_back({previous, 1});
      terms.push_back({sum, -1});
      milp.add_row(0, std::move(terms), 0);
      previous = sum;
    }
    if (columns.discarded[node] >= 0) since.push_back({columns.discarded[node], 1});
  }
}

// Everything that a node could discard, and for points which one, the cheapest.
ChosenUnit discard_most(const DiscardCost& cost, int node) {
  ChosenUnit unit{.node = node};
  if (cost.points.empty()) {
    unit.discarded = cost.capacity;
    unit.recompute_ms = cost.at(cost.capacity);
  }
  for (std::size_t k = 0; k < cost.points.size(); ++k) {
    const auto& [bytes, ms] = cost.points[k];
    if (unit.point >= 0 &&
        (bytes < unit.discarded || (bytes == unit.discarded && ms >= unit.recompute_ms))) {
      continue;
    }
    unit.point = static_cast<int>(k);
    unit.discarded = bytes;
    unit.recompute_ms = ms;
  }
  return unit;
}

// peak + sum_k >= base at every new maximum of the bases.
void add_peak_rows(const UnitMilpProblem& problem, double scale, const Columns& columns, int peak,
                   MilpProblem& milp) {
  double highest = -kInfinity;
  int previous = -1;
  std::vector<MilpTerm> since;
  for (const int node : by_position(problem.position)) {
    if (problem.base[node] > highest) {
      highest = problem.base[node];
      const int sum = milp.add_column(0, kInfinity);
      std::vector<MilpTerm> terms = std::exchange(since, {});
      if (previous >= 0) terms.push_back({previous, 1});
      terms.push_back({sum, -1});
      milp.add_row(0, std::move(terms), 0);
      milp.add_row(highest / scale, {{peak, 1}, {sum, 1}}, kInfinity);
      previous = sum;
    }
    if (columns.chosen[node] < 0) continue;
    const double most = discard_most(*problem.cost[node], node).discarded;
    since.push_back({columns.chosen[node], most / scale});
  }
}

// The peak of units that are in the order of positions.
double peak_of(const UnitMilpProblem& problem, const std::vector<ChosenUnit>& units) {
  double peak = -kInfinity, discarded_before = 0;
  auto next = units.begin();
  for (const int node : by_position(problem.position)) {
    peak = std::max(peak, problem.base[node] - discarded_before);
    if (next != units.end() && next->node == node) discarded_before += (next++)->discarded;
  }
  return peak;
}

double scale_of(const UnitMilpProblem& problem) {
  double scale = 1;
  for (const double base : problem.base) scale = std::max(scale, std::abs(base));
  return scale;
}

UnitMilpPlan read_plan(const UnitMilpProblem& problem, double scale, const Columns& columns,
                       const std::vector<double>& values) {
  UnitMilpPlan plan;
  for (const int node : by_position(problem.position)) {
    if (columns.chosen[node] < 0 || values[columns.chosen[node]] < 0.5) continue;
    const DiscardCost& cost = *problem.cost[node];
    ChosenUnit unit{.node = node};
    if (cost.points.empty()) {
      unit.discarded = std::clamp(values[columns.discarded[node]] * scale, 0.0, cost.capacity);
      unit.recompute_ms = cost.at(unit.discarded);
    } else {
      unit.point = 0;
      while (values[columns.first_point[node] + unit.point] < 0.5) ++unit.point;
      std::tie(unit.discarded, unit.recompute_ms) = cost.points[unit.point];
    }
    if (unit.discarded == 0) continue;  // a unit for nothing
    plan.recompute_ms += unit.recompute_ms;
    plan.units.push_back(unit);
  }
  plan.peak = peak_of(problem, plan.units);
  return plan;
}

Result<std::set<std::string>> known_units(const std::vector<std::string>& units, const char* list,
                                          const ModuleStats& stats) {
  std::vector<std::string> names;
  for (const ModuleInfo& module : stats.mod_stats) names.push_back(module.fqn);
  const std::set<std::string> known(names.begin(), names.end());
  for (const std::string& unit : units) {
    if (known.contains(unit)) continue;
    return fail(ErrorCode::kNotFound, list, "no module '" + unit + "'", suggest(unit, names));
  }
  return std::set<std::string>(units.begin(), units.end());
}

// The fit as a function of discarded bytes: the ratio is (d + ACM - IA) / ACM.
std::optional<DiscardCost> make_cost(const ModuleInfo& module) {
  if (module.is_leaf || !module.requires_grad || module.slopes.empty()) return std::nullopt;
  if (module.act_fw_per_module == 0) return std::nullopt;
  const auto kept = static_cast<double>(module.act_fw_per_module);
  const double sac_memory = std::max(static_cast<double>(module.sac_memory), kept);
  DiscardCost cost;
  cost.capacity = kept;
  for (std::size_t s = 0; s < module.slopes.size(); ++s) {
    const double start = (sac_memory - kept) / sac_memory;  // the ratio at which d = 0
    cost.pieces.push_back({module.sac_runtime * module.slopes[s] / sac_memory,
                           module.sac_runtime * (module.slopes[s] * start + module.intercepts[s])});
  }
  return cost;
}

}  // namespace

double DiscardCost::at(double discarded) const {
  double ms = 0;
  for (const CostPiece& piece : pieces) {
    ms = std::max(ms, piece.slope * discarded + piece.intercept);
  }
  return ms;
}

Result<Outcome<UnitMilpPlan>> solve_unit_milp(const UnitMilpProblem& problem,
                                              const solve::MilpOptions& options) {
  PLIMSOLL_RETURN_IF_ERROR(check(problem));
  const double scale = scale_of(problem);
  MilpProblem milp;
  const Columns columns = add_candidates(problem, scale, milp);
  add_clique_rows(problem, columns, milp);
  add_prefix_rows(problem, scale, columns, milp);
  PLIMSOLL_ASSIGN(const solve::MilpOutcome solved, solve::solve_milp(milp, options));

  Outcome<UnitMilpPlan> outcome;
  outcome.status = solved.status;
  outcome.stop = solved.stop;
  outcome.certificate = {std::nan(""), solved.lower_bound, "branch and cut"};
  if (solved.status == SolveStatus::kOptimal || solved.status == SolveStatus::kFeasible) {
    outcome.plan = read_plan(problem, scale, columns, solved.values);
    outcome.certificate.objective = outcome.plan->recompute_ms;
  }
  return outcome;
}

Result<Outcome<UnitMilpPlan>> minimise_peak(const UnitMilpProblem& problem,
                                            const solve::MilpOptions& options) {
  PLIMSOLL_RETURN_IF_ERROR(check(problem));
  const double scale = scale_of(problem);
  MilpProblem milp;
  Columns columns;
  double lowest = -1;  // no base is below -scale
  for (std::size_t i = 0; i < problem.base.size(); ++i) {
    columns.chosen.push_back(problem.cost[i] ? milp.add_binary() : -1);
    if (problem.cost[i]) lowest -= problem.cost[i]->capacity / scale;
  }
  add_clique_rows(problem, columns, milp);
  const int peak = milp.add_column(lowest, kInfinity, kPeakWeight);
  add_peak_rows(problem, scale, columns, peak, milp);
  PLIMSOLL_ASSIGN(const solve::MilpOutcome solved, solve::solve_milp(milp, options));

  Outcome<UnitMilpPlan> outcome;
  outcome.status = solved.status;
  outcome.stop = solved.stop;
  outcome.certificate = {std::nan(""), std::nullopt, "branch and cut"};
  if (solved.values.empty()) return outcome;
  UnitMilpPlan& plan = outcome.plan.emplace();
  for (const int node : by_position(problem.position)) {
    if (columns.chosen[node] < 0 || solved.values[columns.chosen[node]] < 0.5) continue;
    plan.units.push_back(discard_most(*problem.cost[node], node));
    plan.recompute_ms += plan.units.back().recompute_ms;
  }
  plan.peak = peak_of(problem, plan.units);
  outcome.certificate.objective = plan.peak;
  if (solved.lower_bound) {
    outcome.certificate.lower_bound =
        std::min(*solved.lower_bound / kPeakWeight * scale, plan.peak);
  }
  return outcome;
}

Result<UnitMilpProblem> make_unit_milp_problem(const ModuleStats& stats, const ModuleTree& tree,
                                               const UnitMilpOptions& options) {
  PLIMSOLL_RETURN_IF_ERROR(check_world_size(options.world_size));
  PLIMSOLL_ASSIGN(const auto ac_units, known_units(options.ac_units, "ac_units", stats));
  PLIMSOLL_ASSIGN(const auto fsdp_units, known_units(options.fsdp_units, "fsdp_units", stats));
  std::set<std::string> excluded(stats.repeated.begin(), stats.repeated.end());
  excluded.insert(stats.fit_failed.begin(), stats.fit_failed.end());

  UnitMilpProblem problem;
  problem.budget = options.budget;
  problem.parent = tree.parent;
  problem.position = tree.position;
  const auto parameters = static_cast<double>(stats.mod_stats.front().param_per_module);
  for (std::size_t i = 0; i < stats.mod_stats.size(); ++i) {
    const ModuleInfo& module = stats.mod_stats[i];
    problem.base.push_back(static_cast<double>(module.act_total + module.act_grad_per_module) +
                           (parameters + static_cast<double>(module.grad_total)) /
                               options.world_size);
    const bool holds_fsdp_unit =
        std::any_of(tree.descendants[i].begin(), tree.descendants[i].end(),
                    [&](int below) { return fsdp_units.contains(stats.mod_stats[below].fqn); });
    const bool is_allowed = !holds_fsdp_unit && !excluded.contains(module.fqn) &&
                            (ac_units.empty() || ac_units.contains(module.fqn));
    problem.cost.push_back(is_allowed ? make_cost(module) : std::nullopt);
  }
  return problem;
}

}  // namespace plimsoll::checkpoint
