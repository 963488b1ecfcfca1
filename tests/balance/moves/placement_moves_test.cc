// What searches make and move: constructions, states, annealing, beside the judge.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "balance/moves/placement_annealing.h"
#include "balance/moves/placement_construction.h"
#include "balance/problem/placement_judge.h"
#include "balance/problem/placement_state.h"
#include "balance/random_placements.h"

namespace plimsoll::balance {
namespace {

using testing::InstanceKind;
using testing::kind_of_seed;
using testing::random_problem;

TEST(PlacementConstruction, PlacesWhatTheJudgeAllows) {
  int num_found = 0;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(seed);
    const PlacementProblem problem = random_problem(seed, kind_of_seed(seed));
    const PlacementItems items = make_placement_items(problem);
    if (!items.empty_units.empty()) continue;
    ConstructionOptions options;
    options.target = 5;
    options.uniform_target = 1;
    options.piece_limit = 4;
    const auto placements = construct(items, options);
    if (!placements) continue;
    ++num_found;
    EXPECT_THAT(evaluate(problem, *placements).faults, ::testing::IsEmpty());
  }
  EXPECT_GT(num_found, 100);
}

// What the state says is what the judge says, after any moves.
TEST(PlacementState, KeepsLoadsOfTheJudge) {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(seed);
    InstanceKind kind = kind_of_seed(seed);
    kind.uneven_pieces = false;
    const PlacementProblem problem = random_problem(seed, kind);
    const PlacementItems items = make_placement_items(problem);
    if (!items.empty_units.empty()) continue;
    PlacementState state(items);
    testing::Random random(seed);
    for (int step = 0; step < 30; ++step) {
      for (int unit = 0; unit < items.num_units; ++unit) {
        if (step > 0 && !random.chance(40)) continue;
        if (step > 0) state.remove(unit);
        const int c = items.first_choice[unit] + random.below(items.num_choices(unit));
        state.take(unit, c);
        const PlacementItems::Choice& choice = items.choices[c];
        const int end = choice.spread == Spread::kHost ? items.num_hosts : items.num_ranks;
        for (int i = 0; i < choice.num_pieces; ++i) state.put(unit, i, random.below(end));
        if (choice.num_pieces > 0) state.move(items.first_slot[unit], random.below(end));
      }
    }
    const PlacementValue value = evaluate(problem, state.placements());
    for (int rank = 0; rank < problem.num_ranks; ++rank) {
      for (int g = 0; g < problem.num_barriers; ++g) {
        EXPECT_NEAR(state.load(rank, g),
                    value.load[static_cast<std::size_t>(rank * problem.num_barriers + g)], 1e-9);
      }
    }
  }
}

TEST(PlacementAnnealing, OnlyImproves) {
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    SCOPED_TRACE(seed);
    const PlacementProblem problem = random_problem(seed, kind_of_seed(seed));
    if (!problem.charges.empty()) continue;
    const PlacementItems items = make_placement_items(problem);
    if (!items.empty_units.empty()) continue;
    ConstructionOptions options;
    options.target = 5;
    const auto placements = construct(items, options);
    if (!placements) continue;
    const Start start{*placements, evaluate(problem, *placements).objective};
    AnnealingOptions annealing;
    annealing.max_moves = 5000;
    annealing.moves_a_round = 500;
    EffortClock clock{RunContext{}};
    const AnnealingResult result = anneal(items, start, annealing, clock);
    EXPECT_LE(result.best.objective, start.objective);
    const PlacementValue value = evaluate(problem, result.best.placements);
    EXPECT_TRUE(value.is_allowed());
    EXPECT_EQ(value.objective, result.best.objective);
    EXPECT_EQ(anneal(items, start, annealing, clock).best.placements, result.best.placements);
  }
}

}  // namespace
}  // namespace plimsoll::balance
