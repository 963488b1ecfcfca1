#include "balance/moves/placement_backtracking.h"

#include <gtest/gtest.h>

#include <string>

#include "balance/problem/placement_items.h"
#include "balance/problem/placement_judge.h"
#include "balance/random_placements.h"

namespace plimsoll::balance {
namespace {

UnitChoice uniform(Bytes first, Bytes second) {
  UnitChoice choice;
  choice.spread = Spread::kUniform;
  choice.runs = {{2, {1}, {first, second, 0}}};
  return choice;
}

// Forty units on every rank, each three bytes of one resource or of the other; the resources
// together have room for all of them, but for one byte.
PlacementProblem forty_uniform_units(Bytes first_cap) {
  PlacementProblem problem;
  problem.num_ranks = 2;
  problem.resources = testing::three_memories();
  problem.caps.assign(2, {first_cap, 60, 0});
  for (int i = 0; i < 40; ++i) {
    problem.units.push_back({"u" + std::to_string(i), {uniform(3, 0), uniform(0, 3)}, {}});
  }
  return problem;
}

TEST(FindByBacktracking, PlacesUnitsThatStandOnEveryRank) {
  const PlacementProblem problem = forty_uniform_units(60);
  const PlacementItems items = make_placement_items(problem);
  const RunContext context;
  EffortClock clock(context, EffortClock::kNever);
  const auto found = find_by_backtracking(items, 1000, clock);
  ASSERT_TRUE(found);
  EXPECT_TRUE(evaluate(problem, *found).is_allowed());
}

// There are 2^40 ways to choose, none of which fits: each choice tried is a node.
TEST(FindByBacktracking, CountsChoicesOfUnitsThatStandOnEveryRank) {
  const PlacementProblem problem = forty_uniform_units(59);
  const PlacementItems items = make_placement_items(problem);
  const RunContext context;
  EffortClock clock(context, EffortClock::kNever);
  EXPECT_FALSE(find_by_backtracking(items, 1000, clock));
  EXPECT_GE(clock.effort(), 1000);
  EXPECT_LE(clock.effort(), 1010);
}

}  // namespace
}  // namespace plimsoll::balance
