#include "check/checkpoint/step_simulator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "check/random_step.h"
#include "check/toy_step.h"
#include "checkpoint/trace/step_trace.h"
#include "plimsoll/check/checkpoint_check.h"

namespace plimsoll::check {
namespace {

using checkpoint::CheckpointPolicy;
using checkpoint::CheckpointUnit;
using checkpoint::ModuleStats;
using checkpoint::OperatorKind;
using checkpoint::OperatorRoofline;
using checkpoint::StepBuilder;
using checkpoint::StepOperator;
using checkpoint::StepProgram;
using checkpoint::UnitKind;
using ::testing::ElementsAre;

constexpr OperatorRoofline kUnit{1, 1};

StepSimulation simulate(const StepProgram& program, const CheckpointPolicy& policy = {}) {
  auto simulation = simulate_step(program, kUnit, policy, true);
  EXPECT_TRUE(simulation) << format_error(simulation.error());
  return simulation ? *std::move(simulation) : StepSimulation();
}

ModuleStats trace(const StepProgram& program) {
  auto stats = checkpoint::trace_step(program, kUnit);
  EXPECT_TRUE(stats) << format_error(stats.error());
  return stats ? *std::move(stats) : ModuleStats();
}

CheckpointUnit full(std::vector<std::string> fqns, std::vector<CheckpointUnit> nested = {}) {
  CheckpointUnit unit;
  unit.fqns = std::move(fqns);
  unit.kind = UnitKind::kFull;
  unit.nested = std::move(nested);
  return unit;
}

std::vector<Bytes> residents(const StepSimulation& simulation) {
  std::vector<Bytes> bytes;
  for (const StepEvent& event : simulation.timeline) bytes.push_back(event.resident);
  return bytes;
}

// toy_step.h, one block, as worked out above StepTrace.RecordsTheToyAsByHand.
TEST(StepSimulator, ReplaysTheToyWithoutAPlan) {
  const StepSimulation step = simulate(toy_step());
  EXPECT_THAT(residents(step), ElementsAre(202, 330, 458, 522, 526,  // forward
                                           594, 674, 610, 428, 336));
  EXPECT_EQ(step.peak, (StepEvent{StepPhase::kBackward, 3, 674}));
  EXPECT_EQ(step.kept_after_forward, 526);
  EXPECT_EQ(step.left_at_end, 8 + 4 + 130 + 130);
  EXPECT_EQ(step.recompute_ms, 0);
  EXPECT_EQ(step.num_recomputed, 0);
}

// The block keeps its input (64) alone: 270 after the forward. Its backward begins with 270: y and
// the seed are gone, the gradient of y has come. mm (398) and gelu (526) run again; the second mm
// does not, as autograd only wants its input.
TEST(StepSimulator, RunsAUnitAgainUpToTheLastValueThatAutogradWants) {
  const StepSimulation step = simulate(toy_step(), {{full({"Net.a"})}});
  EXPECT_THAT(residents(step), ElementsAre(202, 330, 458, 394, 270,  // forward
                                           338, 398, 526,            // nll, recomputation
                                           674, 610, 428, 336));
  EXPECT_EQ(step.timeline[6].phase, StepPhase::kRecompute);
  EXPECT_EQ(step.kept_after_forward, 270);
  EXPECT_EQ(step.num_recomputed, 2);
  const StepProgram program = toy_step();
  EXPECT_DOUBLE_EQ(step.recompute_ms,
                   kUnit.forward_ms(program.operators[1]) + kUnit.forward_ms(program.operators[2]));
  EXPECT_EQ(step.left_at_end, 272);
}

// Saved, the first mm's output is handed over and costs nothing again.
TEST(StepSimulator, TakesSavedOutputsFromTheCache) {
  const StepProgram program = toy_step();
  const ModuleStats stats = trace(program);
  const StepSimulation step = simulate(program, {{unit_of(stats, "Net.a", {true})}});
  EXPECT_EQ(step.kept_after_forward, 270 + 128);
  EXPECT_THAT(residents(step), ElementsAre(202, 330, 458, 522, 398,  // forward
                                           466, 398, 526,            // nll, recomputation
                                           674, 610, 428, 336));
  EXPECT_EQ(step.num_recomputed, 1);
  EXPECT_DOUBLE_EQ(step.recompute_ms, kUnit.forward_ms(program.operators[2]));
}

// Saved, the operator that makes the output lies in the cache to the end of the unit's backward:
// 64 bytes on every line between.
TEST(StepSimulator, HoldsASavedLastOperatorForNothing) {
  const StepProgram program = toy_step();
  const ModuleStats stats = trace(program);
  const StepSimulation step = simulate(program, {{unit_of(stats, "Net.a", {false, false, true})}});
  EXPECT_THAT(residents(step), ElementsAre(202, 330, 458, 394, 270, 338, 398 + 64, 526 + 64,
                                           674 + 64, 610 + 64, 428 + 64, 336));
  EXPECT_EQ(step.num_recomputed, 2);
}

// Two blocks as one unit hold one input; as two units, two. Nested, the second is run again by
// itself: its outer unit stops before it.
TEST(StepSimulator, RunsSiblingsAsOneAndNestedUnitsByThemselves) {
  const StepProgram program = toy_step(2);
  const Bytes plain = simulate(program).kept_after_forward;
  const StepSimulation apart = simulate(program, {{full({"Net.a"}), full({"Net.b"})}});
  const StepSimulation run = simulate(program, {{full({"Net.a", "Net.b"})}});
  EXPECT_EQ(plain - apart.kept_after_forward, 2 * 256);
  EXPECT_EQ(plain - run.kept_after_forward, 2 * 256 + 64);
  EXPECT_EQ(apart.num_recomputed, 4);
  EXPECT_EQ(run.num_recomputed, 5) << "the first block's output too";
  const StepSimulation nested = simulate(program, {{full({"Net.a", "Net.b"}, {full({"Net.b"})})}});
  EXPECT_EQ(nested.kept_after_forward, run.kept_after_forward);
  EXPECT_EQ(nested.num_recomputed, 3 + 2);
  EXPECT_EQ(nested.peak.resident, run.peak.resident);
  const StepSimulation inner = simulate(program, {{full({"Net.a", "Net.b"}, {full({"Net.a"})})}});
  EXPECT_EQ(inner.num_recomputed, 3 + 2 + 2) << "the first block twice";
  EXPECT_EQ(inner.peak.resident + 256, run.peak.resident) << "without what the first block keeps";
  for (const StepSimulation& step : {apart, run, nested, inner}) {
    EXPECT_EQ(step.left_at_end, simulate(program).left_at_end);
  }
}

//   x ─ mm ─ y ─ relu_ ─ y ─ mm       y is changed in place, so no second storage is made
TEST(StepSimulator, ChangesInPlaceWithoutANewStorage) {
  StepBuilder step("in_place");
  const int batch = step.input(8);
  step.open("Net");
  StepOperator mm;
  mm.name = "mm";
  mm.inputs = mm.saved = {batch};
  mm.parameters = {step.parameter(10)};
  const int y = step.add(mm, {100})[0];
  StepOperator relu;
  relu.name = "relu_";
  relu.kind = OperatorKind::kInPlace;
  relu.inputs = relu.saved = {y};
  relu.gradients = {{y}};
  step.add(relu, {});
  StepOperator last = mm;
  last.inputs = last.saved = {y};
  last.gradients = {{y}};
  step.add(last, {4});
  step.close();
  const StepSimulation simulation = simulate(step.program());
  EXPECT_THAT(residents(simulation),
              ElementsAre(118, 118, 122,       // 18 + 100 (+ 4)
                          122 + 4 + 100 + 10,  // the gradient of y, of the parameter
                          122 + 110 + 100,     // relu_ makes a gradient of its own
                          122 + 10 + 100 - 100 + 10));
}

//   x ─┬─ gelu ─┐
//      └────────┴ add ─ nll     add passes one gradient to both, so they cannot meet in place
TEST(StepSimulator, AddsGradientsThatShareABufferIntoANewOne) {
  StepBuilder step("residual");
  const int batch = step.input(0);
  step.open("Net");
  StepOperator mm;
  mm.name = "mm";
  mm.inputs = mm.saved = {batch};
  mm.parameters = {step.parameter(0)};
  const int x = step.add(mm, {100})[0];
  StepOperator neg;
  neg.name = "neg";
  neg.inputs = {x};
  neg.gradients = {{x}};
  const int y = step.add(neg, {100})[0];
  StepOperator add;
  add.name = "add";
  add.inputs = {x, y};
  add.gradients = {{x, true}, {y, true}};
  const int z = step.add(add, {100})[0];
  StepOperator loss;
  loss.name = "nll";
  loss.inputs = {z};
  loss.gradients = {{z}};
  step.add(loss, {0});
  step.close();
  const StepSimulation simulation = simulate(step.program());
  // Forward: x; x y; x y z; z, then nothing. Backward: dz; dz passes as dx and dy; neg makes
  // another dx (200), dz stays as the older dx alone, so the newer is added in place.
  EXPECT_THAT(residents(simulation), ElementsAre(100, 200, 300, 100, 100, 100, 200, 100));

  // A second reader of x behind the residual holds dz while neg's gradient comes.
  StepProgram shared = step.program();
  shared.operators[1].gradients = {{0 + 1, true}};
  const StepSimulation passed = simulate(shared);
  EXPECT_EQ(passed.timeline[7].phase, StepPhase::kAccumulate);
  EXPECT_THAT(residents(passed), ElementsAre(100, 200, 300, 100, 100, 100, 100, 200, 100));
  EXPECT_EQ(trace(shared).mod_stats[0].total_peak_bw, 200);
}

// The second gradient of a tied parameter is there until it is added to the first.
TEST(StepSimulator, AddsTheGradientsOfATiedParameter) {
  StepProgram program = toy_step();
  program.operators[3].parameters = {1};  // both mm by the 10 bytes
  program.parameters[2].bytes = 0;
  const StepSimulation step = simulate(program);
  // 20 bytes less of parameters; 10 more where the older gradient is already there.
  EXPECT_THAT(residents(step), ElementsAre(182, 310, 438, 502, 506, 574, 644, 580, 398, 296));
  EXPECT_EQ(trace(program).total_step_peak, step.peak.resident);
}

// A unit of which autograd wants nothing never runs again, so it need not hold its input.
TEST(StepSimulator, HoldsNoInputThatNobodyWillAskFor) {
  StepProgram program = toy_step();
  program.operators[2].saved.clear();
  program.operators[3].saved.clear();
  program.operators[1].saved.clear();
  const StepSimulation plain = simulate(program);
  const StepSimulation step = simulate(program, {{full({"Net.a"})}});
  EXPECT_EQ(residents(step), residents(plain));
  EXPECT_EQ(step.num_recomputed, 0);
}

TEST(StepSimulator, CountsNoViewsAmongWhatRunsAgain) {
  StepProgram program = toy_step();
  StepOperator view;
  view.name = "view";
  view.kind = OperatorKind::kView;
  view.module = program.operators[2].module;
  view.inputs = view.outputs = {2};
  program.operators.insert(program.operators.begin() + 2, view);
  EXPECT_EQ(simulate(program, {{full({"Net.a"})}}).num_recomputed, 2);
}

// ---------------------------------------------------------------------------- random programs

// Every storage counted while held and every storage's interval: two ways to one peak.
TEST(StepSimulator, PeaksWhereTheTraceDoesWithoutAPlan) {
  for (std::uint32_t seed = 1; seed <= 300; ++seed) {
    SCOPED_TRACE(seed);
    for (const StepProgram& program :
         {RandomStep(seed).residual_stack(static_cast<int>(seed % 4) + 1),
          RandomStep(seed).wild()}) {
      const ModuleStats stats = trace(program);
      ASSERT_TRUE(validate(stats));
      const StepSimulation step = simulate(program);
      ASSERT_EQ(step.peak.resident, stats.total_step_peak);
      const auto first = std::max_element(
          step.timeline.begin(), step.timeline.end(),
          [](const StepEvent& a, const StepEvent& b) { return a.resident < b.resident; });
      ASSERT_EQ(step.peak, *first);
    }
  }
}

// The batch, the loss, the parameters and their gradients are left; nothing else.
TEST(StepSimulator, LeavesNothingBehind) {
  for (std::uint32_t seed = 1; seed <= 100; ++seed) {
    SCOPED_TRACE(seed);
    const StepProgram program = RandomStep(seed).residual_stack(3);
    Bytes left = 8 + 8 + 4;
    for (const auto& parameter : program.parameters) left += 2 * parameter.bytes;
    ASSERT_EQ(simulate(program).left_at_end, left);
  }
}

// Random units with random choices that a plan may make: views recomputed, in-place groups never
// saved, random operators alike, the last operator never saved.
CheckpointPolicy random_policy(RandomStep& random, const StepProgram& program,
                               const ModuleStats& stats, bool keeps) {
  CheckpointPolicy policy;
  const auto layout = checkpoint::make_layout(program);
  int last = -1;
  for (std::size_t m = 1; m < program.modules.size(); ++m) {
    const auto found = stats.sac_stats_of.find(program.modules[m].fqn);
    if (found == stats.sac_stats_of.end() || layout->first_operator[m] <= last) continue;
    if (!stats.mod_stats[m].requires_grad || random.below(3) == 0) continue;
    const auto& table = stats.sac_stats[static_cast<std::size_t>(found->second)];
    std::vector<bool> save(table.func_names.size());
    for (std::size_t i = 0; i < save.size(); ++i) {
      save[i] = keeps && table.memory[i] > 0 && random.below(3) == 0;
    }
    bool saves_random = keeps && random.below(2) == 0;
    for (int i : table.rand_ops) saves_random &= table.memory[static_cast<std::size_t>(i)] > 0;
    for (int i : table.rand_ops) save[static_cast<std::size_t>(i)] = saves_random;
    for (const auto& [op, parent] : table.inplace_ops) {
      save[static_cast<std::size_t>(op)] = save[static_cast<std::size_t>(parent)] = false;
    }
    policy.units.push_back(unit_of(stats, program.modules[m].fqn, save));
    last = layout->last_operator[m];
  }
  return policy;
}

CheckpointReport judge(const ModuleStats& stats, const CheckpointPolicy& policy, bool unit_room) {
  CheckpointCheckOptions options;
  options.unit_room = unit_room;
  auto report = check_checkpointing(stats, policy, options);
  EXPECT_TRUE(report) << format_error(report.error());
  return report ? *std::move(report) : CheckpointReport();
}

// On stacks of residual blocks: what is kept falls by the operators' bytes exactly; the judge's
// peak is the true one, or too low by what units need while they run again; with room for that it
// is never too low.
TEST(StepSimulator, ConfirmsDiscardsAndPeaksOnResidualStacks) {
  int num_exact = 0, num_low = 0;
  for (std::uint32_t seed = 1; seed <= 400; ++seed) {
    SCOPED_TRACE(seed);
    RandomStep random(seed);
    const StepProgram program = random.residual_stack(static_cast<int>(seed % 4) + 1);
    const ModuleStats stats = trace(program);
    const CheckpointPolicy policy = random_policy(random, program, stats, true);
    const CheckpointReport report = judge(stats, policy, false);
    ASSERT_TRUE(report.is_right()) << report.violations()[0].message;
    const StepSimulation plain = simulate(program);
    const StepSimulation step = simulate(program, policy);
    ASSERT_EQ(plain.kept_after_forward - step.kept_after_forward, report.discarded);
    ASSERT_EQ(plain.left_at_end, step.left_at_end);
    ASSERT_LE(step.recompute_ms, report.recompute_ms * (1 + 1e-12));
    ASSERT_LE(report.peak, step.peak.resident);
    ASSERT_GE(judge(stats, policy, true).peak, step.peak.resident);
    num_exact += report.peak == step.peak.resident ? 1 : 0;
    num_low += report.peak < step.peak.resident ? 1 : 0;
  }
  EXPECT_GT(num_exact, 300);
  EXPECT_GT(num_low, 30) << "the room that units need is put to the test";
}

// Units that keep nothing cache nothing, so only a forward that rises higher than the backward can
// make the judge's peak too low.
TEST(StepSimulator, ConfirmsPeaksOfPlainUnitsExactly) {
  for (std::uint32_t seed = 1; seed <= 400; ++seed) {
    SCOPED_TRACE(seed);
    RandomStep random(seed);
    const StepProgram program = random.residual_stack(static_cast<int>(seed % 4) + 1);
    const ModuleStats stats = trace(program);
    const CheckpointPolicy policy = random_policy(random, program, stats, false);
    const StepSimulation step = simulate(program, policy);
    const Bytes peak = judge(stats, policy, false).peak;
    if (step.peak.phase != StepPhase::kRecompute) {
      ASSERT_EQ(peak, step.peak.resident);
    } else {
      ASSERT_LE(peak, step.peak.resident);
    }
  }
}

TEST(StepSimulator, GivesTheSameAnswerTwice) {
  const StepProgram program = RandomStep(7).wild();
  const StepSimulation first = simulate(program);
  EXPECT_EQ(first.timeline, simulate(program).timeline);
  const auto quiet = simulate_step(program, kUnit, {}, false);
  ASSERT_TRUE(quiet);
  EXPECT_TRUE(quiet->timeline.empty());
  EXPECT_EQ(quiet->peak, first.peak);
}

// ------------------------------------------------------------------------ saved bytes are no peak

// A chain of residual blocks. One unit over all of it keeps least and still has a higher peak than
// a unit for each block: the whole chain is made again at once. (Reported of the compile
// partitioner's memory budget: budgets of .05 and .15 peaked at 1145 and 275 MB.)
TEST(StepSimulator, ShowsThatKeepingLessCanNeedMore) {
  const StepProgram program = toy_step(12);
  std::vector<std::string> blocks;
  for (char c = 'a'; c < 'a' + 12; ++c) blocks.push_back(std::string("Net.") + c);
  const StepSimulation plain = simulate(program);
  Bytes kept = plain.kept_after_forward;
  Bytes best = plain.peak.resident;
  // Units for each block, and for each run of 2, 3, 4, 6 and 12.
  std::vector<Bytes> kept_by_length, peak_by_length;
  for (std::size_t length : {1U, 2U, 3U, 4U, 6U, 12U}) {
    SCOPED_TRACE(length);
    CheckpointPolicy policy;
    for (std::size_t b = 0; b < blocks.size(); b += length) {
      policy.units.push_back(full({blocks.begin() + static_cast<std::ptrdiff_t>(b),
                                   blocks.begin() + static_cast<std::ptrdiff_t>(b + length)}));
    }
    const StepSimulation step = simulate(program, policy);
    EXPECT_LT(step.kept_after_forward, kept) << "longer runs keep less";
    kept = step.kept_after_forward;
    best = std::min(best, step.peak.resident);
    kept_by_length.push_back(kept);
    peak_by_length.push_back(step.peak.resident);
  }
  EXPECT_GT(peak_by_length.back(), 2 * best) << "the run over everything keeps least";
  EXPECT_EQ(peak_by_length.back(), plain.peak.resident) << "and saves nothing at the peak";
  EXPECT_TRUE(std::is_sorted(peak_by_length.begin() + 1, peak_by_length.end()));
}

// A plan on the module tree that keeps one value a block does not have it: with each block that
// becomes a unit less is kept and the peak does not rise.
TEST(StepSimulator, FallsWithEveryBlockThatBecomesAUnit) {
  for (std::uint32_t seed = 1; seed <= 50; ++seed) {
    SCOPED_TRACE(seed);
    const StepProgram program = RandomStep(seed).residual_stack(6);
    StepSimulation before = simulate(program);
    CheckpointPolicy policy;
    for (int b = 0; b < 6; ++b) {
      policy.units.push_back(full({"Net.blocks." + std::to_string(b)}));
      const StepSimulation step = simulate(program, policy);
      ASSERT_LT(step.kept_after_forward, before.kept_after_forward);
      ASSERT_LE(step.peak.resident, before.peak.resident);
      before = step;
    }
  }
}

// ------------------------------------------------------------------------------------ bad plans

TEST(StepSimulator, RefusesPlansThatItCannotReplay) {
  const StepProgram program = toy_step(2);
  const ModuleStats stats = trace(program);
  const auto code_of = [&](std::vector<CheckpointUnit> units) {
    const auto answer = simulate_step(program, kUnit, {std::move(units)});
    return answer ? ErrorCode::kInternal : answer.error().code;
  };
  EXPECT_EQ(code_of({full({"Net.z"})}), ErrorCode::kNotFound);
  EXPECT_EQ(code_of({full({})}), ErrorCode::kSchema);
  EXPECT_EQ(code_of({full({"Net.a"}), full({"Net.a.up"})}), ErrorCode::kConflict);
  EXPECT_EQ(code_of({full({"Net.b"}), full({"Net.a"})}), ErrorCode::kConflict);
  EXPECT_EQ(code_of({full({"Net.b", "Net.a"})}), ErrorCode::kConflict);
  EXPECT_EQ(code_of({full({"Net.a"}, {full({"Net.b"})})}), ErrorCode::kConflict);
  EXPECT_EQ(code_of({full({"Net.a", "Net.b"}, {unit_of(stats, "Net.b", {true})})}),
            ErrorCode::kValue);
  CheckpointUnit unit = unit_of(stats, "Net.a");
  unit.ops[0].op = "addmm";
  EXPECT_EQ(code_of({unit}), ErrorCode::kSchema);
  unit.ops.pop_back();
  EXPECT_EQ(code_of({unit}), ErrorCode::kSchema);
}

}  // namespace
}  // namespace plimsoll::check
