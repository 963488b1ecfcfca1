#include "io/documents/tradeoff_json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace plimsoll::io {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(TradeoffJson, WritesWhatIsThereAndLeavesOutWhatIsNot) {
  TradeoffAnswer answer;
  answer.input_hash = "ab";
  ModuleTradeoff& module = answer.modules.emplace_back();
  module.sac_memory = 420;
  module.rand_ops = {4};
  module.inplace_op_groups = {{5, {5, 7}}};
  module.order = {{5, {5, 7}, 100, 14, 7.5}};
  const std::string bare = write_tradeoffs(answer);
  EXPECT_THAT(bare, HasSubstr(R"("schema": "plimsoll.tradeoff_curves/1")"));
  EXPECT_THAT(bare, HasSubstr(R"({"op": 5, "ops": [5, 7], "memory": 100, "runtime": 14.0)"));
  EXPECT_THAT(bare, HasSubstr(R"("inplace_op_groups": [{"head": 5, "ops": [5, 7]}])"));
  for (const char* key : {"fqn", "tradeoff_curve", "fit", "failure"}) {
    EXPECT_THAT(bare, Not(HasSubstr("\"" + std::string(key) + "\""))) << key;
  }
  module.fqn = "R.a";
  module.curve = {{0.01, 0}, {1.01, 1}};
  module.fit = {{1}, {0.5}, {0.25, 1}};
  const std::string whole = write_tradeoffs(answer);
  EXPECT_THAT(whole, HasSubstr(R"("fqn": "R.a")"));
  EXPECT_THAT(whole, HasSubstr("[0.01, 0.0]"));
  EXPECT_THAT(whole, HasSubstr(R"("breakpoints": [0.25, 1.0])"));
}

}  // namespace
}  // namespace plimsoll::io
