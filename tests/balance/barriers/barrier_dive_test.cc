// Dives where the rooms leave nothing to spare: every rank must hold just what is left for it.

#include "balance/barriers/barrier_dive.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "balance/problem/placement_judge.h"
#include "balance/random_placements.h"

namespace plimsoll::balance {
namespace {

// Pieces of several classes, whose loads are those of one of the first class times a number; they
// differ in what they take of a memory that is ample.
PlacementProblem pieces(int num_ranks, int ranks_per_host, const std::vector<int>& counts,
                        const std::vector<int>& times = {}) {
  PlacementProblem problem;
  problem.num_ranks = num_ranks;
  problem.ranks_per_host = ranks_per_host;
  problem.num_barriers = 2;
  problem.resources = testing::three_memories();
  problem.caps.assign(static_cast<std::size_t>(num_ranks), {100000, 1000, 1000});
  for (std::size_t c = 0; c < counts.size(); ++c) {
    for (int i = 0; i < counts[c]; ++i) {
      Unit unit{"unit" + std::to_string(problem.units.size()), {}, {}};
      const double load = times.empty() ? 1 : times[c];
      const auto bytes = static_cast<Bytes>(c + 1);
      unit.choices.push_back({Spread::kDevice, {{1, {load, 2 * load}, {bytes, 0, 0}}}, 1, {}});
      problem.units.push_back(std::move(unit));
    }
  }
  return problem;
}

std::optional<UnitPlacements> dive(const PlacementProblem& problem,
                                   const std::vector<double>& room) {
  const std::optional<BarrierModel> model = make_barrier_model(problem, 0);
  if (!model) return std::nullopt;
  BarrierDemand demand;
  for (const BarrierClass& c : model->classes) demand.count.push_back(c.count());
  const int width = model->has_blocks ? model->width : 1;
  demand.bins.push_back({static_cast<double>(model->num_ranks / width), width, room});
  BarrierProgram program(*model, {});
  EffortClock clock(RunContext{}, EffortClock::kNever);
  const BarrierAnswer answer = program.solve(demand, kInfinity, 1000, clock);
  return dive_by_barriers(*model, problem.num_units(), room, answer, 1, clock);
}

// Eight ranks that are filled to the last with pieces of several sizes: so many of 100 problems.
TEST(BarrierDive, FillsTheLastRanksWithWhatIsLeft) {
  constexpr int kRanks = 8, kRoom = 60;
  const std::vector<int> times = {1, 1, 4, 4, 7, 11, 17};
  int num_found = 0;
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    SCOPED_TRACE(seed);
    testing::Random random(seed);
    std::vector<int> counts(times.size(), 0);
    for (int rank = 0; rank < kRanks; ++rank) {
      for (int left = kRoom; left > 0;) {
        const int c = random.below(static_cast<int>(times.size()));
        if (times[c] > left) continue;
        ++counts[c];
        left -= times[c];
      }
    }
    const PlacementProblem problem = pieces(kRanks, kRanks, counts, times);
    const auto found = dive(problem, {kRoom, 2 * kRoom});
    if (!found) continue;
    const PlacementValue value = evaluate(problem, *found);
    EXPECT_TRUE(value.is_allowed());
    num_found += value.objective <= 3 * kRoom * (1 + 1e-9);
  }
  EXPECT_GE(num_found, 98);
}

TEST(BarrierDive, GivesEveryHostItsBlocks) {
  // Two hosts of two ranks, with place for two blocks on each and three pieces on each rank.
  PlacementProblem problem = pieces(4, 2, {5, 7});
  for (int i = 0; i < 4; ++i) {
    Unit unit{"block" + std::to_string(i), {}, {}};
    unit.choices.push_back({Spread::kHost, {{2, {1, 1}, {i < 2 ? 50 : 60, 0, 0}}}, 1, {}});
    problem.units.push_back(std::move(unit));
  }
  const auto found = dive(problem, {5, 8});
  ASSERT_TRUE(found);
  const PlacementValue value = evaluate(problem, *found);
  EXPECT_TRUE(value.is_allowed());
  EXPECT_DOUBLE_EQ(value.objective, 5 + 8);
}

TEST(BarrierDive, KeepsTheRoomThatUniformUnitsNeed) {
  // A time of 12 on every rank: four pieces of 2 beside two uniform units of 2, though there is
  // room for six.
  PlacementProblem problem = pieces(2, 2, {8});
  problem.resources[1].is_time = true;
  problem.caps.assign(2, {100000, 12, 1000});
  for (Unit& unit : problem.units) {
    unit.choices.front().runs.front().bytes = {1, 2, 0};
  }
  for (int i = 0; i < 2; ++i) {
    Unit unit{"uniform" + std::to_string(i), {}, {}};
    unit.choices.push_back({Spread::kDevice, {{1, {5, 9}, {1, 5, 0}}}, 1, {}});
    unit.choices.push_back({Spread::kUniform, {{2, {.1, .1}, {1, 2, 0}}}, 1, {}});
    problem.units.push_back(std::move(unit));
  }
  const auto found = dive(problem, {6, 12});
  ASSERT_TRUE(found);
  const PlacementValue value = evaluate(problem, *found);
  EXPECT_TRUE(value.is_allowed());
  EXPECT_NEAR(value.objective, 4 + 8 + .4, 1e-9);
}

}  // namespace
}  // namespace plimsoll::balance
