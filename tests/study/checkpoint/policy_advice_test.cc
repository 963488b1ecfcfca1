#include "study/checkpoint/policy_advice.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "checkpoint/models.h"
#include "checkpoint/random.h"

namespace plimsoll::study {
namespace {

struct Asked {
  CheckpointCase made;
  CheckpointQuestion question;
};

Asked ask(const checkpoint::ModuleStats& stats, const checkpoint::MemoryModel& model,
          CheckpointQuestion question) {
  auto made = make_checkpoint_case(stats, "hash", model);
  EXPECT_TRUE(made) << (made ? "" : format_error(made.error()));
  return {*std::move(made), std::move(question)};
}

SolveStatus status_of(const Asked& asked) {
  const auto answer = plan_checkpointing(asked.made, asked.question, {}, {});
  EXPECT_TRUE(answer) << (answer ? "" : format_error(answer.error()));
  return answer ? answer->status.value_or(SolveStatus::kLimit) : SolveStatus::kLimit;
}

bool is_planned(const Asked& asked) {
  const SolveStatus status = status_of(asked);
  return status == SolveStatus::kOptimal || status == SolveStatus::kFeasible;
}

bool has(const std::vector<ConflictMember>& conflict, const std::string& field) {
  return std::any_of(conflict.begin(), conflict.end(), [&field](const ConflictMember& member) {
    return member.name.starts_with(field + " = ") || member.name == field;
  });
}

// A few modules of one of two models may be units, under a budget that may be too small.
Asked random_question(checkpoint::Random& random) {
  const checkpoint::ModuleStats stats =
      random.one_in(2) ? checkpoint::four_blocks() : checkpoint::tiny6();
  checkpoint::MemoryModel model;
  if (random.one_in(2)) {
    for (const checkpoint::ModuleInfo& module : stats.mod_stats) {
      if (random.one_in(4)) model.ac_units.push_back(module.fqn);
    }
  }
  if (random.one_in(3)) model.optimizer_bytes = kMiB << random.below(8);
  CheckpointQuestion question;
  question.in_flight = 1 + random.below(2);
  Asked asked = ask(stats, model, question);
  asked.question.budget = asked.made.baseline / 20 * (1 + random.below(20));
  return asked;
}

void check_policies(int first_seed, int wanted) {
  int with_units = 0;
  int seed = first_seed;
  for (int infeasible = 0; infeasible < wanted; ++seed) {
    SCOPED_TRACE(seed);
    checkpoint::Random random(seed);
    const Asked asked = random_question(random);
    const auto answer = plan_checkpointing(asked.made, asked.question, {}, {});
    ASSERT_TRUE(answer) << format_error(answer.error());
    const auto none =
        explain_no_policy(asked.made, asked.question, *answer, library_policy_words(), {}, {});
    ASSERT_EQ(none.has_value(), answer->status == SolveStatus::kInfeasible);
    if (!none) continue;
    ++infeasible;
    EXPECT_TRUE(none->is_irreducible);
    EXPECT_EQ(none->cap, "budget");
    EXPECT_TRUE(has(none->conflict, "budget"));

    // The conflict has no policy, and without any one member it has one.
    const auto without = [&](const std::string& left_out) {
      const auto stays = [&](const std::string& field) {
        return field != left_out && has(none->conflict, field);
      };
      checkpoint::MemoryModel model = asked.made.problem.model;
      CheckpointQuestion question = asked.question;
      if (!stays("ac_units")) model.ac_units.clear();
      if (!stays("optimizer_bytes")) model.optimizer_bytes = 0;
      if (!stays("in_flight")) question.in_flight = 1;
      if (!stays("budget")) question.budget = Bytes{1} << 60;
      return is_planned(ask(asked.made.stats, model, question));
    };
    EXPECT_FALSE(without(""));
    for (const char* field : {"ac_units", "optimizer_bytes", "in_flight", "budget"}) {
      EXPECT_EQ(without(field), has(none->conflict, field)) << field;
    }
    with_units += has(none->conflict, "ac_units") ? 1 : 0;

    // The budget that is named is enough, and the least that is.
    double before = 0;
    for (const Fix& fix : none->fixes) {
      EXPECT_GE(*fix.ms, before);
      before = *fix.ms;
      if (fix.kind != "budget") continue;
      Asked larger = asked;
      larger.question.budget = std::stoll(fix.change.substr(std::string("budget = ").size()));
      EXPECT_TRUE(is_planned(larger));
      larger.question.budget = *larger.question.budget - 1;
      EXPECT_EQ(status_of(larger), SolveStatus::kInfeasible);
    }
    EXPECT_TRUE(std::any_of(none->fixes.begin(), none->fixes.end(),
                            [](const Fix& fix) { return fix.kind == "budget"; }));
  }
  EXPECT_GT(with_units, wanted / 20);
}

TEST(PolicyAdvice, SaysWhatIsTrueOfSeededQuestions) { check_policies(0, 200); }

TEST(PolicyAdvice, IsNothingWhereThereIsAPolicyOrNoBudget) {
  CheckpointQuestion question;
  const Asked asked = ask(checkpoint::four_blocks(), {}, question);
  const auto frontier = plan_checkpointing(asked.made, asked.question, {}, {});
  ASSERT_TRUE(frontier);
  EXPECT_FALSE(
      explain_no_policy(asked.made, asked.question, *frontier, library_policy_words(), {}, {})
          .has_value());
}

}  // namespace
}  // namespace plimsoll::study
