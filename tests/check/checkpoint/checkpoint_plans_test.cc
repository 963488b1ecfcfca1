// What the exact search promises of a model, replayed by the simulator of whole steps, which knows
// neither the search nor its memory model.
#include <gtest/gtest.h>

#include "check/checkpoint/step_simulator.h"
#include "check/random_step.h"
#include "checkpoint/trace/step_trace.h"
#include "plimsoll/checkpoint/frontier_search.h"

namespace plimsoll::check {
namespace {

using checkpoint::CheckpointPlan;
using checkpoint::CheckpointProblem;
using checkpoint::MemoryModel;
using checkpoint::ModuleStats;
using checkpoint::StepProgram;

constexpr checkpoint::OperatorRoofline kUnit{1, 1};

CheckpointProblem problem_of(const ModuleStats& stats, bool has_room) {
  MemoryModel model;
  model.peak = checkpoint::PeakModel::kStep;
  model.costs = checkpoint::DiscardModel::kOperators;
  model.saved_copies = model.recompute_working_set = has_room;
  const auto problem = checkpoint::make_module_tree(stats).and_then(
      [&](const auto& tree) { return make_checkpoint_problem(stats, tree, model); });
  EXPECT_TRUE(problem) << format_error(problem.error());
  return problem.value_or(CheckpointProblem{});
}

// Calls `visit` with the plans for some budgets between the smallest and the largest of use.
template <class Visit>
void for_each_plan(const StepProgram& program, bool has_room, const Visit& visit) {
  const auto stats = checkpoint::trace_step(program, kUnit);
  ASSERT_TRUE(stats);
  const CheckpointProblem problem = problem_of(*stats, has_room);
  const auto frontier = checkpoint::plan_frontier(problem);
  ASSERT_TRUE(frontier && frontier->plan);
  const Bytes low = frontier->plan->min_bytes(), high = frontier->plan->saturation_bytes();
  for (int k = 0; k <= 4; ++k) {
    const Bytes budget = low + k * (high - low) / 4;
    SCOPED_TRACE(budget);
    const auto outcome = checkpoint::plan_for_budget(problem, budget);
    ASSERT_TRUE(outcome && outcome->plan);
    const auto step = simulate_step(program, kUnit, outcome->plan->policy);
    ASSERT_TRUE(step) << format_error(step.error());
    visit(budget, *outcome->plan, *step);
  }
}

// Without room for what units need while they run again, the reported peak is that of the step but
// where the step peaks for that very reason.
TEST(CheckpointPlans, PeakInARealStepWhereTheySay) {
  int num_exact = 0, num_units = 0;
  for (std::uint32_t seed = 1; seed <= 300; ++seed) {
    SCOPED_TRACE(seed);
    const StepProgram program = RandomStep(seed).residual_stack(static_cast<int>(seed % 4) + 1);
    for_each_plan(program, false, [&](Bytes budget, const CheckpointPlan& plan, const auto& step) {
      EXPECT_LE(plan.figures.peak, budget);
      EXPECT_LE(plan.figures.peak, step.peak.resident);
      EXPECT_LE(step.recompute_ms, plan.figures.recompute_ms * (1 + 1e-12));
      num_exact += step.peak.resident == plan.figures.peak ? 1 : 0;
      num_units += static_cast<int>(plan.policy.units.size());
    });
  }
  EXPECT_GT(num_exact, 1000);  // of 1,500
  EXPECT_GT(num_units, 1000);
}

TEST(CheckpointPlans, HoldTheirBudgetInARealStepWithRoomForTheirUnits) {
  int num_units = 0;
  for (std::uint32_t seed = 1; seed <= 300; ++seed) {
    SCOPED_TRACE(seed);
    const StepProgram program = RandomStep(seed).residual_stack(static_cast<int>(seed % 4) + 1);
    for_each_plan(program, true, [&](Bytes budget, const CheckpointPlan& plan, const auto& step) {
      EXPECT_LE(step.peak.resident, plan.figures.peak);
      EXPECT_LE(plan.figures.peak, budget);
      num_units += static_cast<int>(plan.policy.units.size());
    });
  }
  EXPECT_GT(num_units, 800);
}

}  // namespace
}  // namespace plimsoll::check
