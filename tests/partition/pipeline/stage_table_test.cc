#include "partition/pipeline/stage_table.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <functional>

#include "partition/pipelines.h"
#include "plimsoll/core/numbers.h"

namespace plimsoll::partition {
namespace {

StageTable make_table(int num_layers, int num_devices, int num_microbatches,
                      std::vector<int> mesh_devices) {
  StageTable table{num_layers, num_devices, num_microbatches, std::move(mesh_devices), {}, {}};
  table.time_ms.assign(
      static_cast<std::size_t>(num_layers) * num_layers * table.mesh_devices.size(), kInfinity);
  return table;
}

StageTable random_table(std::uint64_t seed) {
  PipelineRandom random(seed);
  StageTable table =
      make_table(1 + random.below(5), 1 + random.below(6), 1 + random.below(8), {2, 1, 4});
  const bool has_memory = random.below(2) == 0;
  if (has_memory) table.max_later_stages.assign(table.time_ms.size(), 0);
  for (std::size_t i = 0; i < table.time_ms.size(); ++i) {
    if (random.below(5) > 0) table.time_ms[i] = random.below(20);
    if (has_memory) table.max_later_stages[i] = random.below(5) - 1;
  }
  return table;
}

double value_of(const StageTable& table, const TablePlan& plan) {
  int next = 0;
  int devices = 0;
  double sum = 0;
  double slowest = 0;
  for (std::size_t s = 0; s < plan.stages.size(); ++s) {
    const TableStage& stage = plan.stages[s];
    if (stage.first != next || stage.last < stage.first) return kInfinity;
    next = stage.last + 1;
    devices += table.mesh_devices[stage.mesh];
    const std::size_t at = table.at(stage.first, stage.last, stage.mesh);
    const int later = static_cast<int>(plan.stages.size() - 1 - s);
    if (!table.max_later_stages.empty() && later > table.max_later_stages[at]) return kInfinity;
    sum += table.time_ms[at];
    slowest = std::max(slowest, table.time_ms[at]);
  }
  if (next != table.num_layers || devices != table.num_devices) return kInfinity;
  return sum + (table.num_microbatches - 1.0) * slowest;
}

double least_by_force(const StageTable& table) {
  double best = kInfinity;
  TablePlan plan;
  const std::function<void(int)> extend = [&](int first) {
    if (first == table.num_layers) {
      best = std::min(best, value_of(table, plan));
      return;
    }
    for (int last = first; last < table.num_layers; ++last) {
      for (int mesh = 0; mesh < static_cast<int>(table.mesh_devices.size()); ++mesh) {
        plan.stages.push_back({first, last, mesh});
        extend(last + 1);
        plan.stages.pop_back();
      }
    }
  };
  extend(0);
  return best;
}

// Two layers, two devices, four microbatches: one stage on both takes 4 * 5; one each takes
// 3 + 4 + 3 * 4 = 19.
TEST(StageTable, WeighsSumAndSlowest) {
  StageTable table = make_table(2, 2, 4, {1, 2});
  table.time_ms[table.at(0, 1, 1)] = 5;
  table.time_ms[table.at(0, 0, 0)] = 3;
  table.time_ms[table.at(1, 1, 0)] = 4;
  const auto outcome = plan_stage_table(table);
  ASSERT_TRUE(outcome.has_value());
  EXPECT_EQ(outcome->certificate.objective, 19);
  EXPECT_EQ(outcome->plan->stages, (std::vector<TableStage>{{0, 0, 0}, {1, 1, 0}}));
  table.num_microbatches = 2;  // 10 against 3 + 4 + 4
  EXPECT_EQ(plan_stage_table(table)->certificate.objective, 10);
  table.num_microbatches = 4;
  table.max_later_stages.assign(table.time_ms.size(), 0);  // the first of two stages does not fit
  EXPECT_EQ(plan_stage_table(table)->certificate.objective, 20);
  table.num_devices = 3;
  EXPECT_EQ(to_string(plan_stage_table(table)->status), "infeasible");
}

TEST(StageTable, AgreesWithAllPlans) {
  int num_infeasible = 0;
  for (std::uint64_t seed = 0; seed < 1000; ++seed) {
    SCOPED_TRACE(seed);
    const StageTable table = random_table(seed);
    const double best = least_by_force(table);
    const auto outcome = plan_stage_table(table);
    ASSERT_TRUE(outcome.has_value());
    if (best == kInfinity) {
      ++num_infeasible;
      EXPECT_EQ(to_string(outcome->status), "infeasible");
      continue;
    }
    ASSERT_EQ(to_string(outcome->status), "optimal");
    EXPECT_NEAR(outcome->certificate.objective, best, 1e-9);
    EXPECT_NEAR(value_of(table, *outcome->plan), best, 1e-9);
    EXPECT_LE(*outcome->certificate.lower_bound, best);
    EXPECT_EQ(plan_stage_table(table)->plan, outcome->plan);
  }
  EXPECT_GT(num_infeasible, 50);
  EXPECT_LT(num_infeasible, 800);
}

TEST(StageTable, KeepsItsBoundWhenCut) {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(seed);
    const StageTable table = random_table(seed);
    const double best = least_by_force(table);
    SearchOptions options;
    options.effort = static_cast<std::int64_t>(seed);
    const auto outcome = plan_stage_table(table, options);
    if (outcome->status == SolveStatus::kInfeasible) {
      EXPECT_EQ(best, kInfinity);
      continue;
    }
    EXPECT_LE(*outcome->certificate.lower_bound, best);
    if (!outcome->plan) continue;
    EXPECT_GE(outcome->certificate.objective, best - 1e-9);
  }
}

TEST(StageTable, StopsWhenCancelled) {
  const std::atomic<bool> cancel{true};
  RunContext context;
  context.cancel = &cancel;
  EXPECT_EQ(to_string(plan_stage_table(random_table(1), {}, context)->stop), "cancelled");
}

TEST(StageTable, RefusesWhatMakesNoSense) {
  const StageTable good = make_table(2, 2, 4, {1, 2});
  const auto expect_refused = [&](ErrorCode code, const std::string& place,
                                  const std::function<void(StageTable&)>& change) {
    StageTable bad = good;
    change(bad);
    const auto outcome = plan_stage_table(bad);
    ASSERT_FALSE(outcome.has_value()) << place;
    EXPECT_EQ(to_string(outcome.error().code), to_string(code));
    EXPECT_EQ(outcome.error().place, place);
  };
  expect_refused(ErrorCode::kValue, "num_layers", [](auto& t) { t.num_layers = 0; });
  expect_refused(ErrorCode::kValue, "num_devices", [](auto& t) { t.num_devices = 0; });
  expect_refused(ErrorCode::kValue, "num_microbatches", [](auto& t) { t.num_microbatches = 0; });
  expect_refused(ErrorCode::kValue, "mesh_devices", [](auto& t) { t.mesh_devices[0] = 0; });
  expect_refused(ErrorCode::kSchema, "time_ms", [](auto& t) { t.time_ms.pop_back(); });
  expect_refused(ErrorCode::kSchema, "max_later_stages", [](auto& t) { t.max_later_stages = {1}; });
  expect_refused(ErrorCode::kValue, "time_ms", [](auto& t) { t.time_ms[t.at(0, 1, 0)] = -1; });
  expect_refused(ErrorCode::kValue, "time_ms", [](auto& t) { t.time_ms[t.at(0, 1, 0)] = NAN; });
}

}  // namespace
}  // namespace plimsoll::partition
