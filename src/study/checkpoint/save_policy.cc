#include "study/checkpoint/save_policy.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string_view>
#include <utility>

#include "checkpoint/torch/exact_knapsack.h"
#include "checkpoint/torch/knapsack_evaluator.h"
#include "checkpoint/torch/policy_per_module.h"
#include "plimsoll/checkpoint/operator_choices.h"
#include "plimsoll/core/version.h"

namespace plimsoll::study {
namespace {

using checkpoint::GraphInfo;
using checkpoint::KnapsackChoice;
using checkpoint::SACStats;

Bytes total_bytes(const SACStats& stats) {
  return std::accumulate(stats.memory.begin(), stats.memory.end(), Bytes{0});
}

SavePolicyAnswer start_answer(std::string_view input_name, std::string input_hash,
                              std::string_view search, std::uint64_t seed) {
  SavePolicyAnswer answer;
  answer.input_hash = std::move(input_hash);
  answer.status = SolveStatus::kLimit;
  answer.stop = StopReason::kFinished;
  answer.certificate.emplace();
  Provenance& provenance = answer.provenance.emplace();
  provenance.version = kVersion;
  provenance.options["search"] = search;
  provenance.inputs[std::string(input_name)] = answer.input_hash;
  provenance.seed = seed;
  return answer;
}

double sum_of(const std::vector<double>& figures) {
  return std::accumulate(figures.begin(), figures.end(), 0.0);
}

// ---------------------------------------------------------------- operator tables

void take_operators(const SACStats& stats, const std::vector<int>& save, double recompute_ms,
                    SavePolicyAnswer& answer) {
  SavePolicyPrediction predicted;
  std::vector<SavedValue>& values = answer.plan.emplace();
  Bytes saved = 0;
  for (std::size_t i = 0; i < save.size(); ++i) {
    values.push_back({stats.func_names[i],
                      static_cast<double>(stats.memory[i]),
                      stats.runtimes[i],
                      save[i] != 0,
                      {}});
    if (save[i] == 0) continue;
    saved += stats.memory[i];
    predicted.saved_runtime += stats.runtimes[i];
  }
  predicted.saved_memory = static_cast<double>(saved);
  predicted.recompute_runtime = recompute_ms;
  predicted.total_memory =
      static_cast<double>(std::accumulate(stats.memory.begin(), stats.memory.end(), Bytes{0}));
  predicted.total_runtime = sum_of(stats.runtimes);
  answer.predicted = predicted;
}

void explain_room(Bytes needed, Bytes capacity, Bytes total, SavePolicyAnswer& answer) {
  Explanation& explanation = answer.explanation.emplace();
  explanation.binding = "memory_budget";
  explanation.missing = needed - capacity;
  explanation.lines.push_back(
      fmt::format("what must be kept takes {} bytes, and the budget allows {}", needed, capacity));
  explanation.lines.push_back(fmt::format(
      "the smallest feasible budget is {:.6f} of the table's {} bytes",
      std::ceil(1e6 * static_cast<double>(needed) / static_cast<double>(total)) / 1e6, total));
}

// torch's rules.
Result<void> plan_like_torch(const SACStats& stats, double share, Bytes total,
                             SavePolicyAnswer& answer) {
  PLIMSOLL_ASSIGN(const auto outcome, checkpoint::optimal_policy_per_module(stats, share));
  take_end(outcome, answer);
  if (outcome.plan) {
    take_operators(stats, outcome.plan->save, outcome.certificate.objective, answer);
  } else if (outcome.explanation.missing > 0) {
    const Bytes capacity = checkpoint::policy_capacity(stats, share);
    explain_room(capacity + outcome.explanation.missing, capacity, total, answer);
  } else {
    answer.explanation = Explanation{"operators", 0, {to_string(outcome.certificate.proof)}};
  }
  return {};
}

// Ours: the choices that plans of whole models are made of.
void plan_by_choices(const SACStats& stats, const std::optional<double>& share, Bytes total,
                     SavePolicyAnswer& answer) {
  const checkpoint::OperatorOptions choices = checkpoint::operator_options(stats);
  answer.status = choices.is_complete ? SolveStatus::kOptimal : SolveStatus::kFeasible;
  answer.certificate->proof = ProofKind::kUndominatedChoices;
  if (!share) {
    for (const auto& option : choices.options) {
      answer.frontier.push_back({static_cast<double>(option.kept), option.recompute_ms});
    }
    answer.certificate->objective = choices.options.back().recompute_ms;
    answer.certificate->lower_bound =
        std::max(0.0, answer.certificate->objective - choices.loss_ms);
    return;
  }
  const Bytes capacity = checkpoint::policy_capacity(stats, *share);
  const auto after = std::find_if(choices.options.begin(), choices.options.end(),
                                  [&](const auto& option) { return option.kept > capacity; });
  if (after == choices.options.begin()) {
    answer.status = SolveStatus::kInfeasible;
    answer.certificate->objective = std::nan("");
    explain_room(after->kept, capacity, total, answer);
    return;
  }
  const checkpoint::OperatorOption& best = *std::prev(after);
  answer.certificate->objective = best.recompute_ms;
  answer.certificate->lower_bound = std::max(0.0, best.recompute_ms - choices.loss_ms);
  take_operators(stats, {best.save.begin(), best.save.end()}, best.recompute_ms, answer);
}

// ---------------------------------------------------------------- logs of torch's partitioner

struct NamedSolver {
  std::string_view name;
  Result<KnapsackChoice> (*solve)(const checkpoint::KnapsackProblem&);
};
// Under torch's names (torch._functorch.config.activation_memory_budget_solver), and one mended.
constexpr NamedSolver kSolvers[] = {
    {"greedy", checkpoint::greedy_knapsack},
    {"ilp", checkpoint::ilp_knapsack},
    {"dp", checkpoint::dp_knapsack},
    {"dp_knapsack_sliding_hirschberg", checkpoint::hirschberg_knapsack},
    {"fixed_hirschberg", checkpoint::fixed_hirschberg_knapsack},
};
constexpr std::string_view kDynamicSolver = "dynamic_memory_budget_dp";

checkpoint::KnapsackSolver find_solver(std::string_view search, const SearchOptions& limits,
                                       const RunContext& context) {
  for (const NamedSolver& solver : kSolvers) {
    if (solver.name == search) return solver.solve;
  }
  return [&limits, &context](const checkpoint::KnapsackProblem& problem) {
    return checkpoint::exact_knapsack(problem, limits, context)
        .map([](Outcome<KnapsackChoice> outcome) {
          return std::move(outcome.plan).value_or(KnapsackChoice{});
        });
  };
}

// The simulated backward pass; our own search is spared upstream's double charge.
void take_backward(const GraphInfo& graph, const KnapsackChoice& choice, bool is_ours,
                   bool keeps_trace, SavePolicyAnswer& answer) {
  std::vector<char> is_saved(graph.candidates.size(), 0);
  for (const int i : choice.saved) is_saved[i] = 1;
  const checkpoint::BackwardRules rules{.recharges_saved_predecessors = !is_ours};
  double peak = answer.predicted->saved_memory;
  for (const checkpoint::TraceStep& step :
       simulate_backward(graph, make_path_graph(graph), is_saved, peak, rules)) {
    peak = std::max(peak, step.memory);
    if (!keeps_trace) continue;
    answer.trace.push_back({std::string(to_string(step.event)),
                            step.candidate < 0 ? "" : graph.nodes[graph.candidates[step.candidate]],
                            step.memory});
  }
  answer.predicted->backward_peak_memory = peak;
}

void take_choice(const PartitionerLog& log, const KnapsackChoice& choice, double budget,
                 SavePolicyAnswer& answer) {
  const GraphInfo& graph = log.graph;
  std::vector<SavedValue>& values = answer.plan.emplace();
  for (std::size_t i = 0; i < graph.candidates.size(); ++i) {
    values.push_back(
        {graph.nodes[graph.candidates[i]], graph.memory[i], graph.runtimes[i], false, {}});
    if (!log.saved.empty() || !log.recomputed.empty()) values[i].was_saved = false;
  }
  for (const int i : log.saved) values[i].was_saved = true;
  SavePolicyPrediction predicted;
  predicted.saved_runtime = choice.saved_runtime;
  for (const int i : choice.saved) {
    values[i].save = true;
    predicted.saved_memory += graph.memory[i];
  }
  for (const int i : choice.recomputed) predicted.recompute_runtime += graph.runtimes[i];
  predicted.total_memory = sum_of(graph.memory);
  predicted.total_runtime = sum_of(graph.runtimes);
  answer.predicted = predicted;
  answer.memory_budget = budget;
  constexpr double kRounding = 1e-12;  // of a sum in doubles
  if (predicted.saved_memory > budget + kRounding * predicted.saved_memory) {
    answer.warnings.push_back(
        {"over_budget", "",
         fmt::format("what is kept takes {:.9g}, more than the budget of {:.9g}: this solver "
                     "rounds memory to steps of 1e-4",
                     predicted.saved_memory, budget)});
  }
}

}  // namespace

Result<SavePolicyAnswer> plan_operators_like_torch(const SACStats& stats, double share,
                                                   std::string input_hash, std::uint64_t seed) {
  SavePolicyAnswer answer = start_answer("sac_stats", std::move(input_hash), "torch", seed);
  answer.memory_budget = share;
  PLIMSOLL_RETURN_IF_ERROR(plan_like_torch(stats, share, total_bytes(stats), answer));
  return answer;
}

SavePolicyAnswer plan_operators(const SACStats& stats, std::optional<double> share,
                                std::string input_hash, std::uint64_t seed) {
  SavePolicyAnswer answer = start_answer("sac_stats", std::move(input_hash), "exact", seed);
  answer.memory_budget = share;
  plan_by_choices(stats, share, total_bytes(stats), answer);
  return answer;
}

Result<SavePolicyAnswer> plan_partitioner_log(const PartitionerLog& log,
                                              const LogQuestion& question,
                                              const SearchOptions& limits,
                                              const RunContext& context) {
  const GraphInfo& graph = log.graph;
  SavePolicyAnswer answer =
      start_answer("aot_partition", question.input_hash, question.search, question.seed);
  double budget = question.budget;
  const bool is_dynamic = question.search == kDynamicSolver;  // dp at the knee of dp
  const checkpoint::KnapsackSolver solver =
      find_solver(is_dynamic ? "dp" : question.search, limits, context);
  if (question.is_knee || is_dynamic) {
    answer.provenance->options["max_memory_budget"] = fmt::format("{}", budget);
    PLIMSOLL_ASSIGN(budget, find_knee_budget(graph, solver, {.max_memory_budget = double{budget}}));
  }
  const checkpoint::KnapsackProblem problem{graph.memory, graph.runtimes, budget};
  const bool is_ours = question.search == "exact";
  KnapsackChoice choice;
  if (is_ours) {
    PLIMSOLL_ASSIGN(auto outcome, checkpoint::exact_knapsack(problem, limits, context));
    take_end(outcome, answer);
    choice = std::move(outcome.plan).value_or(KnapsackChoice{});
  } else {
    PLIMSOLL_ASSIGN(choice, solver(problem));
    answer.status = SolveStatus::kFeasible;
  }
  take_choice(log, choice, budget, answer);
  if (!is_ours) answer.certificate->objective = answer.predicted->recompute_runtime;
  take_backward(graph, choice, is_ours, question.keeps_trace, answer);
  return answer;
}

}  // namespace plimsoll::study
