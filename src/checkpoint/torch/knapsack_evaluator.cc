#include "checkpoint/torch/knapsack_evaluator.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <numeric>
#include <utility>

namespace plimsoll::checkpoint {
namespace {

class BitSet {
 public:
  explicit BitSet(std::size_t size) : words_((size + 63) / 64) {}
  void insert(std::size_t i) { words_[i / 64] |= std::uint64_t{1} << (i % 64); }
  bool contains(std::size_t i) const { return ((words_[i / 64] >> (i % 64)) & 1) != 0; }
  void unite(const BitSet& other) {
    for (std::size_t i = 0; i < words_.size(); ++i) words_[i] |= other.words_[i];
  }

 private:
  std::vector<std::uint64_t> words_;
};

// Candidate by node, -1 for the others.
std::vector<int> candidates_by_node(const GraphInfo& info) {
  std::vector<int> candidate(info.nodes.size(), -1);
  for (std::size_t i = 0; i < info.candidates.size(); ++i) {
    candidate[info.candidates[i]] = static_cast<int>(i);
  }
  return candidate;
}

// networkx.topological_sort: generation by generation, each in the order of discovery.
std::vector<int> sort_topologically(const CandidateGraph& graph) {
  std::vector<std::size_t> missing(graph.order.size());
  std::vector<int> sorted;
  for (int node : graph.order) {
    missing[node] = graph.predecessors[node].size();
    if (missing[node] == 0) sorted.push_back(node);
  }
  for (std::size_t next = 0; next < sorted.size(); ++next) {
    for (int successor : graph.successors[sorted[next]]) {
      if (--missing[successor] == 0) sorted.push_back(successor);
    }
  }
  return sorted;
}

double sum_of(const std::vector<double>& figures, const std::vector<int>& candidates) {
  double sum = 0;
  for (int i : candidates) sum += figures[i];
  return sum;
}

std::vector<int> candidates_in_graph_order(const GraphInfo& info) {
  std::vector<int> order(info.candidates.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(),
            [&](int a, int b) { return info.candidates[a] < info.candidates[b]; });
  return order;
}

Result<std::vector<char>> find_saved(const GraphInfo& info, const KnapsackChoice& choice) {
  const std::size_t n = info.candidates.size();
  std::vector<char> is_named(n, 0), is_saved(n, 0);
  for (const std::vector<int>* set : {&choice.saved, &choice.recomputed}) {
    for (int i : *set) {
      if (i < 0 || i >= static_cast<int>(n) || is_named[i]) {
        return fail(ErrorCode::kValue, set == &choice.saved ? "saved" : "recomputed",
                    fmt::format("candidate {} is unknown or named twice", i),
                    "name every candidate once, as saved or as recomputed");
      }
      is_named[i] = 1;
      if (set == &choice.saved) is_saved[i] = 1;
    }
  }
  if (std::count(is_named.begin(), is_named.end(), 0) == 0) return is_saved;
  return fail(ErrorCode::kValue, "recomputed", "a candidate is neither saved nor recomputed",
              "name every candidate once, as saved or as recomputed");
}

// Python's `**`. The exponent is hidden, so that no compiler replaces the library's pow.
double power(double base, double exponent) {
  const volatile double hidden = exponent;
  return std::pow(base, hidden);
}

std::vector<double> scale_to_unit(const std::vector<double>& values, double min, double range) {
  std::vector<double> scaled;
  for (double value : values) scaled.push_back((value - min) / range);
  return scaled;
}

}  // namespace

std::string_view to_string(TraceEvent event) {
  switch (event) {
    case TraceEvent::kStart:
      return "start";
    case TraceEvent::kDropKept:
      return "drop_kept";
    case TraceEvent::kRecompute:
      return "recompute";
    case TraceEvent::kRecomputeForUser:
      return "recompute_for_user";
    case TraceEvent::kDrop:
      return "drop";
  }
  return "";
}

CandidateGraph make_edge_graph(const GraphInfo& info) {
  const std::size_t n = info.candidates.size();
  const std::vector<int> candidate = candidates_by_node(info);
  CandidateGraph graph{std::vector<int>(n), {}, {}};
  graph.predecessors.resize(n);
  graph.successors.resize(n);
  std::iota(graph.order.begin(), graph.order.end(), 0);
  for (const auto& edge : info.edges) {
    const int from = candidate[edge.first];
    const int to = candidate[edge.second];
    if (from < 0 || to < 0) continue;
    std::vector<int>& successors = graph.successors[from];
    if (std::find(successors.begin(), successors.end(), to) != successors.end()) continue;
    successors.push_back(to);
    graph.predecessors[to].push_back(from);
  }
  return graph;
}

CandidateGraph make_path_graph(const GraphInfo& info) {
  const std::size_t n = info.candidates.size();
  const std::vector<int> candidate = candidates_by_node(info);
  CandidateGraph graph{candidates_in_graph_order(info), {}, {}};
  graph.predecessors.resize(n);
  graph.successors.resize(n);

  // The candidates that paths from a node lead to, from the last node to the first.
  std::vector<std::vector<int>> users(info.nodes.size());
  for (const auto& [from, to] : info.edges) {
    if (info.nodes[from] != "output" && info.nodes[to] != "output") users[from].push_back(to);
  }
  std::vector<BitSet> reached(info.nodes.size(), BitSet(n));
  for (std::size_t node = info.nodes.size(); node-- > 0;) {
    for (int user : users[node]) {
      reached[node].unite(reached[user]);
      if (candidate[user] >= 0) reached[node].insert(static_cast<std::size_t>(candidate[user]));
    }
  }
  for (int from : graph.order) {
    const BitSet& direct = reached[info.candidates[from]];
    BitSet past_another(n);
    for (int between : graph.order) {
      if (direct.contains(static_cast<std::size_t>(between))) {
        past_another.unite(reached[info.candidates[between]]);
      }
    }
    for (int to : graph.order) {
      const auto bit = static_cast<std::size_t>(to);
      if (!direct.contains(bit) || past_another.contains(bit)) continue;
      graph.successors[from].push_back(to);
      graph.predecessors[to].push_back(from);
    }
  }
  return graph;
}

std::vector<TraceStep> simulate_backward(const GraphInfo& info, const CandidateGraph& graph,
                                         const std::vector<char>& is_saved, double start,
                                         const BackwardRules& rules) {
  std::vector<TraceStep> trace = {{TraceEvent::kStart, -1, start}};
  const auto change = [&](TraceEvent event, int candidate, double sign) {
    const double memory = trace.back().memory + sign * info.memory[candidate];
    trace.push_back({event, candidate, memory});
  };
  std::vector<char> is_computed(graph.order.size(), 0), is_queued(graph.order.size(), 0);
  std::vector<int> nodes = sort_topologically(graph);
  std::reverse(nodes.begin(), nodes.end());
  for (int node : nodes) {
    if (is_saved[node] || is_computed[node]) {
      change(TraceEvent::kDropKept, node, -1);
      continue;
    }
    is_computed[node] = 1;
    change(TraceEvent::kRecompute, node, 1);
    std::deque<int> queue;
    const auto enqueue = [&](int needed) {
      if (is_computed[needed] || is_queued[needed]) return;
      is_queued[needed] = 1;
      queue.push_back(needed);
    };
    for (int needed : graph.predecessors[node]) {
      if (rules.recharges_saved_predecessors || !is_saved[needed]) enqueue(needed);
    }
    while (!queue.empty()) {
      const int needed = queue.front();
      queue.pop_front();
      is_queued[needed] = 0;
      is_computed[needed] = 1;
      change(TraceEvent::kRecomputeForUser, needed, 1);
      for (int next : graph.predecessors[needed]) {
        if (!is_saved[next]) enqueue(next);
      }
    }
    change(TraceEvent::kDrop, node, -1);
  }
  return trace;
}

Result<KnapsackEvaluation> evaluate(const GraphInfo& info, const KnapsackChoice& choice,
                                    const BackwardRules* backward) {
  PLIMSOLL_ASSIGN(const std::vector<char> is_saved, find_saved(info, choice));
  KnapsackEvaluation evaluation;
  evaluation.peak_memory = sum_of(info.memory, choice.saved);
  evaluation.recomputation_runtime = sum_of(info.runtimes, choice.recomputed);
  if (backward != nullptr) {
    for (const TraceStep& step : simulate_backward(info, make_path_graph(info), is_saved,
                                                   evaluation.peak_memory, *backward)) {
      evaluation.peak_memory = std::max(evaluation.peak_memory, step.memory);
    }
  }
  const std::vector<int> all = candidates_in_graph_order(info);
  evaluation.non_ac_peak_memory = sum_of(info.memory, all);
  evaluation.theoretical_max_runtime = sum_of(info.runtimes, all);
  const bool takes_memory = evaluation.non_ac_peak_memory > 0;
  if (!takes_memory || evaluation.theoretical_max_runtime == 0) {
    return fail(ErrorCode::kZeroDivision, takes_memory ? "runtimes" : "memory",
                fmt::format("float division by zero: no candidate takes any {}",
                            takes_memory ? "time" : "memory"),
                "ask for one budget: what is nothing in all has no shares, and no knee");
  }
  evaluation.percentage_of_theoretical_peak_memory =
      evaluation.peak_memory / evaluation.non_ac_peak_memory;
  evaluation.percentage_of_theoretical_peak_runtime =
      evaluation.recomputation_runtime / evaluation.theoretical_max_runtime;
  return evaluation;
}

Result<double> find_knee_budget(const GraphInfo& info, const KnapsackSolver& solver,
                                const KneeOptions& options) {
  if (options.iterations < 2) {
    return fail(ErrorCode::kValue, "iterations",
                fmt::format("{} iterations are too few", options.iterations),
                "give at least 2: the smallest and the largest budget");
  }
  std::vector<double> budgets, memory, runtimes;
  for (int i = 0; i < options.iterations; ++i) {
    const double budget =
        options.min_memory_budget +
        i * (options.max_memory_budget - options.min_memory_budget) / (options.iterations - 1);
    PLIMSOLL_ASSIGN(const KnapsackChoice choice, solver({info.memory, info.runtimes, budget}));
    PLIMSOLL_ASSIGN(const KnapsackEvaluation evaluation, evaluate(info, choice));
    budgets.push_back(budget);
    memory.push_back(evaluation.percentage_of_theoretical_peak_memory);
    runtimes.push_back(evaluation.percentage_of_theoretical_peak_runtime);
  }
  const auto [least_memory, most_memory] = std::minmax_element(memory.begin(), memory.end());
  const auto [least_runtime, most_runtime] = std::minmax_element(runtimes.begin(), runtimes.end());
  const double memory_range = *most_memory - *least_memory;
  const double runtime_range = *most_runtime - *least_runtime;
  if (memory_range == 0 || runtime_range == 0) return options.max_memory_budget;
  const std::vector<double> x = scale_to_unit(runtimes, *least_runtime, runtime_range);
  const std::vector<double> y = scale_to_unit(memory, *least_memory, memory_range);
  std::vector<double> distances;
  for (std::size_t i = 0; i < budgets.size(); ++i) {
    distances.push_back(power(power(x[i], 2) + power(y[i], 2), 0.5));
  }
  return budgets[std::min_element(distances.begin(), distances.end()) - distances.begin()];
}

Result<KnapsackChoice> dynamic_memory_budget_dp(const GraphInfo& info, double max_memory) {
  PLIMSOLL_ASSIGN(const double budget,
                  find_knee_budget(info, dp_knapsack, {.max_memory_budget = max_memory}));
  return dp_knapsack({info.memory, info.runtimes, budget});
}

}  // namespace plimsoll::checkpoint
