#include "plimsoll/checkpoint/checkpoint_problem.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "checkpoint/vectors.h"
#include "plimsoll/checkpoint/frontier_search.h"

namespace plimsoll::checkpoint {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// R ─┬─ R.a ─── R.a.x
//    ├─ R.b ─── R.b.x
//    └─ R.c                 all figures in MiB
ModuleStats tiny6() { return stats_from_instance(golden().at("sac_instances").at(0)); }

ModuleStats with_totals() {
  ModuleStats stats = tiny6();
  Bytes total = 900 * kMiB;
  for (ModuleInfo& module : stats.mod_stats) {
    module.total_peak_fw = total;
    module.total_post_fw = total - 50 * kMiB;
    module.total_pre_bw = total + 100 * kMiB;
    module.total_peak_bw = total + 300 * kMiB;
    total += 200 * kMiB;
  }
  stats.total_step_peak = 3000 * kMiB;
  stats.total_before_root_bw = 2500 * kMiB;
  return stats;
}

std::vector<std::string> units_of(const CheckpointProblem& problem) {
  std::vector<std::string> names;
  for (const CandidateUnit& unit : problem.units) {
    std::string name;
    for (int node : unit.nodes) name += (name.empty() ? "" : "+") + problem.fqn[node];
    names.push_back(name);
  }
  return names;
}

Error error_of(const ModuleStats& stats, const MemoryModel& model) {
  const auto tree = make_module_tree(stats);
  const auto problem = make_checkpoint_problem(stats, *tree, model);
  EXPECT_FALSE(problem);
  return problem ? Error{} : problem.error();
}

TEST(CheckpointProblem, RoundsShardedStateUp) {
  MemoryModel model;
  model.world_size = 3;
  ModuleStats stats = tiny6();
  stats.mod_stats[0].param_per_module = 400 * kMiB + 1;
  const CheckpointProblem problem = problem_from(stats, model);
  // R.a: 832 + 192 + (400 + 300) / 3
  EXPECT_EQ(problem.base[1], 1024 * kMiB + (700 * kMiB + 1 + 2) / 3);
  EXPECT_EQ(problem.base[0], (2048 + 256) * kMiB + (400 * kMiB + 1 + 2) / 3);
}

TEST(CheckpointProblem, OffersWhatMayBeAUnit) {
  EXPECT_THAT(units_of(problem_from(tiny6())), ElementsAre("R.a", "R", "R.b"));
  MemoryModel model;
  model.ac_units = {"R.b", "R.c"};
  EXPECT_THAT(units_of(problem_from(tiny6(), model)), ElementsAre("R.b"));
  model = {};
  model.fsdp_units = {"R.a.x"};
  EXPECT_THAT(units_of(problem_from(tiny6(), model)), ElementsAre("R.b"));
  model.fsdp_units = {"R.a"};  // a unit may be one, not hold one
  EXPECT_THAT(units_of(problem_from(tiny6(), model)), ElementsAre("R.a", "R.b"));
  ModuleStats stats = tiny6();
  stats.repeated = {"R.a"};
  EXPECT_THAT(units_of(problem_from(stats)), ElementsAre("R", "R.b"));
  stats = tiny6();
  stats.mod_stats[3].requires_grad = false;
  EXPECT_THAT(units_of(problem_from(stats)), ElementsAre("R.a", "R"));
  stats = tiny6();
  stats.fit_failed = {"R"};
  EXPECT_THAT(units_of(problem_from(stats)), ElementsAre("R.a", "R.b"));
  model = {};
  model.costs = DiscardModel::kOperators;
  EXPECT_THAT(units_of(problem_from(stats, model)), ElementsAre("R.a", "R", "R.b"));
}

TEST(CheckpointProblem, PricesDiscardsByTheFit) {
  const CheckpointProblem problem = problem_from(tiny6());
  const CandidateUnit& unit = problem.units[0];  // R.a, 1024 MiB of operators, 768 kept by autograd
  EXPECT_EQ(unit.first, 0);
  EXPECT_EQ(unit.last, 1);
  EXPECT_EQ(unit.threshold, 1724 * kMiB);
  EXPECT_EQ(unit.kept_inside, 768 * kMiB);
  EXPECT_EQ(unit.price.capacity(), 768 * kMiB);
  EXPECT_NEAR(unit.price.fixed, 4 * .4 * .25, 1e-12);
  EXPECT_NEAR(unit.price.price(256 * kMiB), 4 * .4 * .5, 1e-7);  // the corner
  EXPECT_NEAR(unit.price.price(768 * kMiB), 4 * 1., 1e-6);

  MemoryModel model;
  model.unit_overhead_ms = 3;
  EXPECT_NEAR(problem_from(tiny6(), model).units[0].price.fixed, 3.4, 1e-12);

  // Operators that hold less than autograd keeps count as much as autograd keeps.
  ModuleStats stats = tiny6();
  stats.mod_stats[1].sac_memory = 1;
  EXPECT_EQ(problem_from(stats).units[0].sac_memory, 768 * kMiB);

  SACStats table;
  table.func_names = {"bernoulli", "mm"};
  table.runtimes = {1, 1};
  table.memory = {68 * kMiB, 0};
  table.rand_ops = {0};
  table.force_store_random = true;
  stats = tiny6();
  stats.sac_stats = {table};
  stats.sac_stats_of["R.a"] = 0;
  model = {};
  model.keep_stored_operators = true;
  EXPECT_EQ(problem_from(stats, model).units[0].price.capacity(), 700 * kMiB);
}

TEST(CheckpointProblem, TakesThePeaksOfTheStep) {
  MemoryModel model;
  model.peak = PeakModel::kStep;
  const ModuleStats stats = with_totals();
  const CheckpointProblem problem = problem_from(stats, model);
  // In order of registration R, R.a, R.a.x, R.b, R.b.x, R.c; the root has no peak of its own.
  EXPECT_EQ(problem.base, (std::vector<Bytes>{0, 1400 * kMiB, 1600 * kMiB, 1800 * kMiB, 2000 * kMiB,
                                              2200 * kMiB}));
  EXPECT_EQ(problem.end_base, 3000 * kMiB);  // more than any module saw: the loss
  ModuleStats inside = stats;
  inside.total_step_peak = 2200 * kMiB;
  EXPECT_EQ(problem_from(inside, model).end_base, 2500 * kMiB);
  inside.total_before_root_bw.reset();
  EXPECT_EQ(problem_from(inside, model).end_base, 2200 * kMiB);

  model.world_size = 2;  // half of 400 of parameters, and of 300 of gradients at R.a
  EXPECT_EQ(problem_from(stats, model).base[1], (1400 - 350) * kMiB);
  EXPECT_EQ(problem_from(stats, model).end_base, 2800 * kMiB);

  model = {};
  model.peak = PeakModel::kStep;
  inside.mod_stats[3].total_peak_bw.reset();
  EXPECT_THAT(format_error(error_of(inside, model)), HasSubstr("R.b: total_peak_bw is absent"));
  inside.mod_stats[3].requires_grad = false;
  EXPECT_EQ(problem_from(inside, model).base[3], 0);
}

TEST(CheckpointProblem, MendsTheMemoryModelOneRuleATime) {
  const ModuleStats stats = with_totals();
  const auto first_unit = [&](auto set) {
    MemoryModel model;
    set(model);
    return problem_from(stats, model).units[0];
  };
  const CandidateUnit plain = first_unit([](MemoryModel&) {});
  EXPECT_EQ(plain.threshold, 1724 * kMiB);
  // R.a: 1200 before backward; 50 more while its forward runs again.
  MemoryModel model;
  model.unit_own_backward = true;
  EXPECT_EQ(problem_from(stats, model).units[0].own_need, 1200 * kMiB);
  EXPECT_EQ(problem_from(stats, model).units[0].threshold, 1724 * kMiB);
  model.recompute_working_set = true;
  EXPECT_EQ(problem_from(stats, model).units[0].own_need, 1250 * kMiB);
  ModuleStats large = stats;
  large.mod_stats[1].total_pre_bw = 1900 * kMiB;
  EXPECT_EQ(problem_from(large, model).units[0].threshold, 1950 * kMiB);

  model = {};
  model.forward_peak = true;
  large.mod_stats[2].total_peak_fw = 5000 * kMiB;
  EXPECT_EQ(problem_from(large, model).base[2], 5000 * kMiB);
  EXPECT_EQ(problem_from(large, model).base[0], 2704 * kMiB);

  model = {};
  model.optimizer_bytes = 7;
  model.world_size = 2;
  EXPECT_EQ(problem_from(stats, model).base[0], 2504 * kMiB + 4);
  // R.a holds 100 of parameters, 80 of them in its own FSDP unit: three copies and one gradient.
  model = {};
  model.fsdp_units = {"R.a", "R.a.x"};
  model.fsdp_buffers = true;
  EXPECT_EQ(problem_from(stats, model).base[0], (2704 + 4 * 80) * kMiB);
  model.fsdp_units = {"R.a", "R.a.x", "R"};
  model.param_dtype_ratio = .5;
  EXPECT_EQ(problem_from(stats, model).base[0], (2704 + 300 * 5 / 2) * kMiB);
}

TEST(CheckpointProblem, ReservesRoomForCopiesThatAutogradWouldNotKeep) {
  SACStats table;
  table.func_names = {"mm", "mm", "add"};
  table.runtimes = {1, 2, 1};
  table.memory = {100 * kMiB, 200 * kMiB, 0};
  table.saved_autograd_ops = {0};
  ModuleStats stats = tiny6();
  stats.sac_stats = {table};
  stats.sac_stats_of["R.a"] = 0;
  MemoryModel model;
  model.costs = DiscardModel::kOperators;
  model.saved_copies = true;
  const CheckpointProblem problem = problem_from(stats, model);
  std::vector<Bytes> room;
  for (const math::CostPoint& point : problem.units[0].points) {
    room.push_back((point.needs - problem.units[0].threshold) / kMiB);
  }
  EXPECT_THAT(room, ElementsAre(0, 0, 200, 200));  // none, 0, 1, both
}

TEST(CheckpointProblem, JoinsRunsOfChildrenIntoUnits) {
  ModuleStats stats = tiny6();
  for (ModuleInfo& module : stats.mod_stats) module.output_per_module = 64 * kMiB;
  stats.mod_stats[5].fw_runtime_per_module = 2.5;
  MemoryModel model;
  model.max_segment_length = 3;
  const CheckpointProblem problem = problem_from(stats, model);
  EXPECT_THAT(units_of(problem),
              ElementsAre("R.a", "R.a+R.b", "R.a+R.b+R.c", "R", "R.b", "R.b+R.c"));
  const CandidateUnit& pair = problem.units[1];
  EXPECT_EQ(pair.first, 0);
  EXPECT_EQ(pair.last, 3);
  EXPECT_EQ(pair.threshold, 2456 * kMiB);
  // From before R.a (832 - 768 - 64 = 0) to R.b's output: 1664 - 64.
  EXPECT_EQ(pair.kept_inside, 1600 * kMiB);
  EXPECT_EQ(pair.points[0].price, 10);
  EXPECT_EQ(problem.units[2].points[0].price, 12.5);
  model.max_segment_length = 2;
  EXPECT_THAT(units_of(problem_from(stats, model)),
              ElementsAre("R.a", "R.a+R.b", "R", "R.b", "R.b+R.c"));
  model.fsdp_units = {"R.b"};
  EXPECT_THAT(units_of(problem_from(stats, model)), ElementsAre("R.a", "R.b"));
}

// A run's forwards are all run again before its backward begins, at its last module.
TEST(CheckpointProblem, AsksRoomForARunWhereItsBackwardBegins) {
  ModuleStats stats = with_totals();
  for (ModuleInfo& module : stats.mod_stats) module.output_per_module = 64 * kMiB;
  ModuleInfo& a = stats.mod_stats[1];
  ModuleInfo& b = stats.mod_stats[3];
  a.total_pre_bw = 5000 * kMiB;
  a.total_peak_fw = 2000 * kMiB;
  a.total_post_fw = 100 * kMiB;
  b.total_pre_bw = 3000 * kMiB;
  b.total_peak_fw = 1900 * kMiB;
  b.total_post_fw = 1800 * kMiB;
  MemoryModel model;
  model.max_segment_length = 2;
  const auto need_of_pair = [&] { return problem_from(stats, model).units[1].own_need; };
  model.unit_own_backward = true;
  ASSERT_EQ(units_of(problem_from(stats, model))[1], "R.a+R.b");
  EXPECT_EQ(need_of_pair(), 3000 * kMiB);
  model.recompute_working_set = true;
  EXPECT_EQ(need_of_pair(), (3000 + 2000 - 1800 + 64) * kMiB);
}

TEST(CheckpointProblem, RefusesWhatMakesNoSense) {
  const ModuleStats stats = tiny6();
  MemoryModel model;
  model.world_size = 0;
  EXPECT_EQ(error_of(stats, model).place, "world_size");
  model = {};
  model.ac_units = {"R.z"};
  EXPECT_EQ(error_of(stats, model).code, ErrorCode::kNotFound);
  model = {};
  model.fsdp_units = {"R.z"};
  EXPECT_THAT(format_error(error_of(stats, model)), HasSubstr("fsdp_units"));
  model = {};
  model.unit_overhead_ms = -1;
  EXPECT_EQ(error_of(stats, model).place, "unit_overhead_ms");
  model = {};
  model.max_segment_length = 0;
  EXPECT_EQ(error_of(stats, model).place, "max_segment_length");
  model = {};
  model.optimizer_bytes = -1;
  EXPECT_EQ(error_of(stats, model).code, ErrorCode::kValue);
  model = {};
  model.param_dtype_ratio = 0;
  EXPECT_EQ(error_of(stats, model).code, ErrorCode::kValue);
  for (bool MemoryModel::*rule :
       {&MemoryModel::unit_own_backward, &MemoryModel::recompute_working_set,
        &MemoryModel::forward_peak}) {
    model = {};
    model.*rule = true;
    EXPECT_EQ(error_of(stats, model).code, ErrorCode::kSchema);
  }
  model = {};
  model.peak = PeakModel::kStep;
  EXPECT_EQ(error_of(stats, model).code, ErrorCode::kSchema);
}

// With an end point every unit counts there, the root too.
TEST(CheckpointProblem, CountsAllDiscardsAtTheEnd) {
  MemoryModel model;
  model.peak = PeakModel::kStep;
  const CheckpointProblem problem = problem_from(with_totals(), model);
  const auto outcome = plan_for_budget(problem, 2600 * kMiB);
  ASSERT_TRUE(outcome);
  ASSERT_TRUE(outcome->plan);
  EXPECT_EQ(outcome->plan->figures.binding_node, -1);
  EXPECT_EQ(outcome->plan->figures.peak, 2600 * kMiB);
  Bytes gone = 0;
  for (const CheckpointUnit& unit : outcome->plan->policy.units) gone += unit.discarded;
  EXPECT_EQ(gone, 400 * kMiB);
}

TEST(CheckpointProblem, RefusesFittedCostsOfAModuleWithoutAFit) {
  ModuleStats stats = tiny6();
  stats.mod_stats[1].n_segments = 0;
  stats.mod_stats[1].slopes = stats.mod_stats[1].intercepts = {};
  const ModuleTree tree = *make_module_tree(stats);
  MemoryModel model;
  model.costs = DiscardModel::kFit;
  const auto refused = make_checkpoint_problem(stats, tree, model);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kValue);
  EXPECT_EQ(refused.error().place, "R.a");
  model.ac_units = {"R.b"};
  EXPECT_TRUE(make_checkpoint_problem(stats, tree, model));
  model.ac_units = {};
  stats.fit_failed = {"R.a"};
  EXPECT_EQ(make_checkpoint_problem(stats, tree, model)->units.size(), 2u);  // R and R.b
}

}  // namespace
}  // namespace plimsoll::checkpoint
