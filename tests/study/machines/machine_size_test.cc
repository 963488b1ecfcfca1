#include "plimsoll/study/machine_size.h"

#include <gtest/gtest.h>

#include <atomic>

namespace plimsoll::study {
namespace {

// Machines of 1 to `count` ranks.
std::vector<Machine> machines(int count) {
  std::vector<Machine> all;
  for (int ranks = 1; ranks <= count; ++ranks) {
    all.push_back({std::to_string(ranks) + "x1GiB", ranks, {}});
  }
  return all;
}

MachinePlan infeasible() { return {SolveStatus::kInfeasible, {}, {}}; }
MachinePlan plan_of(double ms, double bound) { return {SolveStatus::kFeasible, ms, bound}; }

TEST(MachineSize, IsTheFirstThatIsEnoughThoughLaterOnesAreNot) {
  // What fits on 3 ranks does not fit on 4, as with hosts that are not full.
  const auto plan = [](const Machine& machine) -> Result<MachinePlan> {
    return machine.ranks == 3 || machine.ranks > 5 ? plan_of(1, 1) : infeasible();
  };
  const auto size = find_smallest_machine(machines(8), {}, plan, {});
  ASSERT_TRUE(size.has_value());
  EXPECT_TRUE(size->is_found);
  EXPECT_TRUE(size->is_smallest);
  EXPECT_EQ(size->judged.back().machine.ranks, 3);
  EXPECT_EQ(size->judged.front().verdict, MachineVerdict::kInfeasible);
}

TEST(MachineSize, KeepsATimeAndProvesThatSmallerOnesAreTooSlow) {
  const auto plan = [](const Machine& machine) -> Result<MachinePlan> {
    return plan_of(12.0 / machine.ranks, 11.0 / machine.ranks);
  };
  const auto size = find_smallest_machine(machines(8), 3, plan, {});
  ASSERT_TRUE(size.has_value());
  EXPECT_EQ(size->judged.back().machine.ranks, 4);
  EXPECT_TRUE(size->is_smallest);  // 11 / 3 > 3
  EXPECT_EQ(size->judged[2].verdict, MachineVerdict::kTooSlow);
  EXPECT_EQ(size->judged.back().verdict, MachineVerdict::kEnough);
}

TEST(MachineSize, ClaimsNothingWhereASmallerOneIsNotKnown) {
  const auto plan = [](const Machine& machine) -> Result<MachinePlan> {
    return plan_of(12.0 / machine.ranks, 1.0 / machine.ranks);
  };
  const auto size = find_smallest_machine(machines(8), 3, plan, {});
  ASSERT_TRUE(size.has_value());
  EXPECT_TRUE(size->is_found);
  EXPECT_FALSE(size->is_smallest);
  EXPECT_EQ(size->judged[0].verdict, MachineVerdict::kNotKnown);
}

TEST(MachineSize, HoldsABoundEqualToTheTimeForNoProof) {
  EXPECT_EQ(judge(plan_of(4, 3), 3), MachineVerdict::kNotKnown);
  EXPECT_EQ(judge(plan_of(4, 3.0000001), 3), MachineVerdict::kTooSlow);
  EXPECT_EQ(judge(plan_of(3, 2), 3), MachineVerdict::kEnough);
  EXPECT_EQ(judge({SolveStatus::kLimit, {}, {}}, {}), MachineVerdict::kNotKnown);
}

TEST(MachineSize, FindsNoneWhereNoneIsEnoughAndStopsWhenToldTo) {
  const auto none = [](const Machine&) -> Result<MachinePlan> { return infeasible(); };
  const auto size = find_smallest_machine(machines(4), {}, none, {});
  ASSERT_TRUE(size.has_value());
  EXPECT_FALSE(size->is_found);
  EXPECT_EQ(size->judged.size(), 4U);
  std::atomic<bool> cancel{false};
  RunContext context;
  context.cancel = &cancel;
  int count = 0;
  const auto stops = [&](const Machine&) -> Result<MachinePlan> {
    cancel = ++count == 2;
    return infeasible();
  };
  const auto cut = find_smallest_machine(machines(4), {}, stops, context);
  ASSERT_TRUE(cut.has_value());
  EXPECT_EQ(cut->stop, StopReason::kCancelled);
  EXPECT_EQ(cut->judged.size(), 2U);
}

TEST(MachineSize, PassesErrorsOn) {
  const auto fails = [](const Machine&) -> Result<MachinePlan> {
    return fail(ErrorCode::kValue, "here", "why", "");
  };
  EXPECT_FALSE(find_smallest_machine(machines(2), {}, fails, {}).has_value());
}

}  // namespace
}  // namespace plimsoll::study
