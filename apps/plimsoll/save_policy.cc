#include "plimsoll/save_policy.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "checkpoint/torch/exact_knapsack.h"
#include "checkpoint/torch/knapsack_evaluator.h"
#include "checkpoint/torch/policy_per_module.h"
#include "io/documents/aot_partition_json.h"
#include "plimsoll/checkpoint/operator_choices.h"
#include "plimsoll/core/digest.h"
#include "plimsoll/core/version.h"
#include "plimsoll/io/module_stats_json.h"
#include "plimsoll/text_table.h"

namespace plimsoll::app {
namespace {

using checkpoint::GraphInfo;
using checkpoint::KnapsackChoice;
using checkpoint::SACStats;
using io::SavePolicyAnswer;

// "0.5" or "50%".
Result<double> parse_share(const std::string& text) {
  const bool is_percent = text.ends_with('%');
  const auto number =
      parse_number<double>(is_percent ? text.substr(0, text.size() - 1) : text, "--budget");
  if (!number || !std::isfinite(*number) || *number < 0) {
    return fail(ErrorCode::kUsage, "--budget", fmt::format("'{}' is no share of memory", text),
                "give a share of what could be kept, such as 0.5 or 50%");
  }
  return is_percent ? *number / 100 : *number;
}

SavePolicyAnswer start_answer(std::string_view input_name, std::string_view canonical,
                              const SavePolicyFlags& flags) {
  SavePolicyAnswer answer;
  answer.input_hash = sha256_hex(canonical);
  answer.provenance.version = kVersion;
  answer.provenance.options["search"] = flags.search;
  answer.provenance.inputs[std::string(input_name)] = answer.input_hash;
  answer.provenance.seed = flags.seed;
  return answer;
}

template <class Plan>
void take_outcome(const Outcome<Plan>& outcome, SavePolicyAnswer& answer) {
  answer.status = outcome.status;
  answer.stop = outcome.stop;
  answer.certificate = outcome.certificate;
  answer.warnings = outcome.warnings;
}

double sum_of(const std::vector<double>& figures) {
  return std::accumulate(figures.begin(), figures.end(), 0.0);
}

// ---------------------------------------------------------------- operator tables

void take_operators(const SACStats& stats, const std::vector<int>& save, double recompute_ms,
                    SavePolicyAnswer& answer) {
  io::SavePolicyPrediction predicted;
  Bytes saved = 0;
  for (std::size_t i = 0; i < save.size(); ++i) {
    answer.values.push_back({stats.func_names[i],
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
  take_outcome(outcome, answer);
  if (outcome.plan) {
    take_operators(stats, outcome.plan->save, outcome.certificate.objective, answer);
  } else if (outcome.explanation.missing > 0) {
    const Bytes capacity = checkpoint::policy_capacity(stats, share);
    explain_room(capacity + outcome.explanation.missing, capacity, total, answer);
  } else {
    answer.explanation = Explanation{"operators", 0, {outcome.certificate.proof}};
  }
  return {};
}

// Ours: the choices that plans of whole models are made of.
void plan_by_choices(const SACStats& stats, const std::optional<double>& share, Bytes total,
                     SavePolicyAnswer& answer) {
  const checkpoint::OperatorOptions choices = checkpoint::operator_options(stats);
  answer.status = choices.is_complete ? SolveStatus::kOptimal : SolveStatus::kFeasible;
  answer.certificate.proof = "every choice of operators that no other beats";
  if (!share) {
    for (const auto& option : choices.options) {
      answer.frontier.push_back({static_cast<double>(option.kept), option.recompute_ms});
    }
    answer.certificate.objective = choices.options.back().recompute_ms;
    answer.certificate.lower_bound = std::max(0.0, answer.certificate.objective - choices.loss_ms);
    return;
  }
  const Bytes capacity = checkpoint::policy_capacity(stats, *share);
  const auto after = std::find_if(choices.options.begin(), choices.options.end(),
                                  [&](const auto& option) { return option.kept > capacity; });
  if (after == choices.options.begin()) {
    answer.status = SolveStatus::kInfeasible;
    answer.certificate.objective = std::nan("");
    explain_room(after->kept, capacity, total, answer);
    return;
  }
  const checkpoint::OperatorOption& best = *std::prev(after);
  answer.certificate.objective = best.recompute_ms;
  answer.certificate.lower_bound = std::max(0.0, best.recompute_ms - choices.loss_ms);
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

void take_choice(const io::AotPartition& log, const KnapsackChoice& choice, double budget,
                 SavePolicyAnswer& answer) {
  const GraphInfo& graph = log.graph;
  for (std::size_t i = 0; i < graph.candidates.size(); ++i) {
    answer.values.push_back(
        {graph.nodes[graph.candidates[i]], graph.memory[i], graph.runtimes[i], false, {}});
    if (!log.saved.empty() || !log.recomputed.empty()) answer.values[i].was_saved = false;
  }
  for (const int i : log.saved) answer.values[i].was_saved = true;
  io::SavePolicyPrediction predicted;
  predicted.saved_runtime = choice.saved_runtime;
  for (const int i : choice.saved) {
    answer.values[i].save = true;
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

// The library names a knapsack's fields; people gave a log and a flag.
Error in_log(Error error, const std::string& input) {
  if (error.place == "memory") error.place = input + "#/Knapsack Input Memories";
  if (error.place == "runtimes") error.place = input + "#/Knapsack Input Runtimes";
  if (error.place == "max_memory") error.place = "--budget";
  return error;
}

Result<double> budget_of(const io::AotPartition& log, const SavePolicyFlags& flags) {
  if (!flags.budget.empty()) return parse_share(flags.budget);
  if (flags.is_knee) return checkpoint::KneeOptions{}.max_memory_budget;
  if (log.memory_budget) return *log.memory_budget;
  return fail(ErrorCode::kUsage, "--budget", "the log says no budget",
              "give a share of what could be kept, such as --budget 0.5");
}

// A share of a total, where there is one.
std::string share_of(double part, double whole) {
  return whole > 0 ? fmt::format(" ({:.2f} %)", 100 * part / whole) : "";
}

}  // namespace

Result<SavePolicyAnswer> plan_operator_table(const std::string& text,
                                             const SavePolicyFlags& flags) {
  PLIMSOLL_ASSIGN(const SACStats stats, io::read_sac_stats(text, flags.input));
  SavePolicyAnswer answer = start_answer("sac_stats", io::write_sac_stats(stats), flags);
  std::optional<double> share;
  if (!flags.budget.empty()) {
    PLIMSOLL_ASSIGN(share, parse_share(flags.budget));
    if (*share > 1) {
      return fail(ErrorCode::kUsage, "--budget",
                  fmt::format("'{}' is more than the whole table", flags.budget),
                  "give a share from 0 to 1");
    }
  } else if (flags.search == "torch") {
    return fail(ErrorCode::kUsage, "--search", "torch's policy answers one budget",
                "give --budget, or leave --search out");
  }
  answer.memory_budget = share;
  const Bytes total = std::accumulate(stats.memory.begin(), stats.memory.end(), Bytes{0});
  if (flags.search == "torch") {
    PLIMSOLL_RETURN_IF_ERROR(plan_like_torch(stats, *share, total, answer));
  } else {
    plan_by_choices(stats, share, total, answer);
  }
  return answer;
}

Result<SavePolicyAnswer> plan_aot_partition(const std::string& text, const SavePolicyFlags& flags,
                                            const SearchOptions& limits,
                                            const RunContext& context) {
  PLIMSOLL_ASSIGN(const io::AotPartition log, io::read_aot_partition(text, flags.input));
  const GraphInfo& graph = log.graph;
  SavePolicyAnswer answer = start_answer("aot_partition", text, flags);
  PLIMSOLL_ASSIGN(double budget, budget_of(log, flags));
  const bool is_dynamic = flags.search == kDynamicSolver;  // dp at the knee of dp
  const checkpoint::KnapsackSolver solver =
      find_solver(is_dynamic ? "dp" : flags.search, limits, context);
  if (flags.is_knee || is_dynamic) {
    answer.provenance.options["max_memory_budget"] = fmt::format("{}", budget);
    auto knee = find_knee_budget(graph, solver, {.max_memory_budget = double{budget}});
    if (!knee) return tl::unexpected<Error>(in_log(std::move(knee).error(), flags.input));
    budget = *knee;
  }
  const checkpoint::KnapsackProblem problem{graph.memory, graph.runtimes, budget};
  const bool is_ours = flags.search == "exact";
  KnapsackChoice choice;
  if (is_ours) {
    PLIMSOLL_ASSIGN(auto outcome, checkpoint::exact_knapsack(problem, limits, context));
    take_outcome(outcome, answer);
    choice = std::move(outcome.plan).value_or(KnapsackChoice{});
  } else {
    auto solved = solver(problem);
    if (!solved) return tl::unexpected<Error>(in_log(std::move(solved).error(), flags.input));
    choice = *std::move(solved);
    answer.status = SolveStatus::kFeasible;
  }
  take_choice(log, choice, budget, answer);
  if (!is_ours) answer.certificate.objective = answer.predicted->recompute_runtime;
  take_backward(graph, choice, is_ours, flags.prints_profile, answer);
  return answer;
}

SavePolicyText describe_save_policy(const SavePolicyAnswer& answer, const SavePolicyFlags& flags) {
  constexpr std::size_t kMaxRows = 40;
  SavePolicyText text;
  text.head = flags.input + "\n";
  if (answer.predicted) {
    const io::SavePolicyPrediction& predicted = *answer.predicted;
    const auto saved = std::count_if(answer.values.begin(), answer.values.end(),
                                     [](const io::SavedValue& value) { return value.save; });
    text.head = fmt::format("{}: {} values, memory {:.10g}, runtime {:.6g}\n", flags.input,
                            answer.values.size(), predicted.total_memory, predicted.total_runtime);
    text.body = fmt::format(
        "budget {:.6g}: {} of {} kept, memory {:.10g}{}\nrecompute {:.6g}{}", *answer.memory_budget,
        saved, answer.values.size(), predicted.saved_memory,
        share_of(predicted.saved_memory, predicted.total_memory), predicted.recompute_runtime,
        share_of(predicted.recompute_runtime, predicted.total_runtime));
    if (predicted.backward_peak_memory) {
      text.body +=
          fmt::format("; at most {:.10g} within the backward", *predicted.backward_peak_memory);
    }
    text.body += "\n\n";
    const bool is_log = !answer.values.empty() && answer.values.front().was_saved;
    TextTable table({"value", "memory", "runtime", "is", is_log ? "was" : ""}, {false, true, true});
    const auto fate = [](bool is_saved) { return is_saved ? "kept" : "recomputed"; };
    const std::size_t rows =
        flags.prints_profile ? answer.values.size() : std::min(answer.values.size(), kMaxRows);
    for (std::size_t i = 0; i < rows; ++i) {
      const io::SavedValue& value = answer.values[i];
      table.add({value.name, fmt::format("{:.10g}", value.memory),
                 fmt::format("{:.6g}", value.runtime), fate(value.save),
                 value.was_saved ? fate(*value.was_saved) : ""});
    }
    text.body += table.text();
    if (rows < answer.values.size()) {
      text.body += fmt::format("... {} more (all of them with --profile or --json)\n",
                               answer.values.size() - rows);
    }
  }
  if (!answer.frontier.empty()) {
    TextTable table({"kept", "recompute"}, {true, true});
    for (const io::SavePolicyPoint& point : answer.frontier) {
      table.add(
          {fmt::format("{:.10g}", point.memory), fmt::format("{:.6g}", point.recompute_runtime)});
    }
    text.body += table.text();
  }
  if (!answer.trace.empty()) {
    TextTable table({"event", "value", "memory"}, {false, false, true});
    for (const io::SavePolicyStep& step : answer.trace) {
      table.add({step.event, step.name, fmt::format("{:.10g}", step.memory)});
    }
    text.body += "\n" + table.text();
  }
  return text;
}

}  // namespace plimsoll::app
