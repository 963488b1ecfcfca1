#include "checkpoint/torch/fsdp_milp.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <unordered_map>
#include <utility>

#include "checkpoint/milp/milp_options.h"
#include "core/suggest.h"
#include "math/milp.h"
#include "plimsoll/checkpoint/module_tree.h"
#include "plimsoll/core/units.h"

namespace plimsoll::checkpoint {
namespace {

using math::MilpProblem;
using math::MilpTerm;

double to_gib(double bytes) { return bytes / static_cast<double>(kGiB); }

// The figures of one module that the program needs: bytes, and ms of its collectives as a unit.
struct ShardedNode {
  double parameters = 0;
  double gradients = 0;
  double base = 0;  // without what unsharded units take: activations, temporaries, shares
  double gather_ms = 0;
  double reduce_ms = 0;
  double forward_ms = 0;
  double backward_ms = 0;
};

struct ShardedInstance {
  std::vector<ShardedNode> nodes;
  ModuleTree tree;
  std::vector<std::vector<int>> holders;  // [n] modules above one, itself first
  CollectiveCost all_gather, reduce_scatter;
};

double cost_of(const CollectiveCost& collective, double bytes) {
  return collective.latency_ms + bytes / collective.bandwidth;
}

Result<void> check_options(const FSDPOptions& options) {
  PLIMSOLL_RETURN_IF_ERROR(check_budget_in_gib(options.memory_budget));
  PLIMSOLL_RETURN_IF_ERROR(check_world_size(options.world_size));
  for (const auto& [collective, place] : {std::pair{options.all_gather, "all_gather"},
                                          std::pair{options.reduce_scatter, "reduce_scatter"}}) {
    const bool is_right = std::isfinite(collective.latency_ms) && collective.latency_ms >= 0 &&
                          std::isfinite(collective.bandwidth) && collective.bandwidth > 0;
    if (is_right) continue;
    return fail(ErrorCode::kValue, place,
                fmt::format("a latency of {} ms and a bandwidth of {} bytes per ms",
                            double{collective.latency_ms}, double{collective.bandwidth}),
                "give a latency of at least 0 and a bandwidth above 0");
  }
  return {};
}

Result<ShardedInstance> make_instance(const ModuleStats& stats, const FSDPOptions& options) {
  PLIMSOLL_RETURN_IF_ERROR(check_options(options));
  PLIMSOLL_RETURN_IF_ERROR(validate(stats));
  ShardedInstance instance;
  PLIMSOLL_ASSIGN(instance.tree, make_module_tree(stats, Ancestry::kSubstring));
  instance.all_gather = options.all_gather;
  instance.reduce_scatter = options.reduce_scatter;
  const auto total = static_cast<double>(stats.mod_stats.front().param_per_module);
  for (const ModuleInfo& module : stats.mod_stats) {
    ShardedNode node;
    node.parameters = static_cast<double>(module.param_per_module);
    node.gradients = static_cast<double>(module.grad_per_module);
    node.base = static_cast<double>(module.act_total + module.act_grad_per_module) +
                (total + static_cast<double>(module.grad_total)) / options.world_size;
    node.gather_ms = cost_of(options.all_gather, node.parameters);
    node.reduce_ms = cost_of(options.reduce_scatter, node.gradients);
    node.forward_ms = module.fw_runtime_per_module;
    node.backward_ms = module.bw_runtime_per_module;
    instance.nodes.push_back(node);
  }
  instance.holders.resize(instance.nodes.size());
  for (int i = 0; i < instance.tree.num_modules(); ++i) {
    instance.holders[i].push_back(i);
    for (const int below : instance.tree.descendants[i]) instance.holders[below].push_back(i);
  }
  return instance;
}

Result<std::vector<bool>> find_units(const ModuleStats& stats,
                                     const std::vector<std::string>& units) {
  std::vector<std::string> names;
  for (const ModuleInfo& module : stats.mod_stats) names.push_back(module.fqn);
  std::vector<bool> is_unit(names.size());
  is_unit[0] = true;
  for (const std::string& unit : units) {
    const auto found = std::find(names.begin(), names.end(), unit);
    if (found == names.end()) {
      return fail(ErrorCode::kNotFound, "fsdp_units", "no module '" + unit + "'",
                  suggest(unit, names));
    }
    is_unit[found - names.begin()] = true;
  }
  return is_unit;
}

Result<void> check_nesting(const ModuleStats& stats, const ShardedInstance& instance,
                           const std::vector<bool>& is_unit) {
  for (std::size_t i = 1; i < is_unit.size(); ++i) {
    for (const int below : instance.tree.descendants[i]) {
      if (!is_unit[i] || !is_unit[below]) continue;
      return fail(ErrorCode::kConflict, stats.mod_stats[below].fqn,
                  "this unit lies within the unit " + stats.mod_stats[i].fqn,
                  "make one of the two a unit");
    }
  }
  return {};
}

// `order` lists modules, the root nowhere or first. For each module the next unit after it, -1
// where there is none.
std::vector<int> next_units(const std::vector<int>& order, const std::vector<bool>& is_unit) {
  std::vector<int> next(is_unit.size(), -1);
  int coming = -1;
  for (std::size_t k = order.size(); k-- > 0;) {
    next[order[k]] = coming;
    if (is_unit[order[k]]) coming = order[k];
  }
  return next;
}

std::vector<int> list_order(const ShardedInstance& instance) {
  std::vector<int> order(instance.nodes.size());
  std::iota(order.begin(), order.end(), 0);
  return order;
}

FSDPPlan price(const ModuleStats& stats, const ShardedInstance& instance,
               const std::vector<bool>& is_unit) {
  const std::vector<ShardedNode>& nodes = instance.nodes;
  const std::vector<int> forward = list_order(instance);
  const std::vector<int> backward(instance.tree.post_order.rbegin(),
                                  instance.tree.post_order.rend());
  const std::vector<int> next_forward = next_units(forward, is_unit);
  const std::vector<int> next_backward = next_units(backward, is_unit);
  const auto gather = [&](int unit) { return unit < 0 ? 0 : nodes[unit].gather_ms; };
  const auto reduce = [&](int unit) { return unit < 0 ? 0 : nodes[unit].reduce_ms; };

  FSDPPlan plan;
  double parameters = nodes[0].parameters, gradients = nodes[0].gradients;  // of the root unit
  double largest = 0;
  for (std::size_t i = 1; i < nodes.size(); ++i) {
    if (!is_unit[i]) continue;
    parameters -= nodes[i].parameters;
    gradients -= nodes[i].gradients;
    largest = std::max(largest, nodes[i].parameters);
    plan.exposed_ms += std::max(0.0, gather(next_forward[i]) - nodes[i].forward_ms);
    // Backward, the unit that ran before this one is the one after it in the list.
    plan.exposed_ms +=
        std::max(0.0, gather(next_backward[i]) + reduce(next_forward[i]) - nodes[i].backward_ms);
  }
  plan.exposed_ms += cost_of(instance.all_gather, parameters) +
                     cost_of(instance.reduce_scatter, gradients) + gather(next_forward[0]) +
                     reduce(next_forward[0]);
  largest = std::max(largest, parameters);

  double peak = 0;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    double memory = nodes[i].base + parameters + gradients;
    for (const int holder : instance.holders[i]) {
      if (holder != 0 && is_unit[holder]) {
        memory += nodes[holder].parameters + nodes[holder].gradients;
      }
    }
    peak = std::max(peak, memory);
  }
  plan.peak_bytes = static_cast<Bytes>(std::ceil(peak + 2 * largest));
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    if (is_unit[i]) plan.units.push_back(stats.mod_stats[i].fqn);
  }
  return plan;
}

// Columns that hold, for each module, the time that the next unit after it in `order` takes.
// next(i) = that of its successor if the successor is a unit, else what the successor has.
std::vector<int> add_next_times(const std::vector<int>& order, const std::vector<int>& is_unit,
                                const std::vector<double>& times, double most,
                                MilpProblem& problem) {
  std::vector<int> next(order.size());
  for (std::size_t k = order.size(); k-- > 0;) {
    next[order[k]] = problem.add_column(0, most);
    if (k + 1 == order.size()) continue;
    const int after = order[k + 1];
    problem.add_row(0, {{next[order[k]], 1}, {is_unit[after], -times[after]}}, kInfinity);
    problem.add_row(0, {{next[order[k]], 1}, {next[after], -1}, {is_unit[after], most}}, kInfinity);
  }
  return next;
}

// exposed >= sum of `hiding` - computed where the module is a unit.
void add_exposed(int is_unit, const std::vector<int>& hiding, double most, double computed,
                 MilpProblem& problem) {
  if (computed >= most) return;
  const int exposed = problem.add_column(0, kInfinity, /*cost=*/1);
  std::vector<MilpTerm> terms{{exposed, 1}, {is_unit, -(most - computed)}};
  for (const int column : hiding) terms.push_back({column, -1});
  problem.add_row(-most, std::move(terms), kInfinity);
}

// The binaries, and the root's parameters in GiB.
std::vector<int> add_memory(const ShardedInstance& instance, double budget,
                            const std::vector<std::pair<double, double>>& bounds,
                            MilpProblem& problem) {
  const std::vector<ShardedNode>& nodes = instance.nodes;
  std::vector<int> is_unit;
  for (const auto& [lower, upper] : bounds) {
    is_unit.push_back(problem.add_column(lower, upper, 0, /*is_integer=*/true));
  }
  for (std::size_t i = 1; i < nodes.size(); ++i) {
    for (const int below : instance.tree.descendants[i]) {
      problem.add_row(-kInfinity, {{is_unit[i], 1}, {is_unit[below], 1}}, 1);
    }
  }
  const int largest = problem.add_column(0, kInfinity);
  std::vector<MilpTerm> root{{largest, 1}};  // largest >= what the root keeps for itself
  for (std::size_t i = 1; i < nodes.size(); ++i) {
    const double parameters = to_gib(nodes[i].parameters);
    root.push_back({is_unit[i], parameters});
    problem.add_row(0, {{largest, 1}, {is_unit[i], -parameters}}, kInfinity);
  }
  problem.add_row(to_gib(nodes[0].parameters), std::move(root), kInfinity);
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    std::vector<double> own(nodes.size());
    for (std::size_t j = 1; j < nodes.size(); ++j) {
      own[j] = -to_gib(nodes[j].parameters + nodes[j].gradients);
    }
    for (const int holder : instance.holders[i]) own[holder] = 0;
    std::vector<MilpTerm> terms{{largest, 2}};
    for (std::size_t j = 1; j < nodes.size(); ++j) {
      if (own[j] != 0) terms.push_back({is_unit[j], own[j]});
    }
    problem.add_row(-kInfinity, std::move(terms),
                    budget - to_gib(nodes[i].base + nodes[0].parameters + nodes[0].gradients));
  }
  return is_unit;
}

void add_time(const ShardedInstance& instance, const std::vector<int>& is_unit,
              MilpProblem& problem) {
  const std::vector<ShardedNode>& nodes = instance.nodes;
  std::vector<double> gather(nodes.size()), reduce(nodes.size());
  for (std::size_t i = 1; i < nodes.size(); ++i) {
    gather[i] = nodes[i].gather_ms;
    reduce[i] = nodes[i].reduce_ms;
    // What the root no longer gathers and reduces itself.
    problem.columns[is_unit[i]].cost -= nodes[i].parameters / instance.all_gather.bandwidth +
                                        nodes[i].gradients / instance.reduce_scatter.bandwidth;
  }
  const double most_gather = *std::max_element(gather.begin(), gather.end());
  const double most_reduce = *std::max_element(reduce.begin(), reduce.end());
  const std::vector<int> forward = list_order(instance);
  const std::vector<int> backward(instance.tree.post_order.rbegin(),
                                  instance.tree.post_order.rend());
  const auto next_gather = add_next_times(forward, is_unit, gather, most_gather, problem);
  const auto next_reduce = add_next_times(forward, is_unit, reduce, most_reduce, problem);
  const auto back_gather = add_next_times(backward, is_unit, gather, most_gather, problem);
  for (std::size_t i = 1; i < nodes.size(); ++i) {
    add_exposed(is_unit[i], {next_gather[i]}, most_gather, nodes[i].forward_ms, problem);
    add_exposed(is_unit[i], {back_gather[i], next_reduce[i]}, most_gather + most_reduce,
                nodes[i].backward_ms, problem);
  }
  problem.columns[next_gather[0]].cost = 1;
  problem.columns[next_reduce[0]].cost = 1;
}

}  // namespace

Result<FSDPPlan> price_fsdp_units(const ModuleStats& stats, const FSDPOptions& options,
                                  const std::vector<std::string>& units) {
  PLIMSOLL_ASSIGN(const ShardedInstance instance, make_instance(stats, options));
  PLIMSOLL_ASSIGN(const std::vector<bool> is_unit, find_units(stats, units));
  PLIMSOLL_RETURN_IF_ERROR(check_nesting(stats, instance, is_unit));
  return price(stats, instance, is_unit);
}

Result<Outcome<FSDPPlan>> plan_fsdp_units(const ModuleStats& stats, const FSDPOptions& options) {
  PLIMSOLL_ASSIGN(const ShardedInstance instance, make_instance(stats, options));
  PLIMSOLL_ASSIGN(const std::vector<bool> named, find_units(stats, options.fsdp_units));
  PLIMSOLL_RETURN_IF_ERROR(check_nesting(stats, instance, named));
  std::vector<std::pair<double, double>> bounds;
  for (std::size_t i = 0; i < named.size(); ++i) {
    const bool is_open = options.fsdp_units.empty() && i > 0;
    bounds.emplace_back(named[i] ? 1 : 0, named[i] || is_open ? 1 : 0);
  }

  MilpProblem problem;
  const std::vector<int> is_unit = add_memory(instance, options.memory_budget, bounds, problem);
  add_time(instance, is_unit, problem);
  // The times of a root that is the only unit, for which the gap is meant, too.
  const double alone = instance.nodes[0].gather_ms + instance.nodes[0].reduce_ms;
  problem.add_column(1, 1, alone);
  PLIMSOLL_ASSIGN(const math::MilpOutcome solved,
                  math::solve_milp(problem, {.relative_gap = options.relative_gap,
                                             .time_limit_s = options.time_limit_s}));

  Outcome<FSDPPlan> outcome;
  outcome.status = solved.status;
  outcome.stop = solved.stop;
  outcome.certificate = {std::nan(""), solved.lower_bound, ProofKind::kBranchAndCut};
  if (solved.values.empty()) return outcome;
  std::vector<bool> chosen;
  for (const int column : is_unit) chosen.push_back(solved.values[column] > 0.5);
  outcome.plan = price(stats, instance, chosen);
  outcome.certificate.objective = outcome.plan->exposed_ms;
  return outcome;
}

}  // namespace plimsoll::checkpoint
