// Deals of two hosts' blocks beside enumeration of all of them.
#include "balance/tight/block_dealing.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <set>
#include <vector>

#include "balance/problem/placement_items.h"
#include "plimsoll/core/numbers.h"

namespace plimsoll::balance {
namespace {

constexpr int kWidth = 2, kHosts = 3, kFirst = 2, kSecond = 0;

// `counts`: of blocks of each kind; drawn loads and bytes, one cap a host.
PlacementProblem blocks_of_kinds(const std::vector<int>& counts, SplitMix64& random) {
  PlacementProblem problem;
  problem.num_ranks = kWidth * kHosts;
  problem.ranks_per_host = kWidth;
  problem.num_barriers = 1;
  problem.resources = {{.name = "hbm"}};
  for (int host = 0; host < kHosts; ++host) {
    problem.caps.insert(problem.caps.end(), kWidth, {80 + random.below(40)});
  }
  for (const int count : counts) {
    const PieceRun block{kWidth, {1 + random.unit()}, {10 + random.below(30)}};
    for (int i = 0; i < count; ++i) {
      Unit unit{"unit" + std::to_string(problem.num_units()), {}, {}};
      unit.choices.push_back({Spread::kHost, {block}, 1, {}});
      problem.units.push_back(unit);
    }
  }
  return problem;
}

// Unit i on the host that `bits` say, and the last one on another host than the two.
void place(OverdraftState& state, unsigned bits) {
  const int num_units = state.items().num_units;
  state.clear();
  for (int unit = 0; unit < num_units; ++unit) {
    state.take(unit, state.items().first_choice[unit]);
    const bool is_first = (bits >> unit & 1) != 0;
    state.put(unit, 0, unit == num_units - 1 ? 1 : is_first ? kFirst : kSecond);
  }
}

TEST(BlockDealing, FindsTheLeastEnergyOfAllDeals) {
  int num_overdrawn = 0, num_kept = 0;
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(seed);
    SplitMix64 random(seed);
    const PlacementProblem problem =
        blocks_of_kinds({1 + random.below(4), 1 + random.below(3), 1 + random.below(3), 1}, random);
    const PlacementItems items = make_placement_items(problem);
    OverdraftState state(items);
    state.aim(4);
    const auto num_dealt = static_cast<unsigned>(items.num_units - 1);
    double least = kInfinity;
    for (unsigned bits = 0; bits < 1U << num_dealt; ++bits) {
      place(state, bits);
      least = std::min(least, state.energy());
    }
    place(state, static_cast<unsigned>(random.below(1 << num_dealt)));
    const double before = state.energy();
    deal_blocks(state, kFirst, kSecond, {0, 0}, random);
    EXPECT_NEAR(state.energy(), least, 1e-8);
    EXPECT_EQ(state.place(items.num_units - 1), 1) << "of another host";
    num_overdrawn += least > 0;
    num_kept += before <= least + 1e-8;
  }
  EXPECT_GT(num_overdrawn, 15);
  EXPECT_LT(num_overdrawn, 55);
  EXPECT_LT(num_kept, 30);
}

// What pieces are to use decides: two blocks fit on either host, but not beside pieces.
TEST(BlockDealing, LeavesRoomForPieces) {
  SplitMix64 random(1);
  PlacementProblem problem = blocks_of_kinds({2, 1}, random);
  problem.caps.assign(kWidth * kHosts, {100});
  for (Unit& unit : problem.units) unit.choices[0].runs[0].bytes = {30};
  const PlacementItems items = make_placement_items(problem);
  OverdraftState state(items);
  state.aim(100);
  std::set<int> together;
  for (const double pieces : {35., 45.}) {
    int num_together = 0;
    for (int i = 0; i < 20; ++i) {
      place(state, 0);
      deal_blocks(state, kFirst, kSecond, {0, pieces}, random);
      num_together += state.place(0) == state.place(1);
    }
    EXPECT_EQ(num_together > 0, pieces < 40) << "of equal deals one is drawn";
    EXPECT_LT(num_together, 20);
  }
}

// Kinds beyond so many deals stay where they are.
TEST(BlockDealing, DealsPartOfManyKinds) {
  SplitMix64 random(2);
  const PlacementProblem problem = blocks_of_kinds(std::vector<int>(20, 1), random);
  const PlacementItems items = make_placement_items(problem);
  OverdraftState state(items);
  state.aim(10);
  place(state, 0);
  const double before = state.energy();
  const std::int64_t looks = state.num_looks();
  deal_blocks(state, kFirst, kSecond, {0, 0}, random);
  EXPECT_LT(state.energy(), before);
  EXPECT_LT(state.num_looks() - looks, 10000);
  int num_moved = 0;
  for (int unit = 0; unit < items.num_units; ++unit) {
    EXPECT_GE(state.place(unit), 0);
    num_moved += state.place(unit) == kFirst;
  }
  EXPECT_GT(num_moved, 3);
  EXPECT_LE(num_moved, 12) << "2^12 deals";
}

}  // namespace
}  // namespace plimsoll::balance
