#include "plimsoll/checkpoint/sac_milp.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <unordered_set>

#include "checkpoint/milp/milp_options.h"
#include "checkpoint/model/missing_fit.h"
#include "core/python_text.h"
#include "core/suggest.h"
#include "math/milp.h"
#include "plimsoll/checkpoint/module_tree.h"
#include "plimsoll/core/units.h"

namespace plimsoll::checkpoint {
namespace {

using math::MilpProblem;
using math::MilpTerm;

constexpr int kRatioDigits = 4;
constexpr int kTimeDigits = 2;

double to_gib(Bytes bytes) { return static_cast<double>(bytes) / static_cast<double>(kGiB); }

// The figures of one module as the program sees them, in GiB and ms.
struct Node {
  double sac_memory = 0;   // ACM
  double kept = 0;         // IA
  double base = 0;         // while the module runs backward, with nothing discarded
  double activations = 0;  // of that, TA + AG
};

struct Columns {
  std::vector<int> y, r, d, a, m, rcp, rct;
  int max_m = 0;
};

// One warning for all modules; upstream logs five lines for each of them.
void warn_of_overridden(const std::vector<const ModuleInfo*>& modules,
                        std::vector<Warning>& warnings) {
  if (modules.empty()) return;
  const ModuleInfo& first = *modules.front();
  const std::string others =
      modules.size() > 1 ? fmt::format(", and so in {} other module(s)", modules.size() - 1) : "";
  warnings.push_back(
      {"sac_memory_overridden", first.fqn,
       fmt::format("the memory tracker saw {} bytes of activations, the operators {}{}; the "
                   "tracker's figures are taken",
                   first.act_fw_per_module, first.sac_memory, others)});
}

std::vector<Node> make_nodes(const ModuleStats& stats, int world_size,
                             std::vector<Warning>& warnings) {
  std::vector<Node> nodes;
  std::vector<const ModuleInfo*> overridden;
  const double parameters = to_gib(stats.mod_stats.front().param_per_module);
  for (const ModuleInfo& module : stats.mod_stats) {
    Bytes sac_memory = module.sac_memory;
    if (!module.is_leaf && sac_memory < module.act_fw_per_module) {
      overridden.push_back(&module);
      sac_memory = module.act_fw_per_module;
    }
    Node node;
    node.sac_memory = to_gib(sac_memory);
    node.kept = to_gib(module.act_fw_per_module);
    node.activations = to_gib(module.act_total) + to_gib(module.act_grad_per_module);
    node.base = node.activations + (parameters + to_gib(module.grad_total)) / world_size;
    nodes.push_back(node);
  }
  warn_of_overridden(overridden, warnings);
  return nodes;
}

void warn_of_strangers(const std::vector<std::string>& units, const char* list,
                       const ModuleStats& stats, std::vector<Warning>& warnings) {
  std::vector<std::string> names;
  for (const ModuleInfo& module : stats.mod_stats) names.push_back(module.fqn);
  const std::unordered_set<std::string> known(names.begin(), names.end());
  for (const std::string& unit : units) {
    if (known.contains(unit)) continue;
    warnings.push_back(
        {"unknown_module", unit,
         fmt::format("{} names no module of the model; {}", list, suggest(unit, names))});
  }
}

// Modules that may be units at all. Error kValue for one whose recomputation has no price.
Result<std::vector<bool>> find_candidates(const ModuleStats& stats, const SACMilpOptions& options) {
  const std::unordered_set<std::string> chosen(options.ac_units.begin(), options.ac_units.end());
  const std::unordered_set<std::string> failed(stats.fit_failed.begin(), stats.fit_failed.end());
  std::vector<bool> is_candidate;
  for (const ModuleInfo& module : stats.mod_stats) {
    // Quirk, kept: a module contains whatever holds its name and a dot anywhere in its own.
    const std::string above = module.fqn + ".";
    const bool holds_fsdp_unit =
        std::any_of(options.fsdp_units.begin(), options.fsdp_units.end(),
                    [&](const std::string& unit) { return unit.find(above) != std::string::npos; });
    const bool has_failed = module.slopes.empty() && failed.contains(module.fqn);
    const bool may_be_unit = !module.is_leaf && !holds_fsdp_unit && !has_failed &&
                             (chosen.empty() || chosen.contains(module.fqn));
    if (may_be_unit && module.slopes.empty() && module.act_fw_per_module > 0) {
      return refuse_without_fit(module);
    }
    is_candidate.push_back(may_be_unit);
  }
  return is_candidate;
}

Columns add_columns(const std::vector<bool>& is_candidate, double budget, MilpProblem& problem) {
  Columns columns;
  for (const bool is_free : is_candidate) {
    columns.y.push_back(problem.add_column(0, is_free ? 1 : 0, 0, /*is_integer=*/true));
    columns.r.push_back(problem.add_column(0, 1));
    columns.d.push_back(problem.add_column(0, kInfinity));
    columns.a.push_back(problem.add_column(0, kInfinity));
    columns.m.push_back(problem.add_column(0, kInfinity));
    columns.rcp.push_back(problem.add_column(0, kInfinity));
    columns.rct.push_back(problem.add_column(0, kInfinity, /*cost=*/1));
  }
  columns.max_m = problem.add_column(0, kInfinity);
  problem.add_row(-kInfinity, {{columns.max_m, 1}}, budget);
  return columns;
}

void add_nesting_rows(const ModuleTree& tree, const Columns& columns, MilpProblem& problem) {
  for (int i = 0; i < tree.num_modules(); ++i) {
    for (const int j : tree.descendants[i]) {
      problem.add_row(-kInfinity, {{columns.y[i], 1}, {columns.y[j], 1}}, 1);
    }
  }
}

// d = ACM r - (ACM - IA) y, and r between the share that saves nothing and all.
Result<void> add_discard_rows(const ModuleStats& stats, const std::vector<Node>& nodes,
                              const Columns& columns, MilpProblem& problem) {
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const Node& node = nodes[i];
    const double unkept = node.sac_memory - node.kept;
    problem.add_row(
        0, {{columns.d[i], 1}, {columns.r[i], -node.sac_memory}, {columns.y[i], unkept}}, 0);
    problem.add_row(0, {{columns.y[i], 1}, {columns.r[i], -1}}, kInfinity);
    if (stats.mod_stats[i].is_leaf) continue;
    if (node.sac_memory == 0) {
      return fail(ErrorCode::kZeroDivision, stats.mod_stats[i].fqn,
                  "the module is not a leaf, and its operators take no memory",
                  "torch refuses such a model; use another mode");
    }
    problem.add_row(0, {{columns.r[i], 1}, {columns.y[i], -(unkept / node.sac_memory)}}, kInfinity);
  }
  return {};
}

// a = TA + AG - what earlier modules discarded, m = a + parameters and gradients, max_m >= m.
// Quirk, kept: what a module discards itself still counts while it runs backward, what its
// submodules discard does not.
void add_memory_rows(const std::vector<Node>& nodes, const ModuleTree& tree, const Columns& columns,
                     MilpProblem& problem) {
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    std::vector<MilpTerm> terms{{columns.a[i], 1}};
    for (int position = 0; position < tree.position[i]; ++position) {
      terms.push_back({columns.d[tree.post_order[position]], 1});
    }
    problem.add_row(nodes[i].activations, std::move(terms), nodes[i].activations);
    const double states = nodes[i].base - nodes[i].activations;
    problem.add_row(states, {{columns.m[i], 1}, {columns.a[i], -1}}, states);
    problem.add_row(0, {{columns.max_m, 1}, {columns.m[i], -1}}, kInfinity);
  }
}

// rcp >= every segment, rct = T rcp where y = 1 and 0 elsewhere.
// Quirk, kept: M is not a bound. A unit dearer than M cannot be chosen, and a module whose segments
// reach above M / T makes every budget infeasible, chosen or not.
void add_time_rows(const ModuleStats& stats, const Variant& variant, const Columns& columns,
                   MilpProblem& problem) {
  double max_runtime = 0;
  for (const ModuleInfo& module : stats.mod_stats) {
    max_runtime = std::max(max_runtime, module.sac_runtime);
  }
  const double big_m =
      std::max(variant.big_m_floor_ms, variant.big_m_per_sac_runtime * max_runtime);
  for (std::size_t i = 0; i < stats.mod_stats.size(); ++i) {
    const ModuleInfo& module = stats.mod_stats[i];
    const double runtime = module.sac_runtime;
    for (std::size_t s = 0; s < module.slopes.size(); ++s) {
      problem.add_row(module.intercepts[s],
                      {{columns.rcp[i], 1}, {columns.r[i], -module.slopes[s]}}, kInfinity);
    }
    problem.add_row(-kInfinity, {{columns.rct[i], 1}, {columns.y[i], -big_m}}, 0);
    problem.add_row(-kInfinity, {{columns.rct[i], 1}, {columns.rcp[i], -runtime}}, 0);
    problem.add_row(-big_m,
                    {{columns.rct[i], 1}, {columns.rcp[i], -runtime}, {columns.y[i], -big_m}},
                    kInfinity);
  }
}

void read_plan(const ModuleStats& stats, const std::vector<Node>& nodes, const ModuleTree& tree,
               const Columns& columns, const std::vector<double>& values, SACMilpResult& result) {
  std::vector<double> discarded(nodes.size());
  double recompute_ms = 0;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    recompute_ms += values[columns.rct[i]];
    if (python_round(values[columns.y[i]]) != 1) continue;
    const double ratio = values[columns.r[i]];
    discarded[i] = nodes[i].sac_memory * ratio - (nodes[i].sac_memory - nodes[i].kept);
    result.decisions.emplace_back(stats.mod_stats[i].fqn, python_round(ratio, kRatioDigits));
  }
  result.recompute_ms = python_round(recompute_ms, kTimeDigits);

  CheckpointPolicy policy;
  double discarded_before = 0, peak = 0;
  for (const int i : tree.post_order) {
    peak = std::max(peak, nodes[i].base - discarded_before);
    discarded_before += discarded[i];
    if (python_round(values[columns.y[i]]) != 1) continue;
    CheckpointUnit unit;
    unit.fqns = {stats.mod_stats[i].fqn};
    unit.discard_ratio = values[columns.r[i]];
    unit.kind = unit.discard_ratio == 1 ? UnitKind::kFull : UnitKind::kSelective;
    unit.discarded = python_round(discarded[i] * static_cast<double>(kGiB));
    unit.recompute_ms = values[columns.rct[i]];
    policy.units.push_back(std::move(unit));
  }
  result.peak_bytes = python_round(peak * static_cast<double>(kGiB));
  result.outcome.plan = std::move(policy);
}

}  // namespace

Result<SACMilpResult> plan_like_sac_milp(const ModuleStats& stats, const SACMilpOptions& options) {
  PLIMSOLL_RETURN_IF_ERROR(check_budget_in_gib(options.memory_budget));
  PLIMSOLL_RETURN_IF_ERROR(check_world_size(options.world_size));
  PLIMSOLL_RETURN_IF_ERROR(validate(stats));
  PLIMSOLL_ASSIGN(const ModuleTree tree, make_module_tree(stats, Ancestry::kSubstring));
  SACMilpResult result;
  std::vector<Warning>& warnings = result.outcome.warnings;
  warn_of_strangers(options.ac_units, "ac_units", stats, warnings);
  warn_of_strangers(options.fsdp_units, "fsdp_units", stats, warnings);
  const std::vector<Node> nodes = make_nodes(stats, options.world_size, warnings);

  MilpProblem problem;
  PLIMSOLL_ASSIGN(const std::vector<bool> candidates, find_candidates(stats, options));
  const Columns columns = add_columns(candidates, options.memory_budget, problem);
  add_nesting_rows(tree, columns, problem);
  PLIMSOLL_RETURN_IF_ERROR(add_discard_rows(stats, nodes, columns, problem));
  add_memory_rows(nodes, tree, columns, problem);
  add_time_rows(stats, options.variant, columns, problem);
  PLIMSOLL_ASSIGN(const math::MilpOutcome solved,
                  math::solve_milp(problem, {.relative_gap = options.relative_gap,
                                             .time_limit_s = options.time_limit_s,
                                             .as_program = true,
                                             .context = options.context}));

  result.outcome.status = solved.status;
  result.outcome.stop = solved.stop;
  result.outcome.certificate = {std::nan(""), solved.lower_bound, ProofKind::kBranchAndCut};
  if (solved.values.empty()) return result;
  result.outcome.certificate.objective = solved.objective;
  read_plan(stats, nodes, tree, columns, solved.values, result);
  return result;
}

}  // namespace plimsoll::checkpoint
