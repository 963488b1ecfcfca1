#include "balance/moves/placement_dive.h"

#include <gtest/gtest.h>

#include <utility>

#include "balance/problem/placement_judge.h"
#include "balance/random_placements.h"
#include "plimsoll/core/numbers.h"

namespace plimsoll::balance {
namespace {

using testing::Enumerator;
using testing::InstanceKind;
using testing::random_problem;

struct Tally {
  std::int64_t nodes = 0;
  int num_found = 0, num_refuted = 0;
};

// Around the optimum: `options` say which rules hold.
void expect_truth(const PlacementProblem& problem, double optimum, DiveOptions options,
                  Tally& tally) {
  const double scale = optimum < kInfinity ? optimum - problem.floor_ms : 10;
  for (const double factor : {.5, .97, 1 - 1e-6, 1 + 1e-6, 1.1}) {
    options.target = problem.floor_ms + scale * factor;
    options.relaxes = false;
    if (!(options.target > problem.floor_ms)) continue;
    EffortClock clock{RunContext{}};
    const DiveResult result = dive(problem, options, clock);
    tally.nodes += result.num_nodes;
    EXPECT_EQ(result.end, optimum <= options.target ? DiveEnd::kFound : DiveEnd::kRefuted)
        << factor;
    if (result.end == DiveEnd::kFound) {
      ++tally.num_found;
      EXPECT_TRUE(result.is_allowed);
      const PlacementValue value = evaluate(problem, result.placements);
      EXPECT_TRUE(value.is_allowed());
      EXPECT_LE(value.objective, options.target);
    } else {
      ++tally.num_refuted;
    }
    options.relaxes = true;
    const DiveResult relaxed = dive(problem, options, clock);
    if (relaxed.end == DiveEnd::kRefuted || relaxed.is_allowed) {
      EXPECT_EQ(relaxed.end, result.end) << factor;
    }
  }
}

// Every rule of the dive on and off: the same answer, which is that of plain enumeration; the rules
// cut nodes. Problems of all kinds.
TEST(PlacementDive, AnswersTheSameWithoutItsRules) {
  constexpr int kNumRules = 6;
  Tally tally[kNumRules];
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(seed);
    InstanceKind kind = testing::kind_of_seed(seed);
    kind.barriers = kind.barriers || seed % 3 == 0;
    const PlacementProblem problem = random_problem(seed, kind);
    ASSERT_TRUE(is_divable(problem));
    const double optimum = Enumerator(problem).find();
    for (int rule = 0; rule < kNumRules; ++rule) {
      SCOPED_TRACE(rule);
      DiveOptions options;
      options.uses_barrier_rule = rule != 1;
      options.uses_mean_rule = rule != 2;
      options.uses_rank_symmetry = rule != 3;
      options.uses_unit_symmetry = rule != 4;
      options.uses_states = rule != 5;
      expect_truth(problem, optimum, options, tally[rule]);
    }
  }
  EXPECT_GT(tally[0].num_found, 200);
  EXPECT_GT(tally[0].num_refuted, 200);
  EXPECT_GE(tally[1].nodes, tally[0].nodes);  // RefutesBarrierByBarrier
  for (int rule = 2; rule < kNumRules; ++rule) {
    EXPECT_GT(tally[rule].nodes, tally[0].nodes) << rule;
  }
}

// One barrier's slowest rank and the mean of the other, with all of whose work still to be placed:
//   barrier 0  rank 0 |10|   barrier 1  pieces of 1, 1.1, 1.2 .. 2.2 on both ranks
TEST(PlacementDive, RefutesBarrierByBarrier) {
  PlacementProblem problem;
  problem.num_ranks = 2;
  problem.num_barriers = 2;
  problem.resources = testing::three_memories();
  problem.caps.assign(2, {});
  double work = 0;
  const auto add = [&problem](double first, double second) {
    PieceRun run;
    run.count = 1;
    run.load = {first, second};
    UnitChoice choice;
    choice.runs = {run};
    problem.units.emplace_back().choices = {choice};
  };
  add(10, 0);
  for (int i = 0; i < 13; ++i) {
    add(0, 1 + i * .1);
    work += 1 + i * .1;
  }
  ASSERT_TRUE(validate(problem));
  DiveOptions options;
  options.target = 10 + work / 2 - .01;
  EffortClock clock{RunContext{}};
  const DiveResult result = dive(problem, options, clock);
  EXPECT_EQ(result.end, DiveEnd::kRefuted);
  EXPECT_LE(result.num_nodes, 3);
  options.uses_barrier_rule = false;
  const DiveResult slow = dive(problem, options, clock);
  EXPECT_EQ(slow.end, DiveEnd::kRefuted);
  EXPECT_GT(slow.num_nodes, 500);
}

// Whatever bytes are said to be worth.
TEST(PlacementDive, AnswersTheSameWithPrices) {
  Tally free, priced;
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(seed);
    InstanceKind kind = testing::kind_of_seed(seed);
    kind.tight_memory = true;
    const PlacementProblem problem = random_problem(seed, kind);
    const double optimum = Enumerator(problem).find();
    DiveOptions options;
    expect_truth(problem, optimum, options, free);
    Bytes cap = 1;
    for (const Amounts& caps : problem.caps) cap = std::max(cap, caps[0]);
    const double worth = optimum < kInfinity ? optimum : 10;
    for (const double share : {.03, .3, 3.0}) {
      options.byte_price[0] = share * worth / static_cast<double>(cap);
      expect_truth(problem, optimum, options, priced);
    }
  }
  EXPECT_LT(priced.nodes, 3 * free.nodes);
  EXPECT_GT(priced.num_refuted, 200);
}

// A part of the placements: none names a forbidden cause, and all pay for the paid ones.
TEST(PlacementDive, SearchesAPartOfThePlacements) {
  int num_found = 0, num_refuted = 0;
  for (std::uint64_t seed = 0; seed < 400; ++seed) {
    SCOPED_TRACE(seed);
    InstanceKind kind = testing::kind_of_seed(seed);
    kind.charges = true;
    const PlacementProblem problem = random_problem(seed, kind);
    ASSERT_FALSE(problem.charges.empty());
    DiveOptions options;
    options.forbidden = 1;
    options.paid = problem.charges.size() > 1 ? 2 : 0;
    PlacementProblem part = problem;
    if (options.paid != 0) part.floor_ms += std::exchange(part.charges[1], 0);
    bool is_empty = false;
    for (Unit& unit : part.units) {
      std::erase_if(unit.choices, [](const UnitChoice& choice) {
        return !choice.causes.empty() && choice.causes.front() == 0;
      });
      is_empty = is_empty || unit.choices.empty();
    }
    const double optimum = is_empty ? kInfinity : Enumerator(part).find();
    for (const double factor : {1 - 1e-6, 1 + 1e-6}) {
      options.target = optimum < kInfinity ? optimum * factor : problem.floor_ms + 100;
      EffortClock clock{RunContext{}};
      const DiveResult result = dive(problem, options, clock);
      const bool is_there = optimum < kInfinity && factor > 1;
      if (is_there && result.end == DiveEnd::kFound) {
        // The paid causes need not be named.
        EXPECT_LE(evaluate(problem, result.placements).objective, options.target);
      }
      EXPECT_EQ(result.end, is_there ? DiveEnd::kFound : DiveEnd::kRefuted);
      (is_there ? num_found : num_refuted) += 1;
    }
  }
  EXPECT_GT(num_found, 100);
  EXPECT_GT(num_refuted, 100);
}

// A unit of many pieces has more ways to lie than units have choices: pieces are nodes, too. Here
// 16 ranks, no two alike, hold one piece of 24 each.
TEST(PlacementDive, CountsThePiecesOfAUnit) {
  PlacementProblem problem;
  problem.num_ranks = 16;
  problem.resources = testing::three_memories();
  for (int rank = 0; rank < 16; ++rank) problem.caps.push_back({100 + rank, 0, 0});
  PieceRun run;
  run.count = 24;
  run.load = {1};
  run.bytes = {60, 0, 0};
  UnitChoice choice;
  choice.runs = {run};
  Unit unit;
  unit.choices = {choice};
  problem.units = {unit};
  ASSERT_TRUE(validate(problem));
  DiveOptions options;
  options.target = 30;
  options.max_nodes = 5000;
  EffortClock clock{RunContext{}};
  const DiveResult result = dive(problem, options, clock);
  EXPECT_NE(result.end, DiveEnd::kFound);
  EXPECT_LE(result.num_nodes, options.max_nodes);
}

}  // namespace
}  // namespace plimsoll::balance
