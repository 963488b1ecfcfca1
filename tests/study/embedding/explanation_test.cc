#include "study/embedding/explanation.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "plimsoll/check/sharding_check.h"
#include "study/embedding/no_plan_cases.h"

namespace plimsoll::study {
namespace {

TEST(NoPlan, SaysWhatIsTrueOfSeededProblems) {
  const NoPlanCounts counts = check_no_plans(0, 16);
  EXPECT_EQ(counts.infeasible, 16);
  EXPECT_GE(counts.with_fix, 11);  // the others need two changes
  EXPECT_GE(counts.with_cap, 1);
}

// Tables of so many rows of 64 columns, each whole on a rank of 64 MiB.
ShardingQuestion whole_tables(const std::map<std::string, std::int64_t>& rows, int num_ranks,
                              std::int64_t batch_size) {
  ShardingQuestion question;
  embedding::Module module;
  module.path = "ebc";
  for (const auto& [name, num_rows] : rows) {
    module.tables.push_back(embedding::make_table(name, num_rows, 64, embedding::Pooling::kSum));
    question.problem.model.constraints[name].sharding_types = {embedding::ShardingType::kTableWise};
  }
  question.problem.model.modules = {module};
  embedding::set_room(question.problem, num_ranks, num_ranks, 64 * kMiB, 1e6);
  for (auto& device : question.problem.topology.devices) device.ddr = 0;
  question.problem.batch_size = batch_size;
  return question;
}

// Two tables of 40 MiB on two ranks fit only one on each.
ShardingQuestion two_tables() {
  constexpr std::int64_t kRows = 40 * 1024 * 1024 / 4 / 64;
  return whole_tables({{"a", kRows}, {"b", kRows}}, 2, 16);
}

TEST(NoPlan, NamesTheRulesThatConflictAndNoOthers) {
  ShardingQuestion question = two_tables();
  ASSERT_TRUE(is_planned(question));
  question.balanced.bridge.allowed_ranks = {{"ebc.a", {0}}, {"ebc.b", {0}}};
  question.balanced.bridge.forbidden_ranks["ebc.a"] = {1};
  const auto run = plan_tables(question, {});
  ASSERT_TRUE(run);
  ASSERT_EQ(run->planning().outcome.status, SolveStatus::kInfeasible);
  const auto none = explain_no_plan(question, *run, {}, library_words(), {});
  ASSERT_TRUE(none.has_value());
  EXPECT_TRUE(none->is_irreducible);
  EXPECT_EQ(none->cap, "hbm");
  const auto names = [&none](const std::string& name) {
    return std::any_of(none->conflict.begin(), none->conflict.end(),
                       [&name](const ConflictMember& member) { return member.name == name; });
  };
  EXPECT_TRUE(names("allowed_ranks of ebc.b"));
  EXPECT_TRUE(names("hbm_cap"));
  EXPECT_TRUE(names("ddr_cap"));
  // Either rule of a keeps it on rank 0, so that the conflict needs one of them.
  EXPECT_NE(names("allowed_ranks of ebc.a"), names("forbidden_ranks of ebc.a"));
  EXPECT_FALSE(names("reservation"));
  // Without the rule of b alone a plan fits.
  EXPECT_TRUE(std::any_of(none->fixes.begin(), none->fixes.end(), [](const Fix& fix) {
    return fix.change == "without allowed_ranks of ebc.b" && fix.ms;
  }));
}

// 41 tables of which two fit on a rank, and 20 ranks.
ShardingQuestion uneven_tables() {
  std::map<std::string, std::int64_t> rows;
  for (int t = 0; t < 41; ++t)
    rows["t" + std::to_string(t)] = (22 + t * 37 % 9) * 4096;  // 22..30 MiB
  return whole_tables(rows, 20, 1);
}

TEST(NoPlan, SuggestsChangesWhereNothingIsProved) {
  const ShardingQuestion question = uneven_tables();
  auto run = plan_tables(question, {});
  ASSERT_TRUE(run);
  ASSERT_EQ(run->planning().outcome.status, SolveStatus::kLimit);
  const auto none = explain_no_plan(question, *run, {}, library_words(), {});
  ASSERT_TRUE(none.has_value());
  EXPECT_TRUE(none->conflict.empty());  // conflicts are proved
  EXPECT_TRUE(none->cap.empty());
  std::vector<std::string> kinds;
  for (const Fix& fix : none->fixes) {
    kinds.push_back(fix.kind);
    EXPECT_GT(fix.ms.value_or(0), 0) << fix.change;
    if (fix.kind != "memory") continue;
    ShardingQuestion larger = question;
    for (auto& device : larger.problem.topology.devices) {
      device.hbm = std::stoll(fix.change.substr(fix.change.rfind(' ')));
      EXPECT_GT(device.hbm, 64 * kMiB);
      EXPECT_LT(device.hbm, 96 * kMiB);  // three of the smallest tables fit
    }
    EXPECT_TRUE(is_planned(larger));
  }
  for (const char* kind : {"memory", "data_type", "constraint"}) {
    EXPECT_EQ(std::count(kinds.begin(), kinds.end(), kind), 1) << kind;
  }
  // What a clock cut may have a plan.
  run->balanced.planning.outcome.stop = StopReason::kDeadline;
  EXPECT_FALSE(explain_no_plan(question, *run, {}, library_words(), {}).has_value());
}

TEST(NoPlan, IsNothingWhereThereIsAPlan) {
  const ShardingQuestion question = two_tables();
  const auto run = plan_tables(question, {});
  ASSERT_TRUE(run);
  EXPECT_FALSE(explain_no_plan(question, *run, {}, library_words(), {}).has_value());
  const auto none = explain_no_plan(question.problem);
  ASSERT_TRUE(none.has_value());
  EXPECT_EQ(*none, NoPlan{});
}

TEST(PlanExplanation, AddsUpToWhatTheCheckerFinds) {
  const ShardingQuestion question = two_tables();
  const auto run = plan_tables(question, {});
  ASSERT_TRUE(run && run->planning().outcome.plan);
  const embedding::ShardingPlan& plan = *run->planning().outcome.plan;
  const auto told = explain_plan(question.problem, plan, question.balanced);
  ASSERT_TRUE(told.has_value()) << format_error(told.error());
  check::CheckOptions options;
  options.batch_size = question.problem.batch_size;
  options.reservation = question.problem.reservation;
  const auto report =
      check::check_sharding(question.problem.model, plan, question.problem.topology,
                            question.problem.cost_model, question.problem.mode, options);
  ASSERT_TRUE(report && report->is_right());
  const auto rank = static_cast<std::size_t>(told->slowest_rank);
  EXPECT_DOUBLE_EQ(told->times.rating, report->rating);
  EXPECT_DOUBLE_EQ(report->rank_ms[rank], report->rating);
  EXPECT_EQ(told->slowest, report->perf[rank]);
  double ms = 0;
  for (const TableShare& share : told->tables) ms += share.ms;
  EXPECT_NEAR(ms, report->rating, 1e-12);
  EXPECT_EQ(told->fullest, report->used[static_cast<std::size_t>(told->fullest_rank)].hbm);
  EXPECT_EQ(told->room, report->capacity[static_cast<std::size_t>(told->fullest_rank)].hbm);
  EXPECT_LE(told->even_ms, report->rating);
  EXPECT_LE(told->shard_ms, report->rating);
  EXPECT_GE(told->mean_ms, 0);
  EXPECT_LE(told->mean_ms, report->rating);
}

TEST(PlanExplanation, TellsTheWorthOfARateByTheSamePlan) {
  const ShardingQuestion question = two_tables();
  const auto run = plan_tables(question, {});
  ASSERT_TRUE(run && run->planning().outcome.plan);
  const embedding::ShardingPlan& plan = *run->planning().outcome.plan;
  const auto told = explain_plan(question.problem, plan, question.balanced);
  ASSERT_TRUE(told.has_value());
  for (const RateWorth& worth : told->rates) {
    if (worth.rate != "intra_host_bw") continue;
    ShardingQuestion faster = question;
    faster.problem.topology.comms.intra_host_bw += 1e6;
    const auto then = explain_plan(faster.problem, plan, question.balanced);
    ASSERT_TRUE(then.has_value());
    EXPECT_GT(worth.ms_per_gb_s, 0);
    EXPECT_NEAR(value_of(told->times, told->objective) - value_of(then->times, told->objective),
                worth.ms_per_gb_s, 1e-12);
  }
  EXPECT_EQ(told->rates.size(), 5U);
  EXPECT_TRUE(std::is_sorted(
      told->rates.begin(), told->rates.end(),
      [](const RateWorth& a, const RateWorth& b) { return a.ms_per_gb_s > b.ms_per_gb_s; }));
}

TEST(PlanExplanation, FindsAConstraintThatCostsTime) {
  ShardingQuestion question = two_tables();
  for (auto& device : question.problem.topology.devices) device.ddr = kGiB;
  question.problem.model.constraints["a"].compute_kernels = {embedding::ComputeKernel::kFusedUvm};
  const auto run = plan_tables(question, {});
  ASSERT_TRUE(run && run->planning().outcome.plan);
  const auto told =
      explain_plan(question.problem, *run->planning().outcome.plan, question.balanced);
  ASSERT_TRUE(told.has_value());
  EXPECT_TRUE(std::any_of(told->faster.begin(), told->faster.end(), [](const Fix& fix) {
    return fix.change == "without compute_kernels of a";
  }));
  for (const Fix& fix : told->faster) {
    EXPECT_LT(*fix.ms, value_of(told->times, told->objective)) << fix.change;
  }
}

TEST(PlanExplanation, RefusesAPlanOfAnotherModel) {
  const ShardingQuestion question = two_tables();
  embedding::ShardingPlan plan;
  plan.world_size = 2;
  const auto told = explain_plan(question.problem, plan, question.balanced);
  ASSERT_FALSE(told.has_value());
  EXPECT_EQ(told.error().place, "ebc.a");
}

}  // namespace
}  // namespace plimsoll::study
