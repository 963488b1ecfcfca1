#include "plimsoll/core/run_context.h"

#include <gtest/gtest.h>

namespace plimsoll {
namespace {

using Clock = RunContext::Clock;

TEST(RunContext, NeverStopsAnythingByDefault) {
  const RunContext context;
  EXPECT_FALSE(context.is_cancelled());
  EXPECT_FALSE(context.is_past_deadline());
  EXPECT_FALSE(context.progress);
}

TEST(RunContext, HasNoDeadlineWithoutATimeLimit) {
  EXPECT_FALSE(RunContext::within(std::nullopt).deadline.has_value());
}

TEST(RunContext, PutsTheDeadlineTheTimeLimitFromNow) {
  const auto before = Clock::now();
  const RunContext context = RunContext::within(100.25);
  const auto after = Clock::now();
  ASSERT_TRUE(context.deadline.has_value());
  EXPECT_GE(*context.deadline, before + std::chrono::milliseconds(100250));
  EXPECT_LE(*context.deadline, after + std::chrono::milliseconds(100250));
  EXPECT_FALSE(context.is_past_deadline());
}

TEST(RunContext, SurvivesATimeLimitThatNoClockCanHold) {
  const RunContext context = RunContext::within(1e300);
  ASSERT_TRUE(context.deadline.has_value());
  EXPECT_GT(*context.deadline, Clock::now() + std::chrono::hours(24 * 365));
}

TEST(RunContext, IsPastADeadlineThatLiesBehind) {
  RunContext context;
  context.deadline = Clock::now() - std::chrono::seconds(1);
  EXPECT_TRUE(context.is_past_deadline());
}

TEST(RunContext, SeesTheCallersCancel) {
  std::atomic<bool> cancel = false;
  RunContext context;
  context.cancel = &cancel;
  EXPECT_FALSE(context.is_cancelled());
  cancel = true;
  EXPECT_TRUE(context.is_cancelled());
}

}  // namespace
}  // namespace plimsoll
