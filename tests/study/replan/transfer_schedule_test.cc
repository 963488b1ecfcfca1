// Schedules of whole tables that change ranks, followed step by step.
#include <gtest/gtest.h>

#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "embedding/small_models.h"
#include "plimsoll/study/replan.h"

namespace plimsoll::study {
namespace {

using embedding::ScheduleStatus;
using embedding::ShardingPlan;
using embedding::TransferKind;
using embedding::TransferSchedule;
using embedding::TransferStep;

constexpr std::int64_t kColumns = 64;
constexpr Bytes kSlack = 64 * kKiB;  // beside tables, for what the reservation keeps of a batch

// Tables of whole MiB, weights alone, on ranks with as much HBM and DDR each.
struct Case {
  std::vector<Bytes> tables;
  int num_ranks = 2;
  Bytes hbm = 0, ddr = 0;
};

std::string name_of(std::size_t table) { return "t" + std::to_string(table); }

embedding::PlanningProblem problem_of(const Case& given) {
  embedding::PlanningProblem problem;
  embedding::Module module;
  module.path = "ebc";
  for (std::size_t t = 0; t < given.tables.size(); ++t) {
    module.tables.push_back(embedding::make_table(name_of(t), given.tables[t] / (kColumns * 4),
                                                  kColumns, embedding::Pooling::kSum));
  }
  problem.model.modules = {module};
  problem.model.optimizer = embedding::Optimizer::kSgd;
  embedding::set_room(problem, given.num_ranks, given.num_ranks, given.hbm + kSlack, 1e6);
  for (auto& device : problem.topology.devices) device.ddr = given.ddr;
  problem.batch_size = 8;
  return problem;
}

ShardingPlan plan_of(const Case& given, const std::vector<int>& ranks) {
  ShardingPlan plan;
  plan.world_size = given.num_ranks;
  for (std::size_t t = 0; t < given.tables.size(); ++t) {
    embedding::TableSharding table;
    table.module_path = "ebc";
    table.table = name_of(t);
    table.ranks = {{ranks[t], 1}};
    table.shards = {{1, given.tables[t] / (kColumns * 4), kColumns}};
    plan.tables.push_back(table);
  }
  return plan;
}

TransferSchedule schedule(const Case& given, const std::vector<int>& before,
                          const std::vector<int>& after) {
  const auto found =
      schedule_transfers(problem_of(given), plan_of(given, before), plan_of(given, after));
  EXPECT_TRUE(found) << (found ? "" : format_error(found.error()));
  return found ? *found : TransferSchedule{};
}

// Whole tables where they lie: rank, and whether in DDR.
using Place = std::pair<int, bool>;

// Every step is possible, keeps every cap, and the last one leaves the new plan.
void follow(const Case& given, const std::vector<int>& before, const std::vector<int>& after,
            const TransferSchedule& made) {
  std::vector<std::map<Place, int>> copies(given.tables.size());
  std::map<Place, Bytes> used;
  const auto put = [&](std::size_t table, Place place, int sign) {
    copies[table][place] += sign;
    used[place] += sign * given.tables[table];
  };
  for (std::size_t t = 0; t < before.size(); ++t) put(t, {before[t], false}, 1);
  Bytes moved = 0, staged = 0;
  for (const TransferStep& step : made.steps) {
    const auto table = static_cast<std::size_t>(std::stoi(step.table.substr(5)));  // "ebc.t"
    const auto holds = [&](int rank) {
      return copies[table][{rank, false}] + copies[table][{rank, true}] > 0;
    };
    for (const auto& source : step.from) EXPECT_TRUE(holds(source.rank));
    if (step.kind == TransferKind::kCopy) {
      ASSERT_EQ(step.from.size(), 1U);
      put(table, {step.rank, false}, 1);
      EXPECT_EQ(step.bytes, given.tables[table]);
      moved += step.bytes;
    } else if (step.kind == TransferKind::kStage) {
      ASSERT_EQ(step.from.size(), 1U);
      put(table, {step.from.front().rank, false}, -1);
      put(table, {step.rank, step.in_ddr}, 1);
      staged += step.bytes;
    } else {
      put(table, {step.rank, step.in_ddr}, -1);
    }
    for (const auto& [place, bytes] : used) {
      EXPECT_GE(bytes, 0);
      EXPECT_LE(bytes, place.second ? given.ddr : given.hbm + kSlack + made.spare_bytes);
    }
  }
  for (std::size_t t = 0; t < after.size(); ++t) {
    for (const auto& [place, count] : copies[t]) {
      EXPECT_EQ(count, place == Place(after[t], false) ? 1 : 0) << t;
    }
  }
  EXPECT_EQ(made.moved_bytes, moved);
  EXPECT_EQ(made.staged_bytes, staged);
}

std::vector<TransferStep> stages_of(const TransferSchedule& made) {
  std::vector<TransferStep> stages;
  for (const TransferStep& step : made.steps) {
    if (step.kind == TransferKind::kStage) stages.push_back(step);
  }
  return stages;
}

// The one stage by which two full ranks swap their tables.
TransferStep swap(const Case& given, Bytes staged_bytes) {
  const TransferSchedule made = schedule(given, {0, 1}, {1, 0});
  EXPECT_EQ(made.status, ScheduleStatus::kComplete);
  EXPECT_EQ(made.staged_bytes, staged_bytes);
  follow(given, {0, 1}, {1, 0}, made);
  const auto stages = stages_of(made);
  EXPECT_EQ(stages.size(), 1U);
  return stages.empty() ? TransferStep{} : stages.front();
}

TEST(TransferSchedule, SwapsFullRanksThroughHostMemory) {
  const TransferStep stage = swap({{32 * kMiB, 32 * kMiB}, 2, 32 * kMiB, 40 * kMiB}, 0);
  EXPECT_TRUE(stage.in_ddr);  // nothing crosses a link
}

TEST(TransferSchedule, SwapsFullRanksThroughARankWithRoom) {
  const TransferStep stage = swap({{32 * kMiB, 32 * kMiB}, 3, 32 * kMiB, 0}, 32 * kMiB);
  EXPECT_EQ(stage.rank, 2);
  EXPECT_FALSE(stage.in_ddr);
}

TEST(TransferSchedule, AsksForABufferWhereNothingCanMove) {
  const Case given{{32 * kMiB, 32 * kMiB}, 2, 32 * kMiB, 0};
  const TransferSchedule made = schedule(given, {0, 1}, {1, 0});
  EXPECT_EQ(made.status, ScheduleStatus::kNeedsSpare);
  EXPECT_TRUE(made.is_spare_proved);
  EXPECT_GT(made.spare_bytes, 32 * kMiB - kSlack);
  EXPECT_LE(made.spare_bytes, 32 * kMiB);
  follow(given, {0, 1}, {1, 0}, made);
}

TEST(TransferSchedule, CopiesNothingThatStays) {
  const Case given{{32 * kMiB, 8 * kMiB}, 2, 40 * kMiB, 0};
  const TransferSchedule made = schedule(given, {0, 1}, {0, 1});
  EXPECT_EQ(made.status, ScheduleStatus::kComplete);
  EXPECT_TRUE(made.steps.empty());
}

TEST(TransferSchedule, KeepsEveryCapOnTheWayBetweenRandomPlans) {
  std::map<ScheduleStatus, int> num_of;
  int num_in_ddr = 0, num_on_ranks = 0;
  std::mt19937 random(1);
  const auto below = [&random](unsigned n) { return static_cast<int>(random() % n); };
  for (int i = 0; i < 300; ++i) {
    SCOPED_TRACE(i);
    Case given;
    given.num_ranks = 2 + below(3);
    const int num_tables = 2 + below(6);
    std::vector<int> before, after;
    std::vector<Bytes> load_before(static_cast<std::size_t>(given.num_ranks), 0);
    std::vector<Bytes> load_after = load_before;
    for (int t = 0; t < num_tables; ++t) {
      given.tables.push_back((1 + below(16)) * 2 * kMiB);
      before.push_back(below(static_cast<unsigned>(given.num_ranks)));
      after.push_back(below(static_cast<unsigned>(given.num_ranks)));
      load_before[static_cast<std::size_t>(before.back())] += given.tables.back();
      load_after[static_cast<std::size_t>(after.back())] += given.tables.back();
    }
    given.hbm = std::max(*std::max_element(load_before.begin(), load_before.end()),
                         *std::max_element(load_after.begin(), load_after.end())) +
                below(2) * 4 * kMiB;
    given.ddr = below(3) * 16 * kMiB;
    const TransferSchedule made = schedule(given, before, after);
    ASSERT_NE(made.status, ScheduleStatus::kNone);
    EXPECT_EQ(made.status == ScheduleStatus::kNeedsSpare, made.spare_bytes > 0);
    follow(given, before, after, made);
    ++num_of[made.status];
    for (const TransferStep& step : stages_of(made)) ++(step.in_ddr ? num_in_ddr : num_on_ranks);
  }
  EXPECT_GT(num_of[ScheduleStatus::kComplete], 200);
  EXPECT_GT(num_of[ScheduleStatus::kNeedsSpare], 2);
  EXPECT_GT(num_in_ddr, 10);
  EXPECT_GT(num_on_ranks, 2);
}

}  // namespace
}  // namespace plimsoll::study
