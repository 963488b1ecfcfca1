#include "balance/reopened_placement.h"

#include <gtest/gtest.h>

#include <atomic>

#include "balance/problem/placement_judge.h"
#include "balance/random_moves.h"
#include "balance/random_placements.h"
#include "plimsoll/core/numbers.h"

namespace plimsoll::balance {
namespace {

using testing::for_each_placement;
using testing::InstanceKind;
using testing::kind_of_move_seed;
using testing::random_costs;
using testing::random_problem;

Relocation reopened(const PlacementProblem& problem, const MoveCosts& costs, const Relocation& best,
                    Bytes limit, double price, const RunContext& context = {}) {
  SearchOptions search;
  search.effort = 20000;
  EffortClock clock{context};
  return reopen(problem, costs, best, limit, price, search, clock);
}

// From the worst placement of a tiny problem that is allowed and moves little enough: what comes
// back is one, too, and never worse; of all of them it is the best now and then.
TEST(ReopenedPlacement, AgreesWithEnumeration) {
  int num_found = 0, num_best = 0, num_gains = 0;
  for (std::uint64_t seed = 0; seed < 80; ++seed) {
    SCOPED_TRACE(seed);
    InstanceKind kind = kind_of_move_seed(seed);
    kind.allowed = seed % 4 == 1;
    kind.apart = seed % 4 == 2;
    const PlacementProblem problem = random_problem(seed, kind);
    const MoveCosts costs = random_costs(problem, seed);
    const Bytes limit = static_cast<Bytes>(5 + seed % 30);
    const double price = seed % 3 == 1 ? .02 : 0;
    const auto cost = [&](const Relocation& one) {
      return one.start.objective + price * static_cast<double>(one.moved);
    };
    double optimum = kInfinity;
    std::optional<Relocation> worst;
    for_each_placement(problem, [&](const UnitPlacements& placements) {
      const PlacementValue value = evaluate(problem, placements);
      const Relocation one{{placements, value.objective}, moved_bytes(costs, placements)};
      if (!value.is_allowed() || one.moved > limit) return;
      optimum = std::min(optimum, cost(one));
      if (!worst || cost(*worst) < cost(one)) worst = one;
    });
    if (!worst) continue;
    ++num_found;
    const Relocation found = reopened(problem, costs, *worst, limit, price);
    const PlacementValue judged = evaluate(problem, found.start.placements);
    EXPECT_TRUE(judged.is_allowed());
    EXPECT_DOUBLE_EQ(judged.objective, found.start.objective);
    EXPECT_EQ(found.moved, moved_bytes(costs, found.start.placements));
    EXPECT_LE(found.moved, limit);
    EXPECT_LE(cost(found), cost(*worst));
    EXPECT_GE(cost(found), optimum * (1 - 1e-12));
    num_gains += cost(found) < cost(*worst);
    num_best += cost(found) <= optimum * (1 + 1e-9);
    const Relocation again = reopened(problem, costs, *worst, limit, price);
    EXPECT_EQ(again.start.placements, found.start.placements);
  }
  EXPECT_GT(num_found, 60);
  EXPECT_GT(num_gains, num_found / 2);
  EXPECT_GT(num_best, num_found / 4);
}

// Two ranks with a heavy unit and six light ones each, and a third one without: light ones go
// there, as many as make all ranks equal, and no heavy one does.
PlacementProblem two_ranks_and_a_new_one() {
  PlacementProblem problem;
  problem.num_ranks = problem.ranks_per_host = 3;
  problem.resources = {{.name = "hbm"}};
  problem.caps.assign(3, Amounts{});
  for (Amounts& cap : problem.caps) cap[0] = 1000;
  for (int u = 0; u < 14; ++u) {
    Unit& unit = problem.units.emplace_back();
    unit.choices.push_back({Spread::kDevice, {{1, {1.0}, {}}}, 1, {}, false});
  }
  return problem;
}

MoveCosts costs_of_two_ranks() {
  MoveCosts costs;
  for (int u = 0; u < 14; ++u) {
    const int rank = u % 2;
    costs.home.push_back({0, {rank}});
    costs.units.push_back({{0, {{u < 2 ? 100 : 1, {{rank, 0}}}}}});
  }
  return costs;
}

TEST(ReopenedPlacement, LeavesHeavyUnitsWhereTheyStand) {
  const PlacementProblem problem = two_ranks_and_a_new_one();
  ASSERT_TRUE(validate(problem));
  const MoveCosts costs = costs_of_two_ranks();
  const Relocation home{{{costs.home}, 7}, 0};
  const Relocation found = reopened(problem, costs, home, 12, 0);
  EXPECT_EQ(found.start.objective, 5);
  EXPECT_GE(found.moved, 4);
  EXPECT_LE(found.moved, 12);
  for (int u = 0; u < 2; ++u) {
    EXPECT_EQ(found.start.placements.units[static_cast<std::size_t>(u)],
              costs.home[static_cast<std::size_t>(u)]);
  }
  EXPECT_EQ(reopened(problem, costs, home, 3, 0).start.objective, 6);
  EXPECT_EQ(reopened(problem, costs, home, 0, 0).start.placements.units, costs.home);
}

TEST(ReopenedPlacement, ReturnsWhatItWasGivenWhenItIsCancelled) {
  const PlacementProblem problem = two_ranks_and_a_new_one();
  const MoveCosts costs = costs_of_two_ranks();
  const std::atomic<bool> cancel = true;
  RunContext context;
  context.cancel = &cancel;
  const Relocation home{{{costs.home}, 7}, 0};
  EXPECT_EQ(reopened(problem, costs, home, 12, 0, context).start.placements.units, costs.home);
}

}  // namespace
}  // namespace plimsoll::balance
