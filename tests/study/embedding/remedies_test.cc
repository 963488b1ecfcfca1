#include "study/embedding/remedies.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>

#include "embedding/small_models.h"

namespace plimsoll::study {
namespace {

using embedding::PlanningProblem;

// `num_ranks` ranks of 64 MiB of HBM and no DDR, with nothing reserved.
void set_small_room(PlanningProblem& problem, int num_ranks) {
  embedding::set_room(problem, num_ranks, num_ranks, 64 * kMiB, 1e6);
  for (auto& device : problem.topology.devices) device.ddr = 0;
}

// Four tables of `mib` MiB each on two such ranks.
ShardingQuestion four_tables(std::int64_t mib) {
  ShardingQuestion question;
  embedding::Module module;
  module.path = "ebc";
  for (int t = 0; t < 4; ++t) {
    module.tables.push_back(embedding::make_table(
        "t" + std::to_string(t), mib * 1024 * 1024 / 4 / 64, 64, embedding::Pooling::kSum));
  }
  question.problem.model.modules = {module};
  set_small_room(question.problem, 2);
  return question;
}

const Remedy* find(const std::vector<Remedy>& remedies, RemedyKind kind) {
  const auto found = std::find_if(remedies.begin(), remedies.end(),
                                  [kind](const Remedy& remedy) { return remedy.kind == kind; });
  return found == remedies.end() ? nullptr : &*found;
}

bool has_plan(const ShardingQuestion& question) {
  const auto run = plan_tables(question, {});
  EXPECT_TRUE(run) << format_error(run.error());
  return run && run->planning().outcome.plan;
}

TEST(Remedies, AreNoneWhereThereIsAPlan) {
  const ShardingQuestion question = four_tables(8);
  const auto run = plan_tables(question, {});
  ASSERT_TRUE(run && run->planning().outcome.plan);
  EXPECT_TRUE(find_remedies(question, *run, {}, {}, {}).empty());
}

TEST(Remedies, OfMemoryAndRanksHoldWhatTheyPromise) {
  const ShardingQuestion question = four_tables(64);
  const auto run = plan_tables(question, {});
  ASSERT_TRUE(run) << format_error(run.error());
  ASSERT_EQ(run->planning().outcome.status, SolveStatus::kInfeasible);
  const auto with = [&](int count) -> std::optional<PlanningProblem> {
    PlanningProblem larger = question.problem;
    set_small_room(larger, count);
    return larger;
  };
  const auto remedies = find_remedies(question, *run, {}, ScaledProblem{2, with}, {});

  const Remedy* memory = find(remedies, RemedyKind::kMoreHbm);
  ASSERT_NE(memory, nullptr);
  EXPECT_GT(memory->bytes, 64 * kMiB);
  EXPECT_EQ(memory->bytes % kMiB, 0);
  ShardingQuestion larger = question;
  for (auto& device : larger.problem.topology.devices) device.hbm = memory->bytes;
  EXPECT_TRUE(has_plan(larger));

  const Remedy* ranks = find(remedies, RemedyKind::kMoreRanks);
  ASSERT_NE(ranks, nullptr);
  EXPECT_GT(ranks->count, 2);
  larger = question;
  larger.problem = *with(ranks->count);
  EXPECT_TRUE(has_plan(larger));
  larger.problem = *with(ranks->count - 1);
  EXPECT_FALSE(has_plan(larger));
}

TEST(Remedies, TryNothingOnceTheSearchIsCancelled) {
  const ShardingQuestion question = four_tables(64);
  const auto run = plan_tables(question, {});
  ASSERT_TRUE(run);
  const std::atomic<bool> cancel{true};
  RunContext context;
  context.cancel = &cancel;
  EXPECT_TRUE(find_remedies(question, *run, {}, {}, context).empty());
}

}  // namespace
}  // namespace plimsoll::study
