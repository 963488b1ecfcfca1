#include "partition/stages/ordered_refinement.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "core/random.h"
#include "partition/assignment/multilevel.h"
#include "partition/graph/assignment_figures.h"

namespace plimsoll::partition {
namespace {

constexpr int kIdleCycles = 3;  // of the refinement
constexpr std::int64_t kRefinementMoves = 4'000'000, kRefinementMovesPerGroup = 400;

}  // namespace

void refine_in_order(const CostGraph& graph, const GroupGraph& groups,
                     const ContiguousSplitOptions& options, const RunContext& context,
                     SplitKnowledge& known, SplitBudget& budget) {
  if (!options.rules.refines_in_order || !known.plan) return;
  MultilevelOptions refinement;
  refinement.num_idle_cycles = kIdleCycles;
  refinement.position.assign(static_cast<std::size_t>(graph.num_devices()), -1);
  int last = -1;
  for (int node = 0; node < graph.num_nodes(); ++node) {
    refinement.position[known.plan->device[node]] = known.stage_of[node];
    last = std::max(last, known.stage_of[node]);
  }
  for (int& position : refinement.position) {
    if (position < 0) position = ++last;
  }
  const auto plan_of = [&](const std::vector<int>& device) {
    DeviceAssignment plan;
    plan.device.resize(graph.nodes.size());
    for (int g = 0; g < groups.num_groups(); ++g) {
      for (const int node : groups.nodes[g]) plan.device[node] = device[g];
    }
    return plan;
  };
  refinement.on_better = [&](const std::vector<int>& device) {
    DeviceAssignment plan = plan_of(device);
    const double value = largest_load(graph, plan);
    if (value >= known.value || !fits_caps(graph, plan)) return false;
    known.plan = std::move(plan);
    known.value = value;
    for (int node = 0; node < graph.num_nodes(); ++node) {
      known.stage_of[node] = refinement.position[known.plan->device[node]];
    }
    if (context.progress) context.progress({0, known.value, known.lower_bound});
    return known.is_proved(options.search.tolerance);
  };
  std::vector<int> device;
  for (const auto& nodes : groups.nodes) device.push_back(known.plan->device[nodes.front()]);
  SplitMix64 random(options.search.seed);
  std::int64_t moves_left = std::min<std::int64_t>(
      budget.pairs_left, kRefinementMoves + kRefinementMovesPerGroup * groups.num_groups());
  budget.pairs_left -= moves_left;
  refine(groups, graph.pair_rates, refinement, random, context, moves_left, device);
  budget.pairs_left += moves_left;
  budget.stop = ChainStop::kEffort;
  if (context.is_past_deadline()) budget.stop = ChainStop::kDeadline;
  if (context.is_cancelled()) budget.stop = ChainStop::kCancelled;
}

}  // namespace plimsoll::partition
