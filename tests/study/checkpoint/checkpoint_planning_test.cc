#include "study/checkpoint/checkpoint_planning.h"

#include <gtest/gtest.h>

#include "checkpoint/models.h"
#include "study/checkpoint/checkpoint_judging.h"

namespace plimsoll::study {
namespace {

CheckpointCase make_case() {
  auto made = make_checkpoint_case(checkpoint::four_blocks(), "hash", {});
  EXPECT_TRUE(made) << format_error(made.error());
  return *made;
}

CheckpointAnswer plan(const CheckpointCase& made, const CheckpointQuestion& question) {
  const auto answer = plan_checkpointing(made, question, {}, {});
  EXPECT_TRUE(answer) << format_error(answer.error());
  return answer.value_or(CheckpointAnswer{});
}

check::CheckpointReport judge(const CheckpointCase& made, const CheckpointAnswer& answer) {
  const auto report = judge_checkpointing(
      {made.stats, "hash", "", made.problem, 1, made.problem, 1, {}, false}, answer);
  EXPECT_TRUE(report) << format_error(report.error());
  return report.value_or(check::CheckpointReport{});
}

TEST(CheckpointPlanning, AnswersOfEveryQuestionAreRight) {
  const CheckpointCase made = make_case();
  CheckpointQuestion budget;
  budget.budget = made.baseline * 9 / 10;
  CheckpointQuestion overhead;
  overhead.overhead_ms = 1;
  CheckpointQuestion knee;
  knee.is_knee = true;
  for (const CheckpointQuestion& question : {budget, overhead, knee, CheckpointQuestion{}}) {
    for (const auto search : {CheckpointSearch::kExact, CheckpointSearch::kMilp}) {
      CheckpointQuestion asked = question;
      asked.search = search;
      const CheckpointAnswer answer = plan(made, asked);
      SCOPED_TRACE(to_string(search));
      ASSERT_TRUE(answer.plan || !answer.frontier.empty());
      EXPECT_TRUE(judge(made, answer).violations().empty());
      EXPECT_EQ(answer.provenance->options.at("search"), to_string(search));
      EXPECT_EQ(answer.input_hash, "hash");
    }
  }
}

TEST(CheckpointPlanning, AClaimOfOtherStatisticsIsRefused) {
  const CheckpointCase made = make_case();
  CheckpointQuestion question;
  question.budget = made.baseline * 9 / 10;
  CheckpointAnswer answer = plan(made, question);
  ASSERT_TRUE(judge(made, answer).is_right());
  answer.input_hash = "other";
  EXPECT_FALSE(judge(made, answer).is_right());
}

TEST(CheckpointPlanning, AnAnswerWithoutPlanHasNothingToJudge) {
  const CheckpointCase made = make_case();
  const auto report = judge_checkpointing(
      {made.stats, "hash", "", made.problem, 1, made.problem, 1, {}, false}, {});
  ASSERT_FALSE(report);
  EXPECT_EQ(report.error().place, "plan");
}

}  // namespace
}  // namespace plimsoll::study
