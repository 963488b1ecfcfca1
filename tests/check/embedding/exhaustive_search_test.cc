// The judge's own search to the end, against every placement of tiny problems.

#include "check/embedding/exhaustive_search.h"

#include <gtest/gtest.h>

#include "balance/random_placements.h"

namespace plimsoll::check {
namespace {

using balance::PlacementProblem;
using balance::Spread;
using balance::testing::Enumerator;
using balance::testing::InstanceKind;
using balance::testing::kind_of_seed;
using balance::testing::random_problem;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

PlacementProblem pieces(int num_ranks, const std::vector<double>& loads) {
  PlacementProblem problem;
  problem.num_ranks = num_ranks;
  problem.ranks_per_host = num_ranks;
  problem.resources = balance::testing::three_memories();
  problem.caps.assign(static_cast<std::size_t>(num_ranks), {10, 0, 0});
  for (const double load : loads) {
    problem.units.push_back({"", {{Spread::kDevice, {{1, {load}, {1, 0, 0}}}, 1, {}}}, {}});
  }
  return problem;
}

ExhaustiveEnd end_at(const PlacementProblem& problem, double target) {
  return search_to_the_end(problem, target).end;
}

//   rank 0  |333|333|
//   rank 1  |22|22|22|
TEST(ExhaustiveSearch, TellsTheBestFromWhatIsBelow) {
  const PlacementProblem problem = pieces(2, {3, 3, 2, 2, 2});
  EXPECT_EQ(end_at(problem, 6), ExhaustiveEnd::kFound);
  EXPECT_EQ(end_at(problem, 5.999), ExhaustiveEnd::kRefuted);
  EXPECT_EQ(end_at(pieces(2, {3, 3, 3, 3, 3}), 8.9), ExhaustiveEnd::kRefuted);  // not by the sum
}

TEST(ExhaustiveSearch, CountsBytesWhereLoadsDoNotDecide) {
  PlacementProblem problem = pieces(2, {3, 3, 2, 2, 2});
  for (auto& caps : problem.caps) caps[0] = 2;  // of 3 + 2 pieces
  EXPECT_EQ(end_at(problem, 100), ExhaustiveEnd::kRefuted);
}

//   rank 0  |aaaaa|bbbbbbbbbb|        together  |aaaaa|aaaaa|
//   rank 1  |aaaaa|                             |bbbbbbbbbb|
TEST(ExhaustiveSearch, KeepsPiecesOnDistinctRanks) {
  PlacementProblem problem = pieces(2, {5, 10});
  problem.units[0].choices[0].runs[0].count = 2;
  EXPECT_EQ(end_at(problem, 10), ExhaustiveEnd::kFound);
  problem.units[0].choices[0].distinct_ranks = true;
  EXPECT_EQ(end_at(problem, 14.9), ExhaustiveEnd::kRefuted);
  EXPECT_EQ(end_at(problem, 15), ExhaustiveEnd::kFound);
  problem.units[0].choices[0].runs[0].count = 3;
  EXPECT_EQ(end_at(problem, 100), ExhaustiveEnd::kRefuted);
}

TEST(ExhaustiveSearch, SaysWhenStatesRunOut) {
  EXPECT_EQ(search_to_the_end(pieces(2, {3, 3, 3, 3, 3}), 8.9, {3}).end, ExhaustiveEnd::kLimit);
}

// Of many ranks a state costs more, and most that are made are never looked at.
TEST(ExhaustiveSearch, GivesUpByTheRanksOfAllStatesItMakes) {
  std::vector<double> loads;
  for (int i = 0; i < 40; ++i) loads.push_back(100 + i * 7 % 31);
  const PlacementProblem problem = pieces(16, loads);
  for (const std::int64_t max_ranks_seen : {1000, 100000}) {
    const ExhaustiveResult found = search_to_the_end(problem, 290, {1 << 20, max_ranks_seen});
    EXPECT_EQ(found.end, ExhaustiveEnd::kLimit);
    EXPECT_LE(found.num_nodes, 2 * max_ranks_seen / 16 + 2);  // two attempts
  }
}

TEST(ExhaustiveSearch, KnowsItsScope) {
  EXPECT_EQ(end_at(pieces(2, std::vector<double>(65, 1)), 100), ExhaustiveEnd::kOutsideScope);
  PlacementProblem problem = pieces(2, {1});
  problem.charges.assign(65, 0);
  EXPECT_EQ(end_at(problem, 9), ExhaustiveEnd::kOutsideScope);
  problem = pieces(2, {1});
  EXPECT_EQ(end_at(problem, problem.floor_ms), ExhaustiveEnd::kOutsideScope);
}

// At every optimum it finds an allowed placement, just below it refutes all: barriers, classes of
// ranks, charges, pools, rules and uneven pieces included.
TEST(ExhaustiveSearch, AnswersAsEnumerationDoes) {
  int num_of_rules = 0;
  for (std::uint64_t seed = 0; seed < 1500; ++seed) {
    SCOPED_TRACE(seed);
    const InstanceKind kind = kind_of_seed(seed);
    const PlacementProblem problem = random_problem(seed, kind);
    Enumerator enumerator(problem);
    const double optimum = enumerator.find();
    if (optimum == kInfinity) {
      EXPECT_EQ(end_at(problem, 1e6), ExhaustiveEnd::kRefuted);
      continue;
    }
    const ExhaustiveResult found = search_to_the_end(problem, optimum * (1 + 1e-9));
    ASSERT_EQ(found.end, ExhaustiveEnd::kFound);
    const balance::PlacementValue value = balance::evaluate(problem, found.placements);
    EXPECT_TRUE(value.is_allowed());
    EXPECT_LE(value.objective, optimum * (1 + 1e-9));
    EXPECT_EQ(end_at(problem, optimum * (1 - 1e-6)), ExhaustiveEnd::kRefuted);
    const bool has_rules = kind.barriers || kind.charges || kind.classes || kind.allowed ||
                           kind.apart || kind.pools || kind.uneven_pieces;
    num_of_rules += has_rules ? 1 : 0;
  }
  EXPECT_GT(num_of_rules, 500);
}

// Prices shorten the search, whatever they are, and never change what is said.
TEST(ExhaustiveSearch, AnswersTheSameWithPrices) {
  std::int64_t num_nodes = 0, num_priced = 0;
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(seed);
    InstanceKind kind = kind_of_seed(seed);
    kind.tight_memory = true;
    const PlacementProblem problem = random_problem(seed, kind);
    const double optimum = Enumerator(problem).find();
    const double top = optimum == kInfinity ? 1e3 : optimum;
    ExhaustiveScope scope;
    for (const double factor : {.9, 1 - 1e-6, 1 + 1e-9}) {
      if (!(top * factor > problem.floor_ms)) continue;
      const auto expected =
          optimum <= top * factor ? ExhaustiveEnd::kFound : ExhaustiveEnd::kRefuted;
      num_nodes += search_to_the_end(problem, top * factor).num_nodes;
      for (const double share : {.05, .5, 5.0}) {
        scope.byte_price[0] = share * top / static_cast<double>(problem.caps[0][0] + 1);
        const ExhaustiveResult found = search_to_the_end(problem, top * factor, {}, scope);
        EXPECT_EQ(found.end, expected);
        num_priced += found.num_nodes;
      }
    }
  }
  EXPECT_LT(num_priced, 3 * num_nodes);
}

// Of placements that name no forbidden cause, with the charges that count in any case.
TEST(ExhaustiveSearch, SearchesAPartOfThePlacements) {
  PlacementProblem problem = pieces(2, {4, 1});
  problem.charges = {2, 3};
  problem.units[0].choices.push_back(problem.units[0].choices[0]);
  problem.units[0].choices[0].causes = {0};
  problem.units[0].choices[1].runs[0].load = {5};
  const auto end = [&problem](double target, std::uint64_t forbidden, std::uint64_t paid) {
    return search_to_the_end(problem, target, {}, {forbidden, paid, {}}).end;
  };
  EXPECT_EQ(end(5, 0, 0), ExhaustiveEnd::kFound);  // the second choice
  EXPECT_EQ(end(4.9, 0, 0), ExhaustiveEnd::kRefuted);
  EXPECT_EQ(end(5.9, 0, 1), ExhaustiveEnd::kRefuted);  // 4 and the charge of 2
  EXPECT_EQ(end(6, 0, 1), ExhaustiveEnd::kFound);
  EXPECT_EQ(end(6.9, 1, 1), ExhaustiveEnd::kRefuted);  // only the second one
  EXPECT_EQ(end(7.9, 1, 2), ExhaustiveEnd::kRefuted);
  problem.units[0].choices.pop_back();
  EXPECT_EQ(end(100, 1, 0), ExhaustiveEnd::kRefuted);
}

TEST(ExhaustiveSearch, KnowsCausesThatExcludeEachOther) {
  PlacementProblem problem = pieces(2, {1, 1});
  problem.charges = {0, 0};
  for (int u = 0; u < 2; ++u) {
    problem.units[static_cast<std::size_t>(u)].choices[0].causes = {u};
  }
  EXPECT_EQ(end_at(problem, 9), ExhaustiveEnd::kFound);
  problem.exclusive = {{0, 1}};
  EXPECT_EQ(end_at(problem, 9), ExhaustiveEnd::kRefuted);
}

}  // namespace
}  // namespace plimsoll::check
