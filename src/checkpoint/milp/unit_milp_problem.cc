#include "checkpoint/milp/unit_milp_problem.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "checkpoint/milp/milp_options.h"
#include "core/suggest.h"

namespace plimsoll::checkpoint {
namespace {

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

Result<void> check_unit_milp_problem(const UnitMilpProblem& problem) {
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
  if (problem.others < 0 || !std::isfinite(problem.kept)) {
    return fail(ErrorCode::kValue, "others", "a figure is negative or not finite",
                "give a number of microbatches, and the finite bytes of one");
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
        return fail(ErrorCode::kConflict, place, "its parents form a cycle",
                    "give each tree one root");
      }
    }
    bool is_finite = std::isfinite(problem.base[i]);
    if (const auto& cost = problem.cost[i]) {
      is_finite &= std::isfinite(cost->capacity) && cost->capacity >= 0;
      for (const SlopePiece& piece : cost->pieces) {
        is_finite &= std::isfinite(piece.slope) && std::isfinite(piece.intercept);
      }
      for (const auto& [bytes, ms] : cost->points) {
        is_finite &= bytes >= 0 && bytes <= cost->capacity && ms >= 0 && std::isfinite(ms);
      }
      is_finite &= cost->need < kInfinity;
      for (const double need : cost->point_needs) is_finite &= need < kInfinity;
      if (!cost->point_needs.empty() && cost->point_needs.size() != cost->points.size()) {
        return fail(ErrorCode::kSchema, place, "its points and their needs are not as many",
                    "give each point one need, or none any");
      }
    }
    if (!is_finite) {
      return fail(ErrorCode::kValue, place, "a figure is negative or not finite",
                  "give finite figures, and a capacity of at least 0");
    }
  }
  return {};
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
