// Exchanges between ranks, and shakes of choices, beside the judge and enumeration.
#include "balance/moves/placement_exchange.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "balance/moves/placement_shake.h"
#include "balance/moves/rank_relief.h"
#include "balance/problem/placement_judge.h"
#include "balance/random_placements.h"

namespace plimsoll::balance {
namespace {

using testing::Enumerator;
using testing::kind_of_seed;
using testing::Random;
using testing::random_problem;

// Units of one device choice on ranks of equal caps, each on the rank that `ranks` says.
struct Wholes {
  PlacementProblem problem;
  Start start;
};

Wholes wholes(int num_ranks, const std::vector<std::pair<double, int>>& loads_and_ranks,
              Bytes cap = 1000, const std::vector<Bytes>& bytes = {}) {
  Wholes result;
  result.problem.num_ranks = num_ranks;
  result.problem.ranks_per_host = num_ranks;
  result.problem.resources = testing::three_memories();
  result.problem.caps.assign(static_cast<std::size_t>(num_ranks), {cap, 0, 0});
  for (std::size_t i = 0; i < loads_and_ranks.size(); ++i) {
    const Bytes of_unit = bytes.empty() ? 1 : bytes[i];
    result.problem.units.push_back(
        {"", {{Spread::kDevice, {{1, {loads_and_ranks[i].first}, {of_unit, 0, 0}}}, 1, {}}}, {}});
    result.start.placements.units.push_back({0, {loads_and_ranks[i].second}});
  }
  result.start.objective = evaluate(result.problem, result.start.placements).objective;
  return result;
}

Start exchanged(const Wholes& given, double lower_bound = 0) {
  const PlacementItems items = make_placement_items(given.problem);
  ExchangeOptions options;
  options.max_effort = 100000;
  options.lower_bound = lower_bound;
  EffortClock clock{RunContext{}};
  return exchange(items, given.start, options, clock);
}

// No piece alone can move, and no two can change places:
//
//   |33333|33333|       |33333|22222|22222|       7 is best: 3 + 2 + 2 on both
//   |22222|22222|22222|22222|   ->   |33333|22222|22222|
TEST(PlacementExchange, DealsTwoRanksAnew) {
  EXPECT_EQ(exchanged(wholes(2, {{3, 0}, {3, 0}, {2, 1}, {2, 1}, {2, 1}, {2, 1}})).objective, 7);
}

// 5 + 4, 6 + 3, 7 + 2, each pair on other ranks than its partner: only all three together are 9.
TEST(PlacementExchange, GathersRoomOverSeveralRanks) {
  const Start found = exchanged(wholes(3, {{5, 0}, {6, 0}, {7, 1}, {4, 1}, {3, 2}, {2, 2}}));
  EXPECT_EQ(found.objective, 9);
}

// By time 5 should be alone, but the 12 bytes of the others fit no rank.
TEST(PlacementExchange, KeepsToMemory) {
  Wholes given = wholes(2, {{5, 0}, {3, 0}, {1, 1}, {1, 1}}, 10, {8, 2, 3, 7});
  EXPECT_EQ(exchanged(given).objective, 8);
  given.problem.resources = testing::three_memories();
  given.problem.caps.assign(2, {12, 0, 0});
  EXPECT_EQ(exchanged(given).objective, 5);
}

// Of two ranks all deals are tried, up to so many pieces: the best is found.
TEST(PlacementExchange, IsExactOnTwoRanks) {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    std::vector<std::pair<double, int>> units;
    std::vector<Bytes> bytes;
    const int num_units = 2 + random.below(8);
    Bytes total = 0;
    for (int i = 0; i < num_units; ++i) {
      units.emplace_back(0.1 + random.real(), random.below(2));
      bytes.push_back(1 + random.below(9));
      total += bytes.back();
    }
    Wholes given = wholes(2, units, total / 2 + 4, bytes);
    if (!evaluate(given.problem, given.start.placements).is_allowed()) continue;
    const double optimum = Enumerator(given.problem).find();
    EXPECT_NEAR(exchanged(given, optimum * (1 - 1e-9)).objective, optimum, 1e-6);
  }
}

// With more pieces than deals are tried for, up to three change sides.
TEST(PlacementExchange, BalancesManyPieces) {
  Random random(5);
  std::vector<std::pair<double, int>> units;
  double sum = 0;
  for (int i = 0; i < 60; ++i) {
    units.emplace_back(0.1 + random.real(), random.below(2));
    sum += units.back().first;
  }
  EXPECT_LT(exchanged(wholes(2, units), sum / 2).objective, sum / 2 * 1.0005);
}

// Three units of 6 on two ranks, each of which may take another choice.
//
//   |666666|666666|       |666666|33333|
//   |666666|         ->   |666666|33333|
Wholes threes(const UnitChoice& other, Bytes cap = 1000) {
  Wholes given = wholes(2, {{6, 0}, {6, 0}, {6, 1}}, cap);
  for (Unit& unit : given.problem.units) unit.choices.push_back(other);
  return given;
}

TEST(PlacementExchange, RelievesRanksByOtherChoices) {
  const auto value = [](Spread spread, double load) {
    return exchanged(threes({spread, {{2, {load}, {1, 0, 0}}}, 1, {}}), 9).objective;
  };
  EXPECT_EQ(value(Spread::kDevice, 3.25), 9.25);
  EXPECT_EQ(value(Spread::kHost, 3.5), 9.5);
  EXPECT_EQ(value(Spread::kUniform, 3.75), 9.75);
}

// The rank that keeps a unit needs 1 + 4 bytes.
TEST(PlacementExchange, RelievesNoRankBeyondMemory) {
  for (const Spread spread : {Spread::kDevice, Spread::kHost, Spread::kUniform}) {
    const UnitChoice other{spread, {{2, {3}, {4, 0, 0}}}, 1, {}};
    EXPECT_EQ(exchanged(threes(other, 4), 9).objective, 12);
    EXPECT_EQ(exchanged(threes(other, 5), 9).objective, 9);
  }
}

TEST(PlacementExchange, RelievesRanksByTheNextChoiceWhereMemoryForbidsTheFirst) {
  for (const Spread first : {Spread::kDevice, Spread::kHost, Spread::kUniform}) {
    const Spread next = first == Spread::kUniform ? Spread::kHost : Spread::kUniform;
    Wholes given = threes({first, {{2, {3}, {4, 0, 0}}}, 1, {}}, 4);
    std::vector<Unit>& units = given.problem.units;
    units[0].choices.push_back({next, {{2, {3.75}, {1, 0, 0}}}, 1, {}});
    units[1].choices.resize(1);
    EXPECT_EQ(exchanged(given, 9).objective, 9.75);
  }
}

// Room for 4 is on no rank, and rank 0 and another one alone take more than two ranks may:
//
//   |99999|4444|55555|22|55555|22|   ->   |99999|55555|55555|22|22|4444|
TEST(PlacementExchange, GathersRoomForOnePiece) {
  const Wholes given = wholes(3, {{9, 0}, {4, 0}, {5, 1}, {2.5, 1}, {5, 2}, {2.5, 2}});
  const PlacementItems items = make_placement_items(given.problem);
  EffortClock clock{RunContext{}};
  PlacementState state(items);
  state.assign(given.start.placements);
  RankDealing dealing(state, clock);
  dealing.aim(10);
  SplitMix64 random(0);
  RankRelief(state, dealing, random, clock, 1000).relieve({1, 2, 0});
  EXPECT_EQ(dealing.total_over(), 0);
}

TEST(PlacementExchange, PlacesWhatIsUniformWhereThatIsLess) {
  Wholes given = wholes(4, {{4, 0}, {4, 1}, {4, 2}, {1, 3}});
  given.problem.units.push_back({"",
                                 {{Spread::kUniform, {{4, {2}, {1, 0, 0}}}, 1, {}},
                                  {Spread::kDevice, {{1, {3}, {1, 0, 0}}}, 1, {}}},
                                 {}});
  given.start.placements.units.push_back({0, {}});
  given.start.objective = 6;
  EXPECT_EQ(exchanged(given).objective, 4);
}

// Two pieces a rank, as in large models on many ranks: room that is left over must be gathered, and
// pieces must be cut, for ranks to come out even.
TEST(PlacementExchange, FillsManyRanksWithFewPieces) {
  constexpr int kRanks = 200;
  Random random(3);
  std::vector<std::pair<double, int>> units;
  double sum = 0;
  for (int i = 0; i < 2 * kRanks; ++i) {
    units.emplace_back(.2 + random.real(), i % kRanks);
    sum += units.back().first;
  }
  Wholes given = wholes(kRanks, units);
  for (Unit& unit : given.problem.units) {
    const double half = unit.choices.front().runs.front().load.front() * .5005;
    unit.choices.push_back({Spread::kDevice, {{2, {half}, {1, 0, 0}}}, 1, {}});
  }
  EXPECT_LT(exchanged(given, sum / kRanks).objective, sum / kRanks * 1.005);
}

using Improvement = Start (*)(const PlacementItems&, const Start&, const ExchangeOptions&,
                              EffortClock&);

TEST(PlacementExchange, OnlyImprovesWhatTheJudgeAllows) {
  int num_better[2] = {};
  int num_tried = 0;
  for (std::uint64_t seed = 0; seed < 400; ++seed) {
    SCOPED_TRACE(seed);
    const PlacementProblem problem = random_problem(seed, kind_of_seed(seed));
    const PlacementItems items = make_placement_items(problem);
    if (!is_exchangeable(items)) continue;
    ConstructionOptions construction;
    construction.target = 5;
    const auto placements = construct(items, construction);
    if (!placements) continue;
    ++num_tried;
    const Start start{*placements, evaluate(problem, *placements).objective};
    const double optimum = Enumerator(problem).find();
    int number = 0;
    for (const Improvement improve : {Improvement{exchange}, Improvement{shake}}) {
      ExchangeOptions options;
      options.max_effort = 3000;
      options.lower_bound = optimum * (1 - 1e-9);
      EffortClock clock{RunContext{}};
      const Start found = improve(items, start, options, clock);
      const PlacementValue value = evaluate(problem, found.placements);
      EXPECT_TRUE(value.is_allowed());
      EXPECT_EQ(value.objective, found.objective);
      EXPECT_LE(found.objective, start.objective);
      EXPECT_GE(found.objective, optimum * (1 - 1e-9));
      EffortClock again{RunContext{}};
      EXPECT_EQ(improve(items, start, options, again).placements, found.placements);
      EXPECT_EQ(again.effort(), clock.effort());
      num_better[number++] += found.objective <= optimum * (1 + 1e-6);
    }
  }
  ASSERT_GT(num_tried, 100);
  EXPECT_GE(num_better[1], num_tried * 80 / 100) << num_better[1] << " of " << num_tried;
  EXPECT_GT(num_better[1], num_better[0]);
}

TEST(PlacementExchange, LeavesRulesOfPlacesAlone) {
  Wholes given = wholes(2, {{3, 0}, {2, 1}});
  EXPECT_TRUE(is_exchangeable(make_placement_items(given.problem)));
  given.problem.units[0].allowed_ranks = {0};
  EXPECT_FALSE(is_exchangeable(make_placement_items(given.problem)));
  given.problem.units[0].allowed_ranks = {};
  given.problem.apart = {{0, 1}};
  EXPECT_FALSE(is_exchangeable(make_placement_items(given.problem)));
}

}  // namespace
}  // namespace plimsoll::balance
