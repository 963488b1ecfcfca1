#include "balance/merged_part.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "balance/random_placements.h"

namespace plimsoll::balance {
namespace {

using ::testing::ElementsAre;

// Two barriers, two causes; the last resource has a cap that nothing keeps.
PlacementProblem two_barriers() {
  PlacementProblem problem;
  problem.num_ranks = 2;
  problem.ranks_per_host = 2;
  problem.num_barriers = 2;
  problem.charges = {1, 2};
  problem.floor_ms = 3;
  problem.resources = testing::three_memories();
  problem.resources[2].is_time = true;
  problem.caps.assign(2, {100, 0, 5});
  for (const double load : {4., 6.}) {
    Unit unit;
    unit.choices.push_back({Spread::kDevice, {{1, {load, 1}, {10, 0, 7}}}, 1, {1}});
    unit.choices.push_back({Spread::kUniform, {{2, {load / 2, 2}, {6, 0, 7}}}, 1, {0}});
    problem.units.push_back(unit);
  }
  return problem;
}

TEST(MergedPart, AddsLoadsUpAndLeavesWhatIsForbiddenOut) {
  const PlacementProblem problem = two_barriers();
  const auto merged = merge_part(problem, 2);
  ASSERT_TRUE(merged);
  ASSERT_TRUE(validate(merged->problem));
  EXPECT_EQ(merged->problem.num_barriers, 1);
  EXPECT_TRUE(merged->problem.charges.empty());
  EXPECT_EQ(merged->problem.floor_ms, 0);
  const Unit& unit = merged->problem.units[1];
  ASSERT_EQ(unit.choices.size(), 1);
  EXPECT_EQ(unit.choices[0].spread, Spread::kUniform);
  EXPECT_THAT(unit.choices[0].runs[0].load, ElementsAre(5));
  EXPECT_EQ(unit.choices[0].runs[0].bytes, (Amounts{6, 0, 0}));
  EXPECT_THAT(merged->choice, ElementsAre(ElementsAre(1), ElementsAre(1)));
  const UnitPlacements whole = merged->to_whole({{{0, {}}, {0, {}}}});
  EXPECT_EQ(whole.units[0].choice, 1);
  EXPECT_EQ(whole.units[1].choice, 1);
}

TEST(MergedPart, IsNothingWhereAUnitIsLeftWithoutAChoice) {
  PlacementProblem problem = two_barriers();
  problem.resources[2].is_time = false;
  EXPECT_TRUE(merge_part(problem, 0));
  EXPECT_FALSE(merge_part(problem, 3));
  EXPECT_EQ(merge_part(problem, 0)->problem.units[0].choices[0].runs[0].bytes, (Amounts{10, 0, 7}));
}

}  // namespace
}  // namespace plimsoll::balance
