#include "plimsoll/partition/contiguous_split.h"

#include <algorithm>
#include <utility>

#include "core/clock_share.h"
#include "core/effort_clock.h"
#include "partition/assignment/placement_tree.h"
#include "partition/graph/assignment_figures.h"
#include "partition/graph/downsets.h"
#include "partition/graph/group_absorption.h"
#include "partition/graph/group_cut.h"
#include "partition/graph/shared_work.h"
#include "partition/stages/acyclic_coarsening.h"
#include "partition/stages/chain_splitter.h"
#include "partition/stages/ordered_refinement.h"
#include "partition/stages/path_bound.h"
#include "partition/stages/split_state.h"
#include "partition/stages/stage_chain.h"
#include "plimsoll/core/numbers.h"

namespace plimsoll::partition {
namespace {

constexpr std::int64_t kDefaultPairs = 2'000'000'000;
constexpr double kMaxStates = 1 << 16;      // ways to have used up devices
constexpr std::int64_t kMaxGroupCuts = 64;  // minimum cuts for the bound
constexpr std::int64_t kMaxPathSteps = 60'000'000, kPathStepsPerPair = 10;  // of that bound
constexpr double kLargestGoal = 2;  // of the bound by paths, over the bound so far
constexpr int kFirstRuns = 128;     // of a graph that is too large to begin with

// Total work over what all devices do in a ms; and the heaviest group.
double load_bound(const GroupGraph& groups) {
  const std::vector<double> work = work_of_groups(groups);
  const double heaviest = work.empty() ? 0 : *std::max_element(work.begin(), work.end());
  return std::max(heaviest, shared_work(groups));
}

double num_states(const GroupGraph& groups) {
  double states = 1;
  for (const DeviceKind& kind : groups.kinds)
    states *= 1.0 + static_cast<double>(kind.devices.size());
  return states;
}

// Does every group stand on one device?
bool keeps_whole(const GroupGraph& groups, const DeviceAssignment& plan) {
  return std::all_of(groups.nodes.begin(), groups.nodes.end(), [&](const std::vector<int>& nodes) {
    return std::all_of(nodes.begin(), nodes.end(),
                       [&](int node) { return plan.device[node] == plan.device[nodes.front()]; });
  });
}

// Orders, then all downsets, then orders around the best plan. What is left open stops for effort.
void search_chains(const CostGraph& graph, const GroupGraph& groups, bool is_coarse,
                   const ContiguousSplitOptions& options, const RunContext& context,
                   SplitKnowledge& known, SplitBudget& budget, ContiguousSplit& result) {
  ChainSplitter splitter(graph, groups, is_coarse, options, context, known, budget);
  if (options.rules.starts_from_orders) splitter.start_from_orders();
  if (known.is_proved(options.search.tolerance) || budget.is_spent()) return;
  if (splitter.search_all(result.num_downsets) || budget.is_spent()) return;
  if (!options.rules.starts_from_orders) splitter.start_from_orders();
  splitter.improve();
  if (!budget.is_spent()) budget.stop = ChainStop::kEffort;
}

void raise_bound(const CostGraph& graph, const GroupGraph& groups,
                 const ContiguousSplitOptions& options, const RunContext& context,
                 SplitKnowledge& known) {
  if (!options.rules.bounds_by_paths) return;
  if (!(known.lower_bound > 0)) return;
  const double goal = std::min(known.value, kLargestGoal * known.lower_bound);
  const std::int64_t effort = options.search.effort;
  const bool is_large = effort < 0 || effort > kMaxPathSteps / kPathStepsPerPair;
  known.lower_bound =
      bound_by_paths(graph, groups, known.lower_bound, goal,
                     is_large ? kMaxPathSteps : effort * kPathStepsPerPair, context);
}

// A plan there must be, also where the clock leaves no time for a good one.
void find_first_plan(const CostGraph& graph, const GroupGraph& groups,
                     const ContiguousSplitOptions& options, const RunContext& context,
                     SplitKnowledge& known, SplitBudget& budget) {
  const int least = context.deadline ? kFirstRuns : options.max_groups;
  if (groups.num_groups() <= least || known.plan) return;
  RunContext untimed = context;
  untimed.deadline.reset();
  const GroupGraph runs = cut_into_runs(groups, kFirstRuns);
  if (num_states(runs) > kMaxStates) return;
  ChainSplitter(graph, runs, true, options, untimed, known, budget).start_from_orders();
}

// All of the search, for a graph with its caps or without them.
void solve(const CostGraph& graph, const GroupGraph& all, const ContiguousSplitOptions& options,
           const RunContext& context, SplitKnowledge& known, SplitBudget& budget,
           ContiguousSplit& result) {
  find_first_plan(graph, all, options, context, known, budget);
  if (known.plan && is_stopped(context)) {
    result.num_groups = all.num_groups();
    known.lower_bound = std::max(known.lower_bound, load_bound(all));
    budget.stop = count_pairs(0, nullptr, context);
    return;
  }
  const GroupGraph groups = options.rules.absorbs_groups ? absorb_groups(graph, all) : all;
  result.num_groups = groups.num_groups();
  result.num_downsets = 0;
  const double bound = load_bound(groups);
  if (bound == kUnlimited) {  // a group that no device may run
    known.is_infeasible = true;
    return;
  }
  known.lower_bound = std::max(known.lower_bound, bound);
  if (num_states(groups) > kMaxStates) {
    budget.stop = ChainStop::kEffort;
    return;
  }
  known.lower_bound = std::max(known.lower_bound,
                               heaviest_group_bound(groups, kMaxGroupCuts, known.value, context));
  const bool is_coarse = groups.num_groups() > options.max_groups;
  // Where refinement may come after, half the time is left to it.
  const RunContext first = share_clock(context, options.rules.refines_in_order ? 0.5 : 1);
  const GroupGraph few =
      is_coarse ? coarsen_acyclically(groups, options.max_groups, first) : groups;
  search_chains(graph, few, is_coarse, options, first, known, budget, result);
  const bool is_cut = budget.stop == ChainStop::kDeadline && !context.is_past_deadline();
  if (known.is_proved(options.search.tolerance)) return;
  if (budget.stop != ChainStop::kEffort && !is_cut) return;
  raise_bound(graph, groups, options, context, known);
  if (known.is_proved(options.search.tolerance)) {
    budget.stop = ChainStop::kFinished;
    return;
  }
  const double before = known.value;
  // A plan from before groups were absorbed may cut some of them.
  const bool is_whole = !known.plan || keeps_whole(groups, *known.plan);
  refine_in_order(graph, is_whole ? groups : all, options, context, known, budget);
  // A better plan may meet the bound, which looked no further than the plan before.
  if (known.value < before) raise_bound(graph, groups, options, context, known);
  if (is_cut && !known.is_proved(options.search.tolerance) &&
      budget.stop == ChainStop::kEffort) {  // it had an end, and there is time left
    budget.stop = ChainStop::kFinished;
    search_chains(graph, few, is_coarse, options, context, known, budget, result);
  }
}

// All splits of a small graph that could be better, where chains of downsets leave a gap: with pair
// rates they only bound what a split takes. True: the plan is the best there is.
bool try_everything(const CostGraph& graph, const GroupGraph& groups, const RunContext& context,
                    SplitKnowledge& known, SplitBudget& budget) {
  const std::int64_t max_steps = std::min(default_tree_steps(groups), budget.pairs_left);
  const bool is_cut = budget.stop == ChainStop::kDeadline || budget.stop == ChainStop::kCancelled;
  if (is_cut || max_steps <= 0) return false;
  PlacementTree tree;
  tree.requires_line = true;
  tree.goal = known.lower_bound;
  tree.max_steps = max_steps;
  std::vector<int> device;
  double value = known.value;
  search_placement_tree(groups, graph.pair_rates, tree, device, value, context);
  budget.pairs_left -= tree.num_steps;
  if (!device.empty()) {
    known.plan.emplace().device.resize(graph.nodes.size());
    for (int g = 0; g < groups.num_groups(); ++g) {
      for (const int node : groups.nodes[g]) known.plan->device[node] = device[g];
    }
    known.value = largest_load(graph, *known.plan);
  }
  if (!tree.is_complete) return false;
  known.is_infeasible = !known.plan;
  known.lower_bound = known.value;
  budget.stop = ChainStop::kFinished;
  return true;
}

Bytes total_memory(const CostGraph& graph) {
  Bytes total = 0;
  for (const CostNode& node : graph.nodes) total += node.memory;
  for (const Weight& weight : graph.weights) {
    if (!weight.readers.empty()) total += weight.bytes;
  }
  return total;
}

bool has_tight_caps(const CostGraph& graph) {
  const Bytes total = total_memory(graph);
  return std::any_of(graph.classes.begin(), graph.classes.end(), [&](const DeviceClass& devices) {
    return devices.memory_cap && *devices.memory_cap < total;
  });
}

Explanation explain_infeasible(const CostGraph& graph) {
  Explanation explanation;
  if (!has_tight_caps(graph)) {
    explanation.binding = "permissions";
    explanation.lines.emplace_back(
        "no line of devices may run all groups of nodes that must share a device");
    return explanation;
  }
  explanation.binding = "memory";
  Int128 room = 0;
  for (const DeviceClass& devices : graph.classes) {
    room += Int128{devices.count} * devices.memory_cap.value_or(total_memory(graph));
  }
  if (room < total_memory(graph)) {
    explanation.missing = static_cast<Bytes>(total_memory(graph) - room);
    explanation.lines.emplace_back("all devices together hold fewer bytes than the graph");
  } else {
    explanation.lines.emplace_back("no contiguous split keeps every device within its memory cap");
  }
  return explanation;
}

Result<void> check_options(const ContiguousSplitOptions& options) {
  if (options.max_downsets < 1 || options.num_orders < 1 || options.max_groups < 1) {
    return fail(ErrorCode::kUsage, "contiguous split options",
                "max_downsets, max_groups or num_orders below 1", "give at least 1");
  }
  if (!(options.search.tolerance >= 0)) {
    return fail(ErrorCode::kUsage, "contiguous split options",
                "a tolerance below 0 or not a number", "give at least 0");
  }
  return {};
}

// Without memory caps first, where they bind: what that proves holds with them, too, and its plan
// may fit.
void solve_without_caps(const CostGraph& graph, const GroupGraph& groups,
                        const ContiguousSplitOptions& options, const RunContext& context,
                        SplitKnowledge& known, SplitBudget& budget, ContiguousSplit& result) {
  const std::int64_t num_pairs = budget.pairs_left;
  if (context.deadline) find_first_plan(graph, groups, options, context, known, budget);
  if (known.plan && is_stopped(context)) return;
  CostGraph relaxed = graph;
  for (DeviceClass& devices : relaxed.classes) devices.memory_cap.reset();
  GroupGraph relaxed_groups = groups;
  for (DeviceKind& kind : relaxed_groups.kinds) kind.memory_cap.reset();
  SplitKnowledge bound;
  SplitBudget half{budget.pairs_left / 2, ChainStop::kFinished};
  ContiguousSplitOptions first = options;
  first.rules.bounds_by_paths = false;  // they come later, if need be
  solve(relaxed, relaxed_groups, first, share_clock(context, 0.5), bound, half, result);
  budget.pairs_left -= num_pairs / 2 - half.pairs_left;
  const bool has_time = half.stop == ChainStop::kDeadline && !context.is_past_deadline();
  if (half.stop != ChainStop::kEffort && !has_time) budget.stop = half.stop;
  known.is_infeasible = bound.is_infeasible;
  known.lower_bound = bound.lower_bound;
  if (bound.plan && fits_caps(graph, *bound.plan) && !(known.plan && known.value <= bound.value)) {
    known.plan = std::move(bound.plan);
    known.stage_of = std::move(bound.stage_of);
    known.value = bound.value;
  }
}

void conclude(const CostGraph& graph, double tolerance, bool is_tried, SplitKnowledge& known,
              Outcome<DeviceAssignment>& outcome) {
  outcome.plan = std::move(known.plan);
  outcome.certificate.objective = outcome.plan ? known.value : kNaN;
  if (known.is_infeasible) {
    outcome.status = SolveStatus::kInfeasible;
    outcome.certificate.proof =
        is_tried ? ProofKind::kTriedEveryPlacement : ProofKind::kExhaustedDownsets;
    outcome.explanation = explain_infeasible(graph);
    return;
  }
  outcome.certificate.lower_bound = std::min(known.lower_bound, known.value);
  outcome.certificate.proof =
      is_tried ? ProofKind::kTriedEveryPlacement : ProofKind::kRefutedLimits;
  if (outcome.plan) {
    const bool is_optimal = known.value <= known.lower_bound * (1 + tolerance);
    outcome.status = is_optimal ? SolveStatus::kOptimal : SolveStatus::kFeasible;
  }
}

}  // namespace

Result<ContiguousSplit> split_contiguously(const CostGraph& graph,
                                           const ContiguousSplitOptions& options,
                                           const RunContext& context) {
  PLIMSOLL_RETURN_IF_ERROR(validate(graph));
  PLIMSOLL_RETURN_IF_ERROR(check_options(options));
  ContiguousSplit result;
  const std::int64_t num_pairs = options.search.effort < 0 ? kDefaultPairs : options.search.effort;
  SplitBudget budget{num_pairs, ChainStop::kFinished};
  SplitKnowledge known;
  const GroupGraph groups = make_groups(graph);
  if (options.rules.relaxes_memory && has_tight_caps(graph)) {
    solve_without_caps(graph, groups, options, context, known, budget, result);
  }
  if (!known.is_proved(options.search.tolerance) && !budget.is_spent()) {
    solve(graph, groups, options, context, known, budget, result);
  }
  const bool is_tried = options.rules.tries_everything &&
                        !known.is_proved(options.search.tolerance) &&
                        try_everything(graph, groups, context, known, budget);
  result.num_pairs = num_pairs - budget.pairs_left;
  result.outcome.stop = reason_of(budget.stop);
  conclude(graph, options.search.tolerance, is_tried, known, result.outcome);
  return result;
}

}  // namespace plimsoll::partition
