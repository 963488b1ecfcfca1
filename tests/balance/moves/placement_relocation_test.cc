#include "balance/moves/placement_relocation.h"

#include <gtest/gtest.h>

#include "balance/prices/relocation_bound.h"
#include "balance/problem/placement_judge.h"
#include "balance/random_moves.h"
#include "balance/random_placements.h"
#include "balance/verify/verify_relocation.h"
#include "plimsoll/core/numbers.h"

namespace plimsoll::balance {
namespace {

using testing::for_each_placement;
using testing::InstanceKind;
using testing::kind_of_move_seed;
using testing::random_costs;
using testing::random_problem;

// On tiny problems: no placement within the limit is below the bound, and what is found is one of
// them, mostly the best.
TEST(PlacementRelocation, AgreesWithEnumeration) {
  int num_found = 0, num_best = 0, num_none = 0, num_bounds = 0;
  double share_of_bound = 0;
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    SCOPED_TRACE(seed);
    const PlacementProblem problem = random_problem(seed, kind_of_move_seed(seed));
    const MoveCosts costs = random_costs(problem, seed);
    for (const bool is_priced : {false, true}) {
      SCOPED_TRACE(is_priced);
      const Bytes limit = is_priced ? kSaturated : static_cast<Bytes>(seed % 30);
      const double price = is_priced ? .05 * static_cast<double>(seed % 4) : 0;
      double optimum = kInfinity;
      Bytes least = kSaturated;
      for_each_placement(problem, [&](const UnitPlacements& placements) {
        const Bytes moved = moved_bytes(costs, placements);
        const PlacementValue value = evaluate(problem, placements);
        least = std::min(least, moved);
        if (!value.is_allowed() || moved > limit) return;
        optimum = std::min(optimum, value.objective + price * static_cast<double>(moved));
      });
      EXPECT_LE(least_moved_bytes(costs), least);
      RelocationOptions options;
      options.max_moved = limit;
      options.price = price;
      options.max_moves = 20000;
      EffortClock clock{RunContext{}};
      const auto found = relocate(problem, costs, options, clock);
      double value = kInfinity;
      if (found) {
        const PlacementValue judged = evaluate(problem, found->start.placements);
        EXPECT_TRUE(judged.is_allowed());
        EXPECT_DOUBLE_EQ(judged.objective, found->start.objective);
        EXPECT_EQ(moved_bytes(costs, found->start.placements), found->moved);
        EXPECT_LE(found->moved, limit);
        value = judged.objective + price * static_cast<double>(found->moved);
        EXPECT_GE(value, optimum * (1 - 1e-12));
        num_best += value <= optimum * (1 + 1e-9) ? 1 : 0;
      }
      num_found += found ? 1 : 0;
      num_none += !found && optimum == kInfinity ? 1 : 0;
      if (optimum == kInfinity) continue;
      RelocationBoundOptions bounds;
      if (!is_priced) bounds.max_moved = limit;
      bounds.price = price;
      bounds.target = found ? value : optimum;
      const RelocationBound bound = bound_relocation(problem, costs, bounds, RunContext{});
      EXPECT_LE(bound.value, optimum * (1 + 1e-9));
      EXPECT_DOUBLE_EQ(bound.value,
                       relocation_value(problem, costs, bound.prices, bounds.max_moved));
      // The judge computes the same from the prices.
      const RelocationVerdict verdict =
          verify_relocation(problem, costs, bound.prices, bounds.max_moved);
      EXPECT_EQ(verdict.fault, "");
      EXPECT_NEAR(verdict.value, bound.value, 1e-7 * std::max(1.0, bound.value));
      share_of_bound += optimum > 0 ? bound.value / optimum : 1;
      ++num_bounds;
    }
  }
  EXPECT_GT(num_found, 100);
  EXPECT_GT(num_none, 2);
  EXPECT_GT(num_best, num_found / 2);
  EXPECT_GT(share_of_bound, .6 * num_bounds);  // of the optimum, in the mean
}

// Any prices give a bound, however bad.
TEST(PlacementRelocation, AnyPricesGiveABound) {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(seed);
    InstanceKind kind;
    kind.barriers = kind.charges = true;
    const PlacementProblem problem = random_problem(seed, kind);
    const MoveCosts costs = random_costs(problem, seed);
    const auto limit = static_cast<Bytes>(seed % 40);
    double optimum = kInfinity;
    for_each_placement(problem, [&](const UnitPlacements& placements) {
      if (moved_bytes(costs, placements) > limit) return;
      const PlacementValue value = evaluate(problem, placements);
      if (value.is_allowed()) optimum = std::min(optimum, value.objective);
    });
    if (optimum == kInfinity) continue;
    Random random(seed);
    const auto num_ranks = static_cast<std::size_t>(problem.num_ranks);
    RelocationPrices prices;
    prices.moved = random.real();
    for (int g = 0; g < problem.num_barriers; ++g) {
      std::vector<double>& weight = prices.weight.emplace_back(num_ranks, 0.0);
      weight[static_cast<std::size_t>(random.below(problem.num_ranks))] = 1;
    }
    for (int t = 0; t < problem.num_resources(); ++t) {
      std::vector<double>& memory = prices.memory.emplace_back(num_ranks, 0.0);
      for (double& price : memory) price = .01 * random.real();
    }
    for (const double charge : problem.charges) {
      prices.share.emplace_back(problem.units.size(),
                                charge / static_cast<double>(problem.units.size()));
    }
    EXPECT_LE(relocation_value(problem, costs, prices, limit), optimum * (1 + 1e-9));
    EXPECT_LE(verify_relocation(problem, costs, prices, limit).value, optimum * (1 + 1e-9));
  }
}

// Forty units stand on four ranks, ten on each, where each takes 8 ms. Spread over all ranks it
// would take 1 ms of each, and move. Where nothing may move, 80 ms is the least. The price that
// proves it is found before the first step, whatever the loads.
TEST(PlacementRelocation, ThePriceOfAMovedByteIsFoundFirst) {
  PlacementProblem problem;
  problem.num_ranks = problem.ranks_per_host = 4;
  problem.resources = testing::three_memories();
  problem.caps.assign(4, {1000, 1000, 1000});
  MoveCosts costs;
  for (int u = 0; u < 40; ++u) {
    Unit unit;
    unit.name = "u";
    unit.choices.resize(2);
    unit.choices[0].runs = {{1, {8.0}, {}}};
    unit.choices[1].spread = Spread::kUniform;
    unit.choices[1].runs = {{4, {1.0}, {}}};
    problem.units.push_back(unit);
    ChoiceMoves whole, spread;
    whole.slots.resize(1);
    whole.slots[0].elsewhere = 100;
    whole.slots[0].at = {{u % 4, 0}};
    spread.everywhere = 75;
    costs.units.push_back({whole, spread});
    costs.home.push_back({0, {u % 4}});
  }
  RelocationBoundOptions options;
  options.max_moved = 0;
  options.target = 80;
  options.max_steps = 1;
  const RelocationBound bound = bound_relocation(problem, costs, options, RunContext{});
  EXPECT_NEAR(bound.value, 80, 1e-6);
  EXPECT_NEAR(verify_relocation(problem, costs, bound.prices, 0).value, 80, 1e-5);
}

// The judge takes no prices that prove nothing.
TEST(PlacementRelocation, TheJudgeRefusesWrongPrices) {
  InstanceKind kind;
  kind.charges = true;
  PlacementProblem problem = random_problem(1, kind);
  const MoveCosts costs = random_costs(problem, 1);
  RelocationBoundOptions options;
  options.max_moved = 5;
  options.target = 1;
  const RelocationPrices right = bound_relocation(problem, costs, options, RunContext{}).prices;
  ASSERT_EQ(verify_relocation(problem, costs, right, 5).fault, "");
  const std::function<void(RelocationPrices&)> edits[] = {
      [](RelocationPrices& p) { p.moved = -1; },
      [](RelocationPrices& p) { p.moved = kInfinity; },
      [](RelocationPrices& p) { p.weight[0][0] += .1; },
      [](RelocationPrices& p) { p.weight[0][0] = -1; },
      [](RelocationPrices& p) { p.weight.pop_back(); },
      [](RelocationPrices& p) { p.weight[0].push_back(0); },
      [](RelocationPrices& p) { p.memory[0][0] = -1; },
      [](RelocationPrices& p) { p.memory.pop_back(); },
      [](RelocationPrices& p) { p.share[0][0] += 100; },
      [](RelocationPrices& p) { p.share.pop_back(); },
  };
  for (const auto& edit : edits) {
    RelocationPrices wrong = right;
    edit(wrong);
    const RelocationVerdict verdict = verify_relocation(problem, costs, wrong, 5);
    EXPECT_NE(verdict.fault, "");
    EXPECT_EQ(verdict.value, -kInfinity);
  }
  problem.resources[0].is_pooled = true;
  RelocationPrices pooled = right;
  pooled.memory[0][0] = 1;
  EXPECT_NE(verify_relocation(problem, costs, pooled, 5).fault, "");
}

}  // namespace
}  // namespace plimsoll::balance
