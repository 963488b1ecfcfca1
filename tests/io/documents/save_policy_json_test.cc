#include "io/documents/save_policy_json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "io/documents/checkpoint_input.h"

namespace plimsoll::io {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(SavePolicyJson, WritesWhatIsThereAndLeavesOutWhatIsNot) {
  SavePolicyAnswer answer;
  answer.status = SolveStatus::kFeasible;
  answer.input_hash = "ab";
  answer.memory_budget = 0;
  answer.plan.emplace().push_back({"mm", 0.25, 3, true, {}});
  answer.predicted.emplace().saved_memory = 0.25;
  answer.stop = StopReason::kFinished;
  answer.certificate.emplace().objective = 7;
  answer.provenance.emplace();
  const std::string text = write_save_policy(answer);
  EXPECT_THAT(text, HasSubstr(R"("schema": "plimsoll.save_policy/1")"));
  EXPECT_THAT(text, HasSubstr(R"("memory_budget": 0.0)"));
  EXPECT_THAT(text, HasSubstr(R"({"name": "mm", "memory": 0.25, "runtime": 3.0, "save": true})"));
  EXPECT_THAT(text, HasSubstr(R"("lower_bound": null)"));
  for (const char* key : {"was_saved", "backward_peak_memory", "trace", "frontier"}) {
    EXPECT_THAT(text, Not(HasSubstr(key)));
  }
}

TEST(CheckpointInput, IsToldByItsSchemaOrItsKeys) {
  using enum CheckpointInput;
  EXPECT_EQ(find_checkpoint_input(R"({"schema": "plimsoll.sac_stats/1"})"), kSACStats);
  EXPECT_EQ(find_checkpoint_input(R"({"func_names": []})"), kSACStats);
  EXPECT_EQ(find_checkpoint_input(R"({"schema": "plimsoll.module_stats/1", "func_names": []})"),
            kModuleStats);
  EXPECT_EQ(find_checkpoint_input(R"({"Joint Graph Node Information": {}})"), kAotPartition);
  for (const char* text : {"", "{", "[]", "{}", R"({"mod_stats": []})"}) {
    EXPECT_EQ(find_checkpoint_input(text), kModuleStats) << text;
  }
}

}  // namespace
}  // namespace plimsoll::io
