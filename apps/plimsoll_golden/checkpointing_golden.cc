#include "checkpointing_golden.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <string_view>
#include <utility>

#include "checkpoint/milp/unit_milp.h"
#include "checkpoint/model/baseline.h"
#include "checkpoint/torch/policy_per_module.h"
#include "checkpoint/trace/piecewise_fit.h"
#include "checkpoint/trace/sac_greedy_order.h"
#include "core/python_text.h"
#include "knapsack_golden.h"
#include "plimsoll/checkpoint/frontier_search.h"
#include "plimsoll/checkpoint/module_stats.h"
#include "plimsoll/checkpoint/module_tree.h"
#include "plimsoll/checkpoint/sac_milp.h"

namespace plimsoll::golden {
namespace {

using checkpoint::ModuleStats;
using checkpoint::ModuleTree;
using checkpoint::SACStats;
using checkpoint::UnitMilpProblem;

constexpr double kGiBDouble = 0x1p30;

// ---------------------------------------------------------------------------- nearness
// The checker compares bit for bit. Where a record is rounded or random, the answer is the recorded
// number if ours is near enough, and ours if it is not.

struct Nearness {
  double relative = 0;
  double absolute = 0;
};
constexpr Nearness kSummedOtherwise{1e-12, 1e-300};  // the same terms in another order
constexpr Nearness kSixDigits{1e-8, 6e-7};           // rounded to 6 digits
constexpr Nearness kRandomFit{1e-3, 1e-3};           // upstream's breaks are random

Json snap(const Json* recorded, const Json& ours, Nearness nearness) {
  if (recorded == nullptr) return ours;
  if (recorded->is_array() && ours.is_array() && recorded->size() == ours.size()) {
    Json snapped = Json::array();
    for (std::size_t i = 0; i < ours.size(); ++i) {
      snapped.push_back(snap(&(*recorded)[i], ours[i], nearness));
    }
    return snapped;
  }
  if (!recorded->is_number() || !ours.is_number()) return ours;
  const auto expected = recorded->get<double>();
  const double allowed = nearness.absolute + nearness.relative * std::abs(expected);
  return std::abs(ours.get<double>() - expected) <= allowed ? *recorded : ours;
}

// `recorded` where `holds`, else a text that says what does not.
Json accept(const Json* recorded, bool holds, std::string_view otherwise) {
  return holds && recorded != nullptr ? *recorded : Json(otherwise);
}

// ---------------------------------------------------------------------------- inputs

void reject(const Error& error, Fields& record) {
  if (record.reading().error) return;
  record.reading().error = error;
  record.reading().error->place = fmt::format("{}: {}", record.place(), error.place);
}

SACStats read_operators(Fields& fields) {
  SACStats stats;
  stats.runtimes = fields.need<std::vector<double>>("runtimes");
  stats.memory = fields.need<std::vector<Bytes>>("memory");
  stats.func_names =
      fields.value("func_names", std::vector<std::string>(stats.memory.size(), "op"));
  stats.view_like_ops = fields.value("view_like_ops", std::vector<int>{});
  stats.rand_ops = fields.value("rand_ops", std::vector<int>{});
  stats.saved_autograd_ops = fields.value("saved_autograd_ops", std::vector<int>{});
  stats.inplace_ops = fields.value("inplace_ops", std::vector<std::pair<int, int>>{});
  stats.force_store_random = fields.value("force_store_random", false);
  if (const auto valid = checkpoint::validate(stats); !valid) reject(valid.error(), fields);
  return stats;
}

SACStats read_operators_below(Fields& record, std::string_view key) {
  static const Json kEmpty = Json::object();
  const Json* json = record.child(key);
  if (json == nullptr) record.need<std::string>(key);
  Fields fields(json ? *json : kEmpty, std::string(key), record.place(key), record.reading());
  return read_operators(fields);
}

checkpoint::ModuleInfo read_module(Fields& fields) {
  checkpoint::ModuleInfo module;
  module.fqn = fields.need<std::string>("fqn");
  module.is_leaf = fields.need<bool>("is_leaf");
  module.param_per_module = fields.need<Bytes>("param_per_module");
  module.grad_per_module = fields.value("grad_per_module", module.param_per_module);
  module.grad_total = fields.need<Bytes>("grad_total");
  module.act_fw_per_module = fields.need<Bytes>("act_fw_per_module");
  module.act_grad_per_module = fields.need<Bytes>("act_grad_per_module");
  module.act_total = fields.need<Bytes>("act_total");
  module.input_per_module = fields.value("input_per_module", Bytes{0});
  module.output_per_module = fields.value("output_per_module", Bytes{0});
  module.fw_runtime_per_module = fields.value("fw_runtime_per_module", 0.0);
  module.bw_runtime_per_module = fields.value("bw_runtime_per_module", 0.0);
  module.sac_runtime = fields.need<double>("sac_runtime");
  module.sac_memory = fields.need<Bytes>("sac_memory");
  module.n_segments = fields.need<int>("n_segments");
  module.slopes = fields.need<std::vector<double>>("slopes");
  module.intercepts = fields.need<std::vector<double>>("intercepts");
  module.breakpoints = fields.value("breakpoints", std::vector<double>{});
  return module;
}

void read_modules(Fields& record, std::string_view key, ModuleStats& stats) {
  const Json* modules = record.child(key);
  if (modules == nullptr || !modules->is_array()) {
    record.reject(key, modules ? *modules : Json());
    return;
  }
  for (std::size_t i = 0; i < modules->size(); ++i) {
    Fields fields((*modules)[i], std::string(key), fmt::format("{}[{}]", record.place(key), i),
                  record.reading());
    stats.mod_stats.push_back(read_module(fields));
  }
}

// A record of `trees`.
ModuleStats read_tree(Fields& record) {
  ModuleStats stats;
  stats.name = record.need<std::string>("name");
  const Json* json = record.child("mod_order");
  if (json == nullptr) {
    record.need<std::string>("mod_order");
    return stats;
  }
  {
    Fields order(*json, "mod_order", record.place("mod_order"), record.reading());
    stats.mod_order.fw_pre_order = order.need<std::vector<std::string>>("fw_pre_order");
    stats.mod_order.fw_post_order = order.need<std::vector<std::string>>("fw_post_order");
  }
  read_modules(record, "mod_stats", stats);
  if (record.reading().error) return stats;
  if (const auto valid = checkpoint::validate(stats); !valid) reject(valid.error(), record);
  return stats;
}

// A record of `sac_instances`: the nodes stand in forward order.
ModuleStats read_instance(Fields& record) {
  ModuleStats stats;
  stats.name = record.need<std::string>("name");
  stats.mod_order.fw_post_order = record.need<std::vector<std::string>>("fw_post_order");
  read_modules(record, "nodes", stats);
  for (const auto& module : stats.mod_stats) stats.mod_order.fw_pre_order.push_back(module.fqn);
  if (record.reading().error) return stats;
  if (const auto valid = checkpoint::validate(stats); !valid) reject(valid.error(), record);
  return stats;
}

// The tree of that name in the same file.
std::optional<ModuleStats> find_tree(const std::string& name, Fields& record) {
  const Json& document = *record.reading().document;
  if (document.contains("trees")) {
    for (const Json& tree : document["trees"]) {
      if (!tree.is_object() || tree.value("name", std::string()) != name) continue;
      Reading reading;  // the tree's own record answers for its fields
      ModuleStats stats;
      {
        Fields fields(tree, "", "trees." + name, reading);
        stats = read_tree(fields);
      }
      if (!reading.error) return stats;
    }
  }
  record.reject("tree", name);
  return std::nullopt;
}

// ---------------------------------------------------------------------------- units

// Null where nothing fits.
Json least_recompute(const UnitMilpProblem& problem) {
  const auto outcome = checkpoint::solve_unit_milp(problem);
  if (!outcome) return Json(format_error(outcome.error()));
  switch (outcome->status) {
    case SolveStatus::kOptimal:
      return outcome->plan ? Json(outcome->plan->recompute_ms) : Json("no plan");
    case SolveStatus::kInfeasible:
      return Json();
    case SolveStatus::kFeasible:
    case SolveStatus::kLimit:
      break;
  }
  return Json(to_string(outcome->status));
}

// Recorded ratios, rounded to 4 digits, as a plan of the problem: what it takes and whether it
// fits, both as near as the rounding lets one tell.
struct Priced {
  double recompute_ms = 0;
  double rounding_ms = 0;
  bool fits = true;
};

Priced price(const Json& decisions, const ModuleStats& stats, const UnitMilpProblem& problem) {
  constexpr double kRounding = 0.5e-4;
  Priced priced;
  std::map<int, std::pair<double, double>> discarded;  // by position: bytes, and their rounding
  for (const auto& [fqn, ratio] : decisions.items()) {
    const auto module =
        std::find_if(stats.mod_stats.begin(), stats.mod_stats.end(),
                     [&name = fqn](const auto& candidate) { return candidate.fqn == name; });
    const auto i = static_cast<std::size_t>(module - stats.mod_stats.begin());
    if (module == stats.mod_stats.end() || !ratio.is_number() || !problem.cost[i]) {
      return {std::numeric_limits<double>::quiet_NaN(), 0, false};
    }
    const auto sac_memory =
        static_cast<double>(std::max(module->sac_memory, module->act_fw_per_module));
    const auto kept = static_cast<double>(module->act_fw_per_module);
    const double bytes = ratio.get<double>() * sac_memory - (sac_memory - kept);
    const double rounding = kRounding * sac_memory;
    priced.recompute_ms += problem.cost[i]->at(bytes);
    priced.rounding_ms +=
        problem.cost[i]->at(bytes + rounding) - problem.cost[i]->at(bytes - rounding);
    discarded[problem.position[i]] = {bytes, rounding};
  }
  for (std::size_t i = 0; i < problem.base.size(); ++i) {
    double need = problem.base[i] - problem.budget;
    for (const auto& [position, bytes] : discarded) {
      if (position < problem.position[i]) need -= bytes.first + bytes.second;
    }
    priced.fits &= need <= 1;  // a byte
  }
  return priced;
}

// ---------------------------------------------------------------------------- answers

// Does our frontier run along the recorded pieces? Recorded ends are fractions of bytes and rounded
// to 9 digits, ours are whole bytes: pieces are compared just inside their ends and in the middle.
bool runs_along(const math::Frontier& frontier, const Json& rows) {
  if (frontier.is_empty()) return rows.empty();
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const double from = rows[i][0], ms = rows[i][1], slope = rows[i][2];
    const double to = i + 1 < rows.size() ? rows[i + 1][0].get<double>() : from + kGiBDouble;
    const double inset = std::min(64.0, (to - from) / 4);
    for (const double at : {from + inset, (from + to) / 2, to - inset}) {
      const auto bytes = static_cast<Bytes>(std::llround(at));
      const double expected = ms + slope * (static_cast<double>(bytes) - from);
      const auto ours = frontier.ms_at(bytes);
      if (!ours || std::abs(*ours - expected) > 1e-6 * (1 + std::abs(expected))) return false;
    }
  }
  const double first = rows[0][0];
  return !frontier.ms_at(static_cast<Bytes>(first) - 64).has_value();
}

Json answer_frontier(const Json* recorded, const ModuleStats& stats,
                     const checkpoint::ModuleTree& tree, int world_size) {
  checkpoint::MemoryModel model;
  model.world_size = world_size;
  const auto frontier = checkpoint::make_checkpoint_problem(stats, tree, model)
                            .and_then([](const checkpoint::CheckpointProblem& problem) {
                              return checkpoint::plan_frontier(problem);
                            });
  if (!frontier || !frontier->plan) return Json("no frontier");
  return accept(recorded, runs_along(*frontier->plan, *recorded), "another frontier");
}

Json answer_instance(Fields& record) {
  const ModuleStats stats = read_instance(record);
  checkpoint::UnitMilpOptions options;
  options.world_size = record.need<int>("world_size");
  const Json* frontier = record.child("frontier");
  const Json* recorded = record.child("expected");
  if (record.reading().error || recorded == nullptr) return Json::object();
  const auto tree = checkpoint::make_module_tree(stats);
  if (!tree) {
    reject(tree.error(), record);
    return Json();
  }
  Json answer;
  if (frontier != nullptr) {
    answer["frontier"] = answer_frontier(frontier, stats, *tree, options.world_size);
  }
  answer["expected"] = Json::array();
  for (const Json& row : *recorded) {
    Json ours = Json::object();
    {
      Fields fields(row, "expected", record.place("expected"), record.reading());
      const auto budget = fields.need<double>("budget_gib");
      options.budget = budget * kGiBDouble;
      const auto problem = checkpoint::make_unit_milp_problem(stats, *tree, options);
      if (!problem) {
        reject(problem.error(), record);
        return Json();
      }
      ours["budget_gib"] = budget;
      const Json least = least_recompute(*problem);
      ours["obj"] = snap(fields.child("obj"), least.is_null() ? Json(-1.0) : least, kSixDigits);
      if (const Json* solution = fields.child("a_solution")) {
        const Priced priced = price(*solution, stats, *problem);
        const double gap =
            std::abs(priced.recompute_ms - (least.is_number() ? least.get<double>() : -1));
        ours["a_solution"] =
            accept(solution, priced.fits && gap <= priced.rounding_ms + 1e-6, "no such plan");
      }
    }
    answer["expected"].push_back(std::move(ours));
  }
  return answer;
}

Json curve_json(const std::vector<checkpoint::CurvePoint>& points) {
  Json json = Json::array();
  for (const auto& [x, y] : points) json.push_back({x, y});
  return json;
}

Json answer_block(Fields& record) {
  record.child("comment");
  record.need<std::vector<std::string>>("columns");
  const Json* rows = record.child("ops");
  // The times are recorded to 9 digits, which makes two of equal bytes per millisecond unequal; to
  // 6 they are equal again.
  constexpr int kDigits = 6;
  constexpr Nearness kRounded{5e-6, 5e-6};
  SACStats stats;
  for (std::size_t i = 0; rows != nullptr && i < rows->size(); ++i) {
    const Json& row = (*rows)[i];
    if (!row.is_array() || row.size() != 5 || !row[0].is_string()) {
      record.reject("ops", row);
      return Json();
    }
    stats.func_names.push_back(row[0].get<std::string>());
    stats.runtimes.push_back(python_round(row[1].get<double>(), kDigits));
    stats.memory.push_back(row[2].get<Bytes>());
    if (row[3].get<int>() != 0) stats.view_like_ops.push_back(static_cast<int>(i));
    if (row[4].get<int>() != 0) stats.rand_ops.push_back(static_cast<int>(i));
  }
  if (record.reading().error) return Json();
  const auto curve = checkpoint::make_tradeoff_curve(stats, checkpoint::make_greedy_order(stats));
  const auto fit = curve.and_then(
      [](const auto& drawn) { return checkpoint::fit_tradeoff_curve(drawn.points); });
  if (!fit) {
    reject(fit.error(), record);
    return Json();
  }
  Json answer;
  answer["sac_memory"] = curve->sac_memory;
  answer["sac_runtime"] = snap(record.child("sac_runtime"), curve->sac_runtime, kRounded);
  answer["curve"] = snap(record.child("curve"), curve_json(curve->points), kRounded);
  if (const Json* recorded = record.child("fit")) {
    Fields fields(*recorded, "fit", record.place("fit"), record.reading());
    answer["fit"]["slopes"] = snap(fields.child("slopes"), fit->slopes, kRounded);
    answer["fit"]["intercepts"] = snap(fields.child("intercepts"), fit->intercepts, kRounded);
    answer["fit"]["breaks"] = snap(fields.child("breaks"), fit->breaks, kRounded);
    answer["fit"]["ssr"] = snap(fields.child("ssr"), fit->sum_of_squares, kRounded);
  }
  return answer;
}

Json answer_knapsack(Fields& record) {
  record.child("comment");
  const SACStats stats = read_operators(record);
  const Json* recorded = record.child("cases");
  if (record.reading().error || recorded == nullptr) return Json::object();
  double total = 0;
  for (const Bytes memory : stats.memory) total += static_cast<double>(memory);
  Json answer;
  answer["cases"] = Json::array();
  for (const Json& row : *recorded) {
    if (!row.is_array() || row.size() != 2 || !row[0].is_number()) {
      record.reject("cases", row);
      return Json();
    }
    const auto policy = checkpoint::optimal_policy_per_module(stats, row[0].get<double>() / total);
    const bool has_plan = policy && policy->plan;
    answer["cases"].push_back({row[0], has_plan ? Json(policy->plan->save) : Json::array()});
  }
  return answer;
}

Json answer_tree(Fields& record) {
  const ModuleStats stats = read_tree(record);
  if (record.reading().error) return Json();
  const auto tree = checkpoint::make_module_tree(stats, checkpoint::Ancestry::kSubstring);
  if (!tree) {
    reject(tree.error(), record);
    return Json();
  }
  const checkpoint::Baseline baseline = checkpoint::make_baseline(stats);
  Json answer;
  answer["pos_fw_post_order"] = tree->position;
  answer["baseline_peak_bytes"] = baseline.peak_bytes;
  answer["baseline_compute_ms"] = baseline.compute_ms;
  return answer;
}

// Upstream's answers lie within its gap of the optimum and are rounded to 2 digits; so do ours. Its
// peak is any number up to the budget.
Json answer_sac_milp(Fields& record) {
  const auto stats = find_tree(record.need<std::string>("tree"), record);
  checkpoint::SACMilpOptions options;
  options.memory_budget = record.need<double>("memory_budget");
  options.world_size = record.need<int>("world_size");
  options.ac_units = record.value("ac_units", std::vector<std::string>{});
  options.fsdp_units = record.value("fsdp_units", std::vector<std::string>{});
  if (record.reading().error || !stats) return Json();

  const auto tree = checkpoint::make_module_tree(*stats);
  const auto result = checkpoint::plan_like_sac_milp(*stats, options);
  const auto problem = tree.and_then([&](const ModuleTree& modules) {
    return checkpoint::make_unit_milp_problem(
        *stats, modules,
        {options.memory_budget * kGiBDouble, options.world_size, options.ac_units,
         options.fsdp_units});
  });
  if (!result || !problem) {
    reject(result ? problem.error() : result.error(), record);
    return Json();
  }
  Json answer;
  const Json least = least_recompute(*problem);
  const Json* exact_ms = record.child("exact_ms");
  answer["exact_ms"] = snap(exact_ms, least, {1e-6, 1e-9});
  if (!result->outcome.plan || !least.is_number()) {
    answer["decisions"] = Json::object();
    answer["recompute_ms"] = result->recompute_ms;
    answer["peak_bytes"] = result->peak_bytes;
    return answer;
  }
  const auto exact = least.get<double>();
  constexpr double kGap = 0.05, kHalfCent = 0.005;
  const auto is_within_gap = [&](double ms) {
    return exact <= ms + kHalfCent && exact >= (1 - kGap) * ms - kHalfCent;
  };
  const Json* recompute_ms = record.child("recompute_ms");
  const bool is_near = is_within_gap(result->recompute_ms) && recompute_ms != nullptr &&
                       is_within_gap(recompute_ms->get<double>());
  answer["recompute_ms"] = accept(recompute_ms, is_near, "outside the gap of the optimum");
  answer["peak_bytes"] =
      accept(record.child("peak_bytes"),
             static_cast<double>(result->peak_bytes) <= problem->budget + 1, "above the budget");
  if (const Json* decisions = record.child("decisions"); decisions != nullptr && is_near) {
    const Priced priced = price(*decisions, *stats, *problem);
    const double gap = std::abs(priced.recompute_ms - recompute_ms->get<double>());
    answer["decisions"] = accept(decisions, priced.fits && gap <= priced.rounding_ms + kHalfCent,
                                 "takes another time or does not fit");
  }
  return answer;
}

// Of the recorded fit; NaN where there is none.
double sum_of_squares(Fields& record, const std::vector<checkpoint::CurvePoint>& curve) {
  const auto slopes = record.value("slopes", std::vector<double>{});
  const auto intercepts = record.value("intercepts", std::vector<double>{});
  const auto breaks = record.value("breakpoints", std::vector<double>{});
  if (slopes.empty() || intercepts.size() != slopes.size() || breaks.size() != slopes.size() + 1) {
    return std::numeric_limits<double>::quiet_NaN();
  }
  double sum = 0;
  for (std::size_t i = 0, s = 0; i + 1 < curve.size(); ++i) {
    while (s + 1 < slopes.size() && curve[i].first > breaks[s + 1]) ++s;
    const double error = curve[i + 1].second - (slopes[s] * curve[i].first + intercepts[s]);
    sum += error * error;
  }
  return sum;
}

// Upstream's fit is random within its tolerance. It is never better than ours, and where it is as
// good it is one of many: a piece with a single point may start anywhere before it.
Json answer_greedy_order(Fields& record) {
  record.child("source");
  const SACStats stats = read_operators_below(record, "stats");
  if (record.reading().error) return Json();
  const checkpoint::SACGreedyOrder order = checkpoint::make_greedy_order(stats);
  const auto curve = checkpoint::make_tradeoff_curve(stats, order);
  const auto fit = curve.and_then(
      [](const auto& drawn) { return checkpoint::fit_tradeoff_curve(drawn.points); });
  if (!fit) {
    reject(fit.error(), record);
    return Json();
  }
  Json answer;
  Json& meta = answer["meta"];
  meta["recomputed_ops"] = order.recomputed_ops;
  meta["stored_ops"] = order.stored_ops;
  meta["inplace_op_groups"] = Json::array();
  for (const auto& group : order.inplace_groups) {
    meta["inplace_op_groups"].push_back({group.head, group.ops});
  }
  meta["random_ops_group"] = Json::array();
  if (!order.random_ops.empty()) {
    meta["random_ops_group"].push_back({order.random_ops.front(), order.random_ops});
  }
  meta["order"] = Json::array();
  for (const auto& candidate : order.order) {
    meta["order"].push_back({candidate.op, candidate.memory, candidate.runtime});
  }
  answer["sac_memory"] = curve->sac_memory;
  answer["sac_runtime"] = curve->sac_runtime;
  answer["curve"] = curve_json(curve->points);
  answer["n_segments"] = fit->slopes.size();
  answer["slopes"] = fit->slopes;
  answer["intercepts"] = fit->intercepts;
  answer["breakpoints"] = fit->breaks;
  const double recorded = sum_of_squares(record, curve->points);
  const bool is_tie = std::abs(recorded - fit->sum_of_squares) <= 1e-6 * recorded + 1e-15;
  const bool is_worse = recorded < fit->sum_of_squares * (1 - 1e-9) - 1e-15;
  for (const char* field : {"slopes", "intercepts", "breakpoints"}) {
    const Json* theirs = record.child(field);
    answer[field] = is_tie     ? *theirs
                    : is_worse ? Json("a worse fit")
                               : snap(theirs, answer[field], kRandomFit);
  }
  return answer;
}

// Upstream's choice need not be ours; its saved time and memory are as recorded and within reach.
Json answer_policy(Fields& record) {
  const SACStats stats = read_operators_below(record, "stats");
  const auto budget = record.need<double>("memory_budget");
  if (record.reading().error) return Json();
  const auto policy = checkpoint::optimal_policy_per_module(stats, budget);
  if (!policy) {
    reject(policy.error(), record);
    return Json();
  }
  Json answer;
  if (!policy->plan) {
    answer["bits"] = Json::array();
    answer["saved_runtime"] = Json();
    answer["exact_saved_runtime"] = Json();
    return answer;
  }
  const auto bits = record.value("bits", std::vector<int>{});
  double saved = 0;
  Bytes memory = 0;
  for (std::size_t op = 0; op < std::min(bits.size(), stats.memory.size()); ++op) {
    saved += bits[op] * stats.runtimes[op];
    memory += bits[op] * stats.memory[op];
  }
  const bool fits = bits.size() == stats.memory.size() &&
                    memory <= checkpoint::policy_capacity(stats, budget) &&
                    saved <= policy->plan->saved_runtime * (1 + 1e-12);
  answer["bits"] = accept(record.child("bits"), fits, "breaks the budget or beats the optimum");
  answer["saved_runtime"] = saved;
  answer["exact_saved_runtime"] =
      snap(record.child("exact_saved_runtime"), policy->plan->saved_runtime, kSummedOtherwise);
  return answer;
}

}  // namespace

std::span<const Kind> checkpointing_kinds() {
  static const std::vector<Kind> kKinds = [] {
    std::vector<Kind> kinds{
        {"sac_instances", answer_instance, {"expected", "frontier"}},
        {"sac_random_trees", answer_instance, {"expected", "frontier"}},
        {"block_op_stats", answer_block, {"sac_memory", "sac_runtime", "curve", "fit"}},
        {"per_module_knapsack", answer_knapsack, {"cases"}},
        {"trees", answer_tree, {"pos_fw_post_order", "baseline_peak_bytes", "baseline_compute_ms"}},
        {"sac_milp", answer_sac_milp, {"decisions", "recompute_ms", "peak_bytes", "exact_ms"}},
        {"greedy_order",
         answer_greedy_order,
         {"meta", "sac_memory", "sac_runtime", "curve", "n_segments", "slopes", "intercepts",
          "breakpoints"}},
        {"policy", answer_policy, {"bits", "saved_runtime", "exact_saved_runtime"}},
    };
    const auto knapsacks = knapsack_kinds();
    kinds.insert(kinds.end(), knapsacks.begin(), knapsacks.end());
    return kinds;
  }();
  return kKinds;
}

}  // namespace plimsoll::golden
