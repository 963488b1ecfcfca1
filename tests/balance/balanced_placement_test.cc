#include "balance/balanced_placement.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "balance/problem/placement_judge.h"
#include "balance/random_placements.h"
#include "balance/verify/verify_bound.h"

namespace plimsoll::balance {
namespace {

using testing::Enumerator;
using testing::InstanceKind;
using testing::kind_of_seed;
using testing::Random;
using testing::random_problem;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

PlacementProblem equal_ranks(int num_ranks, int ranks_per_host, Bytes cap = 1000) {
  PlacementProblem problem;
  problem.num_ranks = num_ranks;
  problem.ranks_per_host = ranks_per_host;
  problem.resources = testing::three_memories();
  problem.caps.assign(static_cast<std::size_t>(num_ranks), {cap, 0, 0});
  return problem;
}

Unit whole(double load, Bytes bytes = 1) {
  return {"", {{Spread::kDevice, {{1, {load}, {bytes, 0, 0}}}, 1, {}}}, {}};
}

// Whole, or on every rank at a share of its load.
Unit whole_or_everywhere(const PlacementProblem& problem, double load, double share) {
  Unit unit = whole(load);
  unit.choices.push_back({Spread::kUniform, {{problem.num_ranks, {share}, {1, 0, 0}}}, 1, {}});
  return unit;
}

BalanceOutcome solve(const PlacementProblem& problem, std::int64_t effort = 10000) {
  SearchOptions search;
  search.effort = effort;
  return balance(problem, {}, search, {});
}

// Largest first leaves 7; 3 + 3 and 2 + 2 + 2 is best:
//
//   rank 0  |333|333|
//   rank 1  |22|22|22|
TEST(BalancedPlacement, FindsWhatLargestFirstMisses) {
  PlacementProblem problem = equal_ranks(2, 2);
  for (const double load : {3., 3., 2., 2., 2.}) problem.units.push_back(whole(load));
  const BalanceOutcome found = solve(problem);
  EXPECT_EQ(found.outcome.status, SolveStatus::kOptimal);
  EXPECT_EQ(found.outcome.certificate.objective, 6);
}

// One unit of 9 must be everywhere (2 on each rank) or one rank waits for it; then the others have
// a room of T - 2.
TEST(BalancedPlacement, SpreadsAUnitThatNoRankShouldCarry) {
  PlacementProblem problem = equal_ranks(4, 4);
  problem.units.push_back(whole_or_everywhere(problem, 9, 2));
  for (int i = 0; i < 4; ++i) problem.units.push_back(whole_or_everywhere(problem, 3, 1));
  const BalanceOutcome found = solve(problem);
  EXPECT_EQ(found.outcome.status, SolveStatus::kOptimal);
  EXPECT_EQ(found.outcome.certificate.objective, 5);
}

TEST(BalancedPlacement, ProvesThatNothingFits) {
  PlacementProblem problem = equal_ranks(2, 2, 10);
  for (int i = 0; i < 3; ++i) problem.units.push_back(whole(1, 8));
  const BalanceOutcome found = solve(problem);
  // Sums say nothing of 24 > 20? They do: 4 bytes too many.
  EXPECT_EQ(found.outcome.status, SolveStatus::kInfeasible);
  EXPECT_EQ(found.outcome.explanation.missing, 4);
  EXPECT_FALSE(found.outcome.plan.has_value());
}

TEST(BalancedPlacement, PaysEachChargeOnce) {
  PlacementProblem problem = equal_ranks(2, 2);
  problem.charges = {1, 5};
  for (int i = 0; i < 2; ++i) {
    Unit unit = whole(4);
    unit.choices[0].causes = {0};
    unit.choices.push_back({Spread::kUniform, {{2, {1}, {1, 0, 0}}}, 1, {1}});
    problem.units.push_back(unit);
  }
  // Whole: 4 + 1. Everywhere: 2 + 5. Mixed: 5 + 6.
  const BalanceOutcome found = solve(problem);
  EXPECT_EQ(found.outcome.certificate.objective, 5);
  EXPECT_EQ(found.outcome.status, SolveStatus::kOptimal);
}

// Both units stand on rank 0 at first, and the third, which may stand nowhere else, must have it.
TEST(BalancedPlacement, FindsWhatConstructionsPutInItsOwnWay) {
  PlacementProblem problem;
  problem.num_ranks = 3;
  problem.resources = testing::three_memories();
  problem.caps.assign(3, {10, 0, 0});
  for (int i = 0; i < 3; ++i) {
    Unit unit;
    unit.name = std::to_string(i);
    unit.choices.push_back({Spread::kDevice, {{1, {3.0 - i}, {6, 0, 0}}}, 1, {}});
    problem.units.push_back(unit);
  }
  problem.units[0].allowed_ranks = {0, 1};
  problem.units[1].allowed_ranks = {0, 2};
  problem.units[2].allowed_ranks = {0};
  problem.apart = {{0, 1, 2}};
  const BalanceOutcome found = solve(problem);
  ASSERT_TRUE(found.outcome.plan);
  EXPECT_TRUE(evaluate(problem, *found.outcome.plan).is_allowed());
  EXPECT_EQ(found.outcome.certificate.objective, 3);
}

TEST(BalancedPlacement, AgreesWithEnumeration) {
  int num_feasible = 0, num_best = 0;
  for (std::uint64_t seed = 0; seed < 150; ++seed) {
    SCOPED_TRACE(seed);
    const InstanceKind kind = kind_of_seed(seed);
    const PlacementProblem problem = random_problem(seed, kind);
    const double optimum = Enumerator(problem).find();
    const BalanceOutcome found = solve(problem, 20000);
    const Certificate& certificate = found.outcome.certificate;
    if (certificate.lower_bound) {
      EXPECT_LE(*certificate.lower_bound, optimum * (1 + 1e-9));
    }
    const BoundVerdict verdict = verify_bound(problem, found.bound);
    EXPECT_TRUE(verdict.holds) << verdict.fault;
    EXPECT_LE(verdict.value, optimum * (1 + 1e-9));
    if (found.outcome.status == SolveStatus::kInfeasible) {
      EXPECT_EQ(optimum, kInfinity);
    } else if (certificate.lower_bound) {
      EXPECT_GE(*certificate.lower_bound,
                std::min(found.bound.value, certificate.objective) * (1 - 1e-9));
    }
    if (!kind.uneven_pieces) num_feasible += optimum < kInfinity;
    if (!found.outcome.plan) continue;
    const PlacementValue value = evaluate(problem, *found.outcome.plan);
    EXPECT_TRUE(value.is_allowed());
    EXPECT_EQ(value.objective, certificate.objective);
    EXPECT_GE(value.objective, optimum * (1 - 1e-9));
    if (found.outcome.status == SolveStatus::kOptimal) {
      EXPECT_LE(value.objective, optimum * (1 + 2e-6));
    }
    if (!kind.uneven_pieces) num_best += value.objective <= optimum * (1 + 1e-6);
  }
  EXPECT_GE(num_best, num_feasible * 90 / 100) << num_best << " of " << num_feasible;
}

// Two barriers under a cap on each rank's total that is hardly more than the least there is: to
// search all placements that keep it takes long. What is below the best placement without the cap
// is refuted in a moment.
TEST(BalancedPlacement, RefutesWithoutACapOnTimes) {
  int num_refuted = 0;
  for (std::uint64_t seed = 0; seed < 24; ++seed) {
    SCOPED_TRACE(seed);
    Random dice(seed);
    PlacementProblem problem;
    problem.num_ranks = problem.ranks_per_host = 4;
    problem.num_barriers = 2;
    problem.resources = {{.name = "rating", .is_time = true}};
    PlacementProblem total = problem;
    total.num_barriers = 1;
    for (int u = 0; u < 15; ++u) {
      const auto a = static_cast<double>(100 + dice.below(900));
      const auto b = static_cast<double>(100 + dice.below(900));
      const auto sum = static_cast<Bytes>(a + b);
      problem.units.push_back({"", {{Spread::kDevice, {{1, {a, b}, {sum}}}, 1, {}}}, {}});
      total.units.push_back({"", {{Spread::kDevice, {{1, {a + b}, {0}}}, 1, {}}}, {}});
    }
    total.caps.assign(4, Amounts{1});
    problem.caps.assign(4, Amounts{100000});
    const double least = solve(total, 100000).outcome.certificate.objective;
    const BalanceOutcome uncapped = solve(problem, 150000);
    problem.caps.assign(4, Amounts{static_cast<Bytes>(1.01 * least)});
    const BalanceOutcome best = solve(problem, 150000);
    if (!best.outcome.plan || uncapped.outcome.status != SolveStatus::kOptimal) continue;
    BalanceOptions options;
    options.starts = {*best.outcome.plan};
    SearchOptions search;
    search.effort = 25000;
    const BalanceOutcome found = balance(problem, options, search, {});
    ASSERT_TRUE(found.outcome.certificate.lower_bound);
    const double bound = *found.outcome.certificate.lower_bound;
    EXPECT_LE(bound, best.outcome.certificate.objective * (1 + 1e-9));
    num_refuted += found.outcome.status == SolveStatus::kFeasible &&
                   bound > uncapped.outcome.certificate.objective * (1 - 1e-5);
  }
  EXPECT_GE(num_refuted, 3);
}

// Each rule off: nothing is better than the optimum, nothing wrong is proved, and the others find
// most optima without it.
TEST(BalancedPlacement, DoesWithoutAnyOneRule) {
  constexpr bool BalanceOptions::*kRules[] = {
      &BalanceOptions::uses_constructions, &BalanceOptions::uses_dives,
      &BalanceOptions::uses_patterns,      &BalanceOptions::uses_contents,
      &BalanceOptions::uses_annealing,     &BalanceOptions::uses_exchanges};
  constexpr int kNumRules = std::size(kRules);
  int num_feasible = 0;
  int num_best[kNumRules] = {};
  for (std::uint64_t seed = 400; seed < 480; ++seed) {
    SCOPED_TRACE(seed);
    InstanceKind kind = kind_of_seed(seed);
    kind.uneven_pieces = false;
    const PlacementProblem problem = random_problem(seed, kind);
    const double optimum = Enumerator(problem).find();
    num_feasible += optimum < kInfinity;
    for (int rule = 0; rule < kNumRules; ++rule) {
      BalanceOptions options;
      options.*kRules[rule] = false;
      SearchOptions search;
      search.effort = 25000;
      const Outcome<UnitPlacements> outcome = balance(problem, options, search, {}).outcome;
      if (outcome.certificate.lower_bound) {
        EXPECT_LE(*outcome.certificate.lower_bound, optimum * (1 + 1e-9)) << rule;
      }
      if (outcome.status == SolveStatus::kInfeasible) {
        EXPECT_EQ(optimum, kInfinity) << rule;
      }
      if (!outcome.plan) continue;
      const PlacementValue value = evaluate(problem, *outcome.plan);
      EXPECT_TRUE(value.is_allowed()) << rule;
      EXPECT_GE(value.objective, optimum * (1 - 1e-9)) << rule;
      num_best[rule] += value.objective <= optimum * (1 + 1e-6);
    }
  }
  ASSERT_GT(num_feasible, 40);
  for (int rule = 0; rule < kNumRules; ++rule) {
    EXPECT_GE(num_best[rule], num_feasible * 60 / 100) << rule << " of " << num_feasible;
  }
}

TEST(BalancedPlacement, IsNeverWorseThanAStart) {
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    SCOPED_TRACE(seed);
    const PlacementProblem problem = random_problem(seed, kind_of_seed(seed));
    Enumerator enumerator(problem);
    const double optimum = enumerator.find();
    if (optimum == kInfinity) continue;
    BalanceOptions options;
    options.starts = {enumerator.best()};
    options.uses_annealing = false;
    options.uses_dives = false;
    SearchOptions search;
    search.effort = 200000;
    const BalanceOutcome found = balance(problem, options, search, {});
    EXPECT_LE(found.outcome.certificate.objective, optimum * (1 + 1e-12));
  }
}

TEST(BalancedPlacement, StopsAgainWhereItStopped) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    SCOPED_TRACE(seed);
    const PlacementProblem problem = random_problem(seed, kind_of_seed(seed));
    BalanceOptions options;
    SearchOptions search;
    search.effort = 20000;
    options.stop_at = 3000;
    const BalanceOutcome first = balance(problem, options, search, {});
    options.stop_at = first.outcome.stop == StopReason::kFinished ? -1 : first.effort;
    const BalanceOutcome second = balance(problem, options, search, {});
    EXPECT_EQ(first.outcome.plan, second.outcome.plan);
    EXPECT_EQ(first.effort, second.effort);
  }
}

}  // namespace
}  // namespace plimsoll::balance
