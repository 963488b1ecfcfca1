// Replica exchange where memory is tight, and the placements that may overdraw, beside judge and
// enumeration.
#include "balance/moves/replica_exchange.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "balance/balanced_placement.h"
#include "balance/moves/over_placement.h"
#include "balance/problem/placement_judge.h"
#include "balance/random_placements.h"

namespace plimsoll::balance {
namespace {

using testing::Enumerator;
using testing::InstanceKind;
using testing::random_problem;

InstanceKind tight_kind(std::uint64_t seed) {
  InstanceKind kind;
  kind.tight_memory = true;
  kind.unequal_caps = seed % 3 == 1;
  kind.uneven_pieces = seed % 3 == 2;
  kind.repeated = seed % 2 == 1;
  return kind;
}

ReplicaOptions short_walk(std::uint64_t seed = 0) {
  ReplicaOptions options;
  options.lower_bound = .1;
  options.max_moves = 30000;
  options.seed = seed;
  return options;
}

// Two ranks of 10 bytes in each resource hold 6 + 4 and 7 + 3 in the fast one and 5 + 5 beside, no
// byte is left:
//
//   rank 0  fast |666666|4444|  slow |55555|55555|
//   rank 1  fast |7777777|333|  slow |8888888888|
PlacementProblem full_to_the_last_byte() {
  PlacementProblem problem = testing::two_memories(2, 10);
  for (const Bytes bytes : {6, 4, 7, 3}) {
    problem.units.push_back(testing::in_either_memory(1, 20, bytes));
  }
  for (const Bytes bytes : {5, 5, 10}) {
    problem.units.push_back(testing::in_either_memory(4, 5, bytes));
  }
  return problem;
}

TEST(ReplicaExchange, FillsCapsToTheLastByte) {
  const PlacementProblem problem = full_to_the_last_byte();
  const PlacementItems items = make_placement_items(problem);
  EffortClock clock{RunContext{}};
  ReplicaOptions options = short_walk();
  options.lower_bound = 8;
  const auto found = exchange_replicas(items, options, clock);
  ASSERT_TRUE(found);
  const PlacementValue value = evaluate(problem, *found);
  EXPECT_THAT(value.faults, ::testing::IsEmpty());
  EXPECT_EQ(value.objective, 12);  // 1 + 1 + 5 + 5 on one rank
}

// The state's figures are the judge's, after any moves.
TEST(OverPlacement, KeepsFiguresOfTheJudge) {
  int num_overdrawn = 0, num_within = 0, num_swaps = 0;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(seed);
    InstanceKind kind = tight_kind(seed);
    kind.uneven_pieces = false;
    const PlacementProblem problem = random_problem(seed, kind);
    const PlacementItems items = make_placement_items(problem);
    if (!items.empty_units.empty()) continue;
    OverPlacement placement(items, {});
    placement.aim(3);
    testing::Random random(seed);
    for (int step = 0; step < 20; ++step) {
      for (int unit = 0; unit < items.num_units; ++unit) {
        if (step > 0 && !random.chance(40)) continue;
        if (step > 0) placement.remove(unit);
        const int c = items.first_choice[unit] + random.below(items.num_choices(unit));
        placement.take(unit, c);
        const PlacementItems::Choice& choice = items.choices[c];
        const int end = choice.spread == Spread::kHost ? items.num_hosts : items.num_ranks;
        for (int i = 0; i < choice.num_pieces; ++i) {
          const int place = random.below(end);
          const double before = placement.energy();
          const double growth = placement.growth(c, i, place);
          placement.put(unit, i, place);
          EXPECT_NEAR(placement.energy() - before, growth, 1e-5);
        }
        if (choice.num_pieces == 0) continue;
        const int place = random.below(end);
        const double before = placement.energy();
        const double growth = placement.growth_of_move(items.first_slot[unit], place);
        if (placement.place(items.first_slot[unit]) == place) continue;
        placement.move(items.first_slot[unit], place);
        EXPECT_NEAR(placement.energy() - before, growth, 1e-9 * (1 + before));
      }
    }
    for (int a = 0; a < problem.num_ranks; ++a) {
      for (int b = 0; b < a; ++b) {
        if (placement.slots_on_rank(a).empty() || placement.slots_on_rank(b).empty()) continue;
        const int one = placement.slots_on_rank(a).front();
        const int other = placement.slots_on_rank(b).front();
        const double before = placement.energy();
        const double growth = placement.growth_of_swap(one, other);
        placement.move(one, b);
        placement.move(other, a);
        EXPECT_NEAR(placement.energy() - before, growth, 1e-9 * (1 + before));
        ++num_swaps;
      }
    }
    const PlacementValue value = evaluate(problem, placement.placements());
    EXPECT_EQ(placement.is_within_caps(), value.is_allowed());
    EXPECT_NEAR(placement.slowest(), *std::max_element(value.load.begin(), value.load.end()), 1e-9);
    const double energy = placement.energy();
    placement.refresh();
    EXPECT_NEAR(placement.energy(), energy, 1e-9 * (1 + energy));
    (value.is_allowed() ? num_within : num_overdrawn) += 1;
  }
  EXPECT_GT(num_overdrawn, 50);
  EXPECT_GT(num_within, 10);
  EXPECT_GT(num_swaps, 100);
}

TEST(ReplicaExchange, FindsTheBestOfTinyProblems) {
  int num_found = 0, num_best = 0;
  for (std::uint64_t seed = 0; seed < 150; ++seed) {
    SCOPED_TRACE(seed);
    const PlacementProblem problem = random_problem(seed, tight_kind(seed));
    const PlacementItems items = make_placement_items(problem);
    if (!items.empty_units.empty()) continue;
    ASSERT_TRUE(is_overdrawable(items));
    const double best = Enumerator(problem).find();
    ReplicaOptions options = short_walk(seed);
    if (best < kInfinity) options.lower_bound = .5 * best;
    EffortClock clock{RunContext{}};
    const auto found = exchange_replicas(items, options, clock);
    if (best == kInfinity) {
      EXPECT_FALSE(found);
      continue;
    }
    // Of pieces that differ the largest stands for all.
    if (!items.has_exact_loads || !items.has_exact_bytes) {
      if (found) {
        EXPECT_GE(evaluate(problem, *found).objective, best * (1 - 1e-12));
      }
      continue;
    }
    ASSERT_TRUE(found);
    const PlacementValue value = evaluate(problem, *found);
    EXPECT_THAT(value.faults, ::testing::IsEmpty());
    EXPECT_GE(value.objective, best * (1 - 1e-12));
    ++num_found;
    num_best += value.objective <= best * (1 + 1e-5);
  }
  EXPECT_GT(num_found, 40);
  EXPECT_GE(num_best, num_found - 4);
}

TEST(ReplicaExchange, FindsNothingThatIsNoBetter) {
  const PlacementProblem problem = full_to_the_last_byte();
  const PlacementItems items = make_placement_items(problem);
  ReplicaOptions options = short_walk();
  options.incumbent = 12;
  EffortClock clock{RunContext{}};
  EXPECT_FALSE(exchange_replicas(items, options, clock));
}

TEST(ReplicaExchange, IsAFunctionOfItsArguments) {
  const PlacementProblem problem = full_to_the_last_byte();
  const PlacementItems items = make_placement_items(problem);
  EffortClock one{RunContext{}}, other{RunContext{}};
  ReplicaOptions options = short_walk(3);
  options.max_moves = 6000;
  EXPECT_EQ(exchange_replicas(items, options, one), exchange_replicas(items, options, other));
  EXPECT_EQ(one.effort(), other.effort());
  EXPECT_LE(one.effort(), options.max_moves + 12 * 500);
  EffortClock stopped({}, 1000);
  options.max_moves = 1000000;
  exchange_replicas(items, options, stopped);
  EXPECT_EQ(stopped.effort(), 1000);
}

TEST(ReplicaExchange, DeclinesWhatItDoesNotKnow) {
  const PlacementProblem plain = full_to_the_last_byte();
  const auto knows = [](const PlacementProblem& problem) {
    return is_overdrawable(make_placement_items(problem));
  };
  EXPECT_TRUE(knows(plain));
  PlacementProblem other = plain;
  other.resources[1].is_pooled = true;
  EXPECT_FALSE(knows(other));
  other = plain;
  other.apart = {{0, 1}};
  EXPECT_FALSE(knows(other));
  other = plain;
  other.units[0].allowed_ranks = {0};
  EXPECT_FALSE(knows(other));
  other = plain;
  other.units[0].choices[0].runs[0].count = 2;
  other.units[0].choices[0].distinct_ranks = true;
  EXPECT_FALSE(knows(other));
}

// Twelve units whose bytes fill four ranks, of which what comes first in any order leaves no room
// for the rest.
PlacementProblem hard_to_fill(std::uint64_t seed) {
  testing::Random random(seed);
  PlacementProblem problem = testing::two_memories(4, 1000);
  for (int rank = 0; rank < 4; ++rank) {
    Bytes left = 1000;
    for (int i = 0; i < 5; ++i) {
      const Bytes bytes = i == 4 ? left : 100 + random.below(150);
      left -= bytes;
      problem.units.push_back(
          testing::in_either_memory(1 + random.real(), 6 + 4 * random.real(), bytes));
    }
    left = 990;
    for (int i = 0; i < 3; ++i) {
      const Bytes bytes = i == 2 ? left : 200 + random.below(200);
      left -= bytes;
      problem.units.push_back(
          testing::in_either_memory(1 + random.real(), 3 + 4 * random.real(), bytes));
    }
  }
  return problem;
}

TEST(ReplicaExchange, MakesPlansBetterWhereMemoryIsTight) {
  int num_better = 0;
  for (std::uint64_t seed = 0; seed < 6; ++seed) {
    SCOPED_TRACE(seed);
    const PlacementProblem problem = hard_to_fill(seed);
    SearchOptions search;
    search.effort = 200000;
    BalanceOptions without;
    without.uses_replicas = false;
    const BalanceOutcome with = balance(problem, {}, search, {});
    const BalanceOutcome other = balance(problem, without, search, {});
    ASSERT_TRUE(with.outcome.plan);
    EXPECT_THAT(evaluate(problem, *with.outcome.plan).faults, ::testing::IsEmpty());
    num_better += !other.outcome.plan ||
                  with.outcome.certificate.objective < .95 * other.outcome.certificate.objective;
  }
  EXPECT_GE(num_better, 4);
}

}  // namespace
}  // namespace plimsoll::balance
