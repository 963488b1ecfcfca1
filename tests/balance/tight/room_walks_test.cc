// Walks within rooms of several barriers, beside judge and enumeration.
#include "balance/tight/room_walks.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>

#include "balance/balanced_placement.h"
#include "balance/barriers/box_search.h"
#include "balance/problem/one_load.h"
#include "balance/problem/placement_judge.h"
#include "balance/random_placements.h"
#include "plimsoll/core/numbers.h"

namespace plimsoll::balance {
namespace {

using testing::Enumerator;

PlacementProblem several_barriers(std::uint64_t seed) {
  testing::InstanceKind kind;
  kind.barriers = kind.tight_memory = true;
  kind.repeated = seed % 2 == 1;
  return testing::random_problem(seed, kind);
}

// What the programs of boxes say of each barrier; empty where they say nothing.
std::vector<double> box_load(const PlacementProblem& problem, double incumbent) {
  BoxSearchOptions options;
  options.constant = problem.floor_ms;
  options.incumbent = incumbent;
  EffortClock clock{RunContext{}};
  return search_boxes(problem, options, clock,
                      [](const UnitPlacements&, double&) { return false; });
}

std::vector<double> slowest_loads(const PlacementProblem& problem, const PlacementValue& value) {
  const auto num_barriers = static_cast<std::size_t>(problem.num_barriers);
  std::vector<double> slowest(num_barriers, 0);
  for (std::size_t i = 0; i < value.load.size(); ++i) {
    slowest[i % num_barriers] = std::max(slowest[i % num_barriers], value.load[i]);
  }
  return slowest;
}

// A problem with rooms allows what keeps them, and nothing else.
void expect_rooms_are_kept(const PlacementProblem& problem, const UnitPlacements& placements) {
  const std::vector<double> slowest = slowest_loads(problem, evaluate(problem, placements));
  for (int barrier = 0; barrier < problem.num_barriers; ++barrier) {
    for (const double factor : {1 - 1e-6, 1 + 1e-6}) {
      std::vector<double> room = slowest;
      for (double& r : room) r = std::max(r * factor, 1e-3);
      const PlacementValue within = evaluate(with_rooms_beside(problem, barrier, room), placements);
      bool is_kept = true;
      for (std::size_t g = 0; g < room.size(); ++g) {
        is_kept &= static_cast<int>(g) == barrier || slowest[g] <= room[g];
      }
      EXPECT_EQ(within.is_allowed(), is_kept);
      EXPECT_DOUBLE_EQ(within.objective, slowest[static_cast<std::size_t>(barrier)]);
    }
  }
}

TEST(RoomWalks, FindPlacementsOfSeveralBarriers) {
  int num_problems = 0, num_found = 0, num_best = 0;
  for (std::uint64_t seed = 0; seed < 120; ++seed) {
    SCOPED_TRACE(seed);
    const PlacementProblem problem = several_barriers(seed);
    const double best = Enumerator(problem).find();
    if (best == kInfinity) continue;
    RoomWalkOptions options;
    options.incumbent = 3 * best + 1;
    options.load = box_load(problem, options.incumbent);
    if (options.load.empty()) continue;
    ++num_problems;
    options.constant = problem.floor_ms;
    options.max_effort = 20000;
    EffortClock clock{RunContext{}}, again{RunContext{}};
    const auto found = walk_within_rooms(problem, options, clock);
    EXPECT_EQ(walk_within_rooms(problem, options, again), found);
    EXPECT_EQ(clock.effort(), again.effort());
    EXPECT_LE(clock.effort(), options.max_effort * 3 / 2);
    if (!found) continue;
    const PlacementValue value = evaluate(problem, *found);
    EXPECT_TRUE(value.is_allowed());
    EXPECT_GE(value.objective, best * (1 - 1e-9));
    EXPECT_LT(value.objective, options.incumbent);
    ++num_found;
    num_best += value.objective <= best * (1 + 1e-5);
    expect_rooms_are_kept(problem, *found);

    options.incumbent = best;
    EXPECT_FALSE(walk_within_rooms(problem, options, clock)) << "better than the best";
  }
  EXPECT_GT(num_problems, 40);
  EXPECT_GT(num_found, num_problems * 3 / 4);
  EXPECT_GT(num_best, num_found / 2);
}

// Units of six kinds on two hosts of eight ranks, under a cap on times that they nearly fill: a
// piece takes much of it, a uniform unit little of every rank, but long at the second barrier.
PlacementProblem nearly_full() {
  PlacementProblem problem;
  problem.num_ranks = 16;
  problem.ranks_per_host = 8;
  problem.num_barriers = 2;
  problem.resources = {{.name = "rating", .is_time = true}};
  problem.caps.assign(16, {1021});
  struct Kind {
    int count;
    PieceRun piece, uniform, block;
  };
  const Kind kinds[] = {
      {5, {1, {.19, .16}, {493}}, {16, {.0075, .021}, {40}}, {8, {.0104, .025}, {50}}},
      {5, {1, {.2, .31}, {721}}, {16, {.014, 17}, {1000}}, {8, {.02, .051}, {100}}},
      {29, {1, {.0089, .078}, {123}}, {16, {.0004, .0001}, {1}}, {}},
      {36, {1, {.0089, .078}, {123}}, {16, {.0004, .0021}, {4}}, {8, {.0019, .0127}, {21}}},
      {4, {1, {.012, .156}, {237}}, {16, {.0008, .424}, {598}}, {8, {.0037, .0255}, {41}}},
      {26, {1, {.012, .156}, {237}}, {16, {.0008, 17}, {1000}}, {8, {.0037, .0255}, {41}}},
  };
  for (const Kind& kind : kinds) {
    for (int i = 0; i < kind.count; ++i) {
      Unit unit{"unit" + std::to_string(problem.num_units()), {}, {}};
      unit.choices.push_back({Spread::kDevice, {kind.piece}, 1, {}});
      unit.choices.push_back({Spread::kUniform, {kind.uniform}, 1, {}});
      if (kind.block.count > 0) unit.choices.push_back({Spread::kHost, {kind.block}, 1, {}});
      problem.units.push_back(std::move(unit));
    }
  }
  return problem;
}

TEST(RoomWalks, FindMoreThanMovesUnderACapThatIsNearlyFilled) {
  const PlacementProblem problem = nearly_full();
  SearchOptions search;
  search.effort = 3000000;
  const auto solve = [&](bool uses_replicas) {
    BalanceOptions options;
    options.uses_replicas = uses_replicas;
    const BalanceOutcome found = balance(problem, options, search, {});
    EXPECT_TRUE(evaluate(problem, found.outcome.plan.value()).is_allowed());
    return found.outcome.certificate.objective;
  };
  EXPECT_LT(solve(true), .95 * solve(false));
}

}  // namespace
}  // namespace plimsoll::balance
