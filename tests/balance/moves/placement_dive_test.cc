#include "balance/moves/placement_dive.h"

#include <gtest/gtest.h>

#include "balance/problem/placement_judge.h"
#include "balance/random_placements.h"
#include "plimsoll/core/numbers.h"

namespace plimsoll::balance {
namespace {

using testing::Enumerator;
using testing::InstanceKind;
using testing::random_problem;

// Every rule of the dive on and off: the same answer; the rules cut nodes.
TEST(PlacementDive, AnswersTheSameWithoutItsRules) {
  std::int64_t nodes[4] = {};
  int num_found = 0, num_refuted = 0;
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(seed);
    InstanceKind kind;
    kind.repeated = seed % 2 == 0;
    kind.tight_memory = seed % 3 == 0;
    kind.unequal_caps = seed % 5 == 0;
    const PlacementProblem problem = random_problem(seed, kind);
    const PlacementItems items = make_placement_items(problem);
    if (!is_divable(items)) continue;
    const double optimum = Enumerator(problem).find();
    const double scale = optimum < kInfinity ? optimum - problem.floor_ms : 10;
    for (const double factor : {.97, 1 - 1e-6, 1 + 1e-6, 1.1}) {
      for (int rule = 0; rule < 4; ++rule) {
        DiveOptions options;
        options.target = scale * factor;
        options.uses_mean_rule = rule != 1;
        options.uses_rank_symmetry = rule != 2;
        options.uses_unit_symmetry = rule != 3;
        EffortClock clock{RunContext{}};
        const DiveResult result = dive(items, options, clock);
        nodes[rule] += result.num_nodes;
        const bool is_there = optimum < kInfinity && factor > 1;
        EXPECT_EQ(result.end, is_there ? DiveEnd::kFound : DiveEnd::kRefuted) << rule;
        num_found += result.end == DiveEnd::kFound;
        num_refuted += result.end == DiveEnd::kRefuted;
        if (result.end == DiveEnd::kFound) {
          EXPECT_TRUE(result.is_allowed);
          EXPECT_LE(evaluate(problem, result.placements).objective - problem.floor_ms,
                    options.target * (1 + 1e-9));
        }
        options.relaxes_memory = true;
        const DiveResult relaxed = dive(items, options, clock);
        if (relaxed.end == DiveEnd::kRefuted) {
          EXPECT_EQ(result.end, DiveEnd::kRefuted);
        }
      }
    }
  }
  EXPECT_GT(num_found, 100);
  EXPECT_GT(num_refuted, 100);
  for (int rule = 1; rule < 4; ++rule) EXPECT_GT(nodes[rule], nodes[0]) << rule;
}

// A unit of many pieces has more ways to lie than units have choices: pieces are nodes, too. Here
// 16 ranks, no two alike, hold one piece of 24 each.
TEST(PlacementDive, CountsThePiecesOfAUnit) {
  PlacementProblem problem;
  problem.num_ranks = 16;
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
  const PlacementItems items = make_placement_items(problem);
  ASSERT_TRUE(is_divable(items));
  DiveOptions options;
  options.target = 30;
  options.max_nodes = 5000;
  EffortClock clock{RunContext{}};
  const DiveResult result = dive(items, options, clock);
  EXPECT_NE(result.end, DiveEnd::kFound);
  EXPECT_LE(result.num_nodes, options.max_nodes);
}

}  // namespace
}  // namespace plimsoll::balance
