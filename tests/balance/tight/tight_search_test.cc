// Walks that mend what overdraws, and the placements that they change, beside judge and
// enumeration.
#include "balance/tight/tight_search.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "balance/moves/replica_exchange.h"
#include "balance/problem/placement_judge.h"
#include "balance/random_placements.h"
#include "balance/tight/fill_program.h"
#include "balance/tight/overdraft_state.h"

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

TightOptions short_search(std::uint64_t seed = 0) {
  TightOptions options;
  options.lower_bound = .1;
  options.max_effort = 30000;
  options.seed = seed;
  return options;
}

// Units on four ranks, each in one of two memories; in the second it is ten times as slow.
PlacementProblem two_resources(std::uint64_t seed, int num_units, int least, int spread) {
  testing::Random random(seed);
  PlacementProblem problem = testing::two_memories(4, 1000);
  for (int i = 0; i < num_units; ++i) {
    const Bytes bytes = least + random.below(spread);
    const double slow = 1 + random.below(9);
    problem.units.push_back(testing::in_either_memory(.1 * slow, slow, bytes));
  }
  return problem;
}

// Two units that take other choices of one piece or block: the growth is what the energy grows by,
// and where it is too large to be looked at in full, it is at least what was asked.
int try_exchanges(OverdraftState& state, testing::Random& random) {
  const PlacementItems& items = state.items();
  int num_exchanges = 0;
  for (int a = 0; a < items.num_units; ++a) {
    for (int b = 0; b < a; ++b) {
      const Spread spread = items.choices[state.choice(a)].spread;
      const auto is_one = [&](int choice) {
        return items.choices[choice].spread == spread && items.choices[choice].num_pieces == 1;
      };
      if (spread == Spread::kUniform || !is_one(state.choice(a)) || !is_one(state.choice(b))) {
        continue;
      }
      const auto draw = [&](int unit) {
        std::vector<int> open;
        for (int k = items.first_choice[unit]; k < items.first_choice[unit + 1]; ++k) {
          if (is_one(k)) open.push_back(k);
        }
        return open[random.below(static_cast<int>(open.size()))];
      };
      const int c = draw(a), d = draw(b);
      const int here = items.first_slot[a], there = items.first_slot[b];
      const int place_a = state.place(here), place_b = state.place(there);
      const double before = state.energy();
      const double cost =
          state.cost(c) + state.cost(d) - state.cost(state.choice(a)) - state.cost(state.choice(b));
      const double growth = state.growth_of_exchange(here, c, there, d, kInfinity);
      const double most = growth - .1 - .01 * random.below(100);
      EXPECT_GE(state.growth_of_exchange(here, c, there, d, most), most);
      state.exchange(here, c, there, d);
      EXPECT_NEAR(state.energy() - before, growth + cost, 1e-9 * (1 + before));
      EXPECT_EQ(state.place(here), place_b);
      EXPECT_EQ(state.place(there), place_a);
      EXPECT_EQ(state.choice(a), c);
      EXPECT_EQ(state.choice(b), d);
      ++num_exchanges;
    }
  }
  return num_exchanges;
}

// The state's figures are the judge's, after any changes, and growths are what energies grow by.
TEST(OverdraftState, KeepsFiguresOfTheJudge) {
  int num_overdrawn = 0, num_within = 0, num_swaps = 0, num_exchanges = 0;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(seed);
    InstanceKind kind = tight_kind(seed);
    kind.uneven_pieces = false;
    const PlacementProblem problem = random_problem(seed, kind);
    const PlacementItems items = make_placement_items(problem);
    if (!items.empty_units.empty()) continue;
    OverdraftState state(items);
    state.aim(3);
    testing::Random random(seed);
    if (seed % 2 == 0) {
      std::vector<double> costs;
      for (std::size_t c = 0; c < items.choices.size(); ++c)
        costs.push_back(.01 * random.below(100));
      state.set_costs(costs);
    }
    for (int step = 0; step < 20; ++step) {
      for (int unit = 0; unit < items.num_units; ++unit) {
        if (step > 0 && !random.chance(40)) continue;
        if (step > 0) state.remove(unit);
        const int c = items.first_choice[unit] + random.below(items.num_choices(unit));
        const PlacementItems::Choice& choice = items.choices[c];
        double before = state.energy();
        const double everywhere =
            choice.spread == Spread::kUniform ? state.growth_everywhere(c) : 0;
        state.take(unit, c);
        EXPECT_NEAR(state.energy() - before, everywhere + state.cost(c), 1e-9 * (1 + before));
        const int end = choice.spread == Spread::kHost ? items.num_hosts : items.num_ranks;
        for (int i = 0; i < choice.num_pieces; ++i) {
          const int place = random.below(end);
          before = state.energy();
          const double growth = state.growth(c, i)[place];
          state.put(unit, i, place);
          EXPECT_NEAR(state.energy() - before, growth, 1e-9 * (1 + before));
        }
      }
    }
    for (int a = 0; a < problem.num_ranks; ++a) {
      for (int b = 0; b < a; ++b) {
        if (state.slots_on_rank(a).empty() || state.slots_on_rank(b).empty()) continue;
        const int one = state.slots_on_rank(a).front();
        const int other = state.slots_on_rank(b).front();
        const double before = state.energy();
        const double growth = state.growth_of_swap(one, other);
        state.swap(one, other);
        EXPECT_NEAR(state.energy() - before, growth, 1e-9 * (1 + before));
        ++num_swaps;
      }
    }
    num_exchanges += try_exchanges(state, random);
    const PlacementValue value = evaluate(problem, state.placements());
    const double slowest = *std::max_element(value.load.begin(), value.load.end());
    EXPECT_EQ(state.is_within_caps(), value.is_allowed());
    EXPECT_NEAR(state.slowest(), slowest, 1e-9);
    if (std::abs(slowest - 3) > 1e-9) {
      EXPECT_EQ(state.is_reached(), value.is_allowed() && slowest < 3);
    }
    const double energy = state.energy();
    state.assign(state.standing());
    EXPECT_NEAR(state.energy(), energy, 1e-9 * (1 + energy));
    EXPECT_EQ(evaluate(problem, state.placements()).bytes, value.bytes);
    (value.is_allowed() ? num_within : num_overdrawn) += 1;
  }
  EXPECT_GT(num_overdrawn, 50);
  EXPECT_GT(num_within, 10);
  EXPECT_GT(num_swaps, 100);
  EXPECT_GT(num_exchanges, 100);
}

// No placement of at most the target needs less of some resource than the program's share.
TEST(FillProgram, IsNoMoreThanAnyPlacementNeeds) {
  int num_compared = 0;
  for (std::uint64_t seed = 0; seed < 150; ++seed) {
    SCOPED_TRACE(seed);
    InstanceKind kind;
    kind.tight_memory = true;
    const PlacementProblem problem = random_problem(seed, kind);
    const PlacementItems items = make_placement_items(problem);
    if (!items.empty_units.empty()) continue;
    const double best = Enumerator(problem).find();
    if (best == kInfinity || best == 0) continue;
    const Fill fill = find_fill(items, best, 1000);
    EXPECT_LE(fill.share, 1 + 1e-6);
    EXPECT_GE(find_fill(items, .5 * best, 1000).share, fill.share - 1e-6);
    ++num_compared;
  }
  EXPECT_GT(num_compared, 40);
}

// Of small pieces only the rows of all ranks together bind, and what the program takes costs
// nothing beyond the best, by its own prices.
TEST(FillProgram, PricesWhatOtherChoicesUseBeyondTheBest) {
  const PlacementProblem problem = two_resources(5, 60, 40, 120);
  const PlacementItems items = make_placement_items(problem);
  const Fill fill = find_fill(items, 12, 1000);
  ASSERT_EQ(fill.excess.size(), items.choices.size());
  int num_dearer = 0;
  for (int unit = 0; unit < items.num_units; ++unit) {
    EXPECT_NEAR(fill.excess[fill.choices[unit]], 0, 1e-9);
    for (int c = items.first_choice[unit]; c < items.first_choice[unit + 1]; ++c) {
      EXPECT_GE(fill.excess[c], 0);
      num_dearer += fill.excess[c] > 1e-6;
    }
  }
  EXPECT_GE(num_dearer, 50);  // all but the few units of which the program mixes both choices
}

TEST(TightSearch, FindsTheBestOfTinyProblems) {
  int num_found = 0, num_best = 0;
  for (std::uint64_t seed = 0; seed < 150; ++seed) {
    SCOPED_TRACE(seed);
    const PlacementProblem problem = random_problem(seed, tight_kind(seed));
    const PlacementItems items = make_placement_items(problem);
    if (!items.empty_units.empty()) continue;
    ASSERT_TRUE(is_overdrawable(items));
    const double best = Enumerator(problem).find();
    TightOptions options = short_search(seed);
    if (best < kInfinity) options.lower_bound = .5 * best;
    EffortClock clock{RunContext{}};
    const auto found = search_tight(items, options, clock);
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

    // From the best there is nothing better.
    options.incumbent = value.objective - problem.floor_ms;
    options.start = &*found;
    options.max_effort = 3000;
    if (value.objective <= best * (1 + 1e-12)) {
      EXPECT_FALSE(search_tight(items, options, clock));
    }
  }
  EXPECT_GT(num_found, 40);
  EXPECT_GE(num_best, num_found - 4);
}

// Blocks of two hosts fill their caps in one way alone: {4 x 999} and {5 x 505, 5 x 206, 411}.
TEST(TightSearch, DealsTheBlocksOfTwoHosts) {
  PlacementProblem problem;
  problem.num_ranks = 16;
  problem.ranks_per_host = 8;
  problem.num_barriers = 1;
  problem.resources = {{.name = "hbm"}};
  problem.caps.assign(16, {3996 + 2 * 2367});
  const auto add = [&](int count, Spread spread, const PieceRun& run) {
    for (int i = 0; i < count; ++i) {
      Unit unit{"unit" + std::to_string(problem.num_units()), {}, {}};
      unit.choices.push_back({spread, {run}, 1, {}});
      problem.units.push_back(unit);
    }
  };
  add(4, Spread::kHost, {8, {.05}, {999}});
  add(5, Spread::kHost, {8, {.05}, {505}});
  add(5, Spread::kHost, {8, {.05}, {206}});
  add(1, Spread::kHost, {8, {.05}, {411}});
  add(32, Spread::kDevice, {1, {.1}, {2367}});
  const PlacementItems items = make_placement_items(problem);
  for (std::uint64_t seed = 0; seed < 5; ++seed) {
    TightOptions options = short_search(seed);
    options.lower_bound = .75;
    EffortClock clock{RunContext{}};
    const auto found = search_tight(items, options, clock);
    ASSERT_TRUE(found) << seed;
    EXPECT_NEAR(evaluate(problem, *found).objective, 11 * .05 + 2 * .1, 1e-9);
  }
}

// Targets rise from far below what is possible; with a new program for each of them no problem of
// these has a placement after as much effort.
TEST(TightSearch, GoesOnWithALargerTarget) {
  int num_found = 0;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const PlacementProblem problem = two_resources(seed, 24, 150, 310);
    const PlacementItems items = make_placement_items(problem);
    TightOptions options = short_search(seed);
    options.lower_bound = .01;
    options.max_effort = 3000;
    EffortClock clock{RunContext{}};
    const auto found = search_tight(items, options, clock);
    if (!found) continue;
    EXPECT_TRUE(evaluate(problem, *found).is_allowed());
    ++num_found;
  }
  EXPECT_GE(num_found, 12);
}

TEST(TightSearch, IsAFunctionOfItsArguments) {
  // They fill both memories up to a tenth.
  const PlacementProblem problem = two_resources(1, 24, 150, 310);
  const PlacementItems items = make_placement_items(problem);
  TightOptions options = short_search(3);
  options.lower_bound = 1;
  options.max_effort = 6000;
  EffortClock one{RunContext{}}, other{RunContext{}};
  const auto found = search_tight(items, options, one);
  ASSERT_TRUE(found);
  EXPECT_TRUE(evaluate(problem, *found).is_allowed());
  EXPECT_EQ(search_tight(items, options, other), found);
  EXPECT_EQ(one.effort(), other.effort());
  EXPECT_LE(one.effort(), options.max_effort * 3 / 2);

  // A stopped search stops at the same place again, with the same placement.
  EffortClock stopped({}, 3000), again({}, stopped.effort() + 3000);
  const auto early = search_tight(items, options, stopped);
  EXPECT_EQ(stopped.reason(), StopReason::kEffort);
  EXPECT_LT(stopped.effort(), 3500);
  EXPECT_EQ(search_tight(items, options, again), early);
}

}  // namespace
}  // namespace plimsoll::balance
