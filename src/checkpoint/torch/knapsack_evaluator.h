// What a knapsack's choice costs: upstream's estimate of memory and recomputation, its simulation
// of the backward pass, and the budget at the knee of a solver's curve.
//
// Method. The candidate graph joins two candidates where a path of the joint graph leads from one
// to the other and past no third. The simulation visits it in reverse topological order: what is
// kept is dropped; what is not is computed again, with the predecessors it needs, and then dropped.
// Cost. O(edges c / 64 + c^3 / 64) for c candidates; a simulation O(c + edges of the candidate
// graph).
// Promises. Sums, order and trace are upstream's, except for its walk over sets in the order of
// string hashes, which differs between runs: here sets are walked in graph order. Source:
// docs/mathematics/torch-checkpointing.md#the-simulated-backward-pass.
#pragma once

#include <functional>
#include <string_view>
#include <vector>

#include "checkpoint/torch/graph_info.h"
#include "checkpoint/torch/knapsack.h"
#include "plimsoll/core/result.h"

namespace plimsoll::checkpoint {

// Over candidates by their place in GraphInfo::candidates.
struct CandidateGraph {
  std::vector<int> order;                      // [c] all candidates
  std::vector<std::vector<int>> predecessors;  // [c] each in the order of `order`
  std::vector<std::vector<int>> successors;    // [c] as above
  bool operator==(const CandidateGraph&) const = default;
};

// `info` is valid, here and below. Joins candidates that an edge joins; candidates in knapsack
// order.
CandidateGraph make_edge_graph(const GraphInfo& info);
// Joins candidates that a path joins; candidates in graph order. The node "output" carries no path.
CandidateGraph make_path_graph(const GraphInfo& info);

enum class TraceEvent {
  kStart,             // everything saved is there
  kDropKept,          // saved or computed before: used for the last time
  kRecompute,         // computed again for its own backward
  kRecomputeForUser,  // computed again for a later candidate
  kDrop,              // used, after kRecompute
};
std::string_view to_string(TraceEvent event);  // "drop_kept"

struct TraceStep {
  TraceEvent event = TraceEvent::kStart;
  int candidate = -1;  // -1 at the start
  double memory = 0;   // after the event
  bool operator==(const TraceStep&) const = default;
};

struct BackwardRules {
  // Quirk, kept by default: a direct predecessor that is saved is charged as if computed again.
  bool recharges_saved_predecessors = true;
};

// `start` is the memory before the backward pass, `is_saved` holds [c] flags.
std::vector<TraceStep> simulate_backward(const GraphInfo& info, const CandidateGraph& graph,
                                         const std::vector<char>& is_saved, double start,
                                         const BackwardRules& rules = {});

struct KnapsackEvaluation {
  double peak_memory = 0;
  double recomputation_runtime = 0;
  double non_ac_peak_memory = 0;       // of all candidates
  double theoretical_max_runtime = 0;  // of all candidates
  double percentage_of_theoretical_peak_memory = 0;
  double percentage_of_theoretical_peak_runtime = 0;
};

// Only the sets of `choice` count. With `backward`, the peak is that of the simulation; without,
// the memory of what is saved. Errors: kValue (the sets do not part the candidates), kZeroDivision
// at "memory" or "runtimes" (no candidate takes any).
Result<KnapsackEvaluation> evaluate(const GraphInfo& info, const KnapsackChoice& choice,
                                    const BackwardRules* backward = nullptr);

using KnapsackSolver = std::function<Result<KnapsackChoice>(const KnapsackProblem&)>;

// The memory budgets that are tried: `iterations` of them, evenly from min to max.
struct KneeOptions {
  double max_memory_budget = 0.1;    // >= 0
  double min_memory_budget = 0.001;  // >= 0
  int iterations = 100;              // >= 2
};

// The first of the tried budgets whose point (memory, runtime), both scaled to [0, 1], is nearest
// to (0, 0); max_memory_budget where all have one memory or one runtime. Errors: kValue (an
// option), those of evaluate and of the solver.
Result<double> find_knee_budget(const GraphInfo& info, const KnapsackSolver& solver,
                                const KneeOptions& options = {});

// dp_knapsack at its own knee below max_memory. Errors: those of both.
Result<KnapsackChoice> dynamic_memory_budget_dp(const GraphInfo& info, double max_memory);

}  // namespace plimsoll::checkpoint
