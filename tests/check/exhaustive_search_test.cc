// The judge's own search to the end, against every placement of tiny problems.

#include "plimsoll/check/exhaustive_search.h"

#include <gtest/gtest.h>

#include "solve/random_placements.h"

namespace plimsoll::check {
namespace {

using solve::PlacementProblem;
using solve::Spread;
using solve::testing::Enumerator;
using solve::testing::InstanceKind;
using solve::testing::kind_of_seed;
using solve::testing::random_problem;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

PlacementProblem pieces(int num_ranks, const std::vector<double>& loads) {
  PlacementProblem problem;
  problem.num_ranks = num_ranks;
  problem.ranks_per_host = num_ranks;
  problem.caps.assign(static_cast<std::size_t>(num_ranks), {10, 0, 0});
  for (const double load : loads) {
    problem.units.push_back({"", {{Spread::kDevice, {{1, {load}, {1, 0, 0}}}, 1, {}}}, {}});
  }
  return problem;
}

ExhaustiveEnd end_at(const PlacementProblem& problem, double target) {
  return search_to_the_end(problem, target, 100000).end;
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

TEST(ExhaustiveSearch, SaysWhenStatesRunOut) {
  EXPECT_EQ(search_to_the_end(pieces(2, {3, 3, 3, 3, 3}), 8.9, 3).end, ExhaustiveEnd::kLimit);
}

TEST(ExhaustiveSearch, KnowsItsScope) {
  PlacementProblem problem = pieces(2, {1});
  problem.charges = {1};
  EXPECT_EQ(end_at(problem, 9), ExhaustiveEnd::kOutsideScope);
  problem = pieces(2, std::vector<double>(65, 1));
  EXPECT_EQ(end_at(problem, 9), ExhaustiveEnd::kOutsideScope);
}

// No optimum is ever refuted; just below it, all are, but for what the search leaves aside.
TEST(ExhaustiveSearch, RefutesWhatEnumerationRefutes) {
  int num_refuted = 0, num_left_aside = 0;
  for (std::uint64_t seed = 0; seed < 600; ++seed) {
    SCOPED_TRACE(seed);
    InstanceKind kind = kind_of_seed(seed);
    kind.barriers = kind.charges = kind.classes = false;
    const PlacementProblem problem = random_problem(seed, kind);
    const double optimum = Enumerator(problem).find();
    if (optimum == kInfinity) continue;
    EXPECT_EQ(end_at(problem, optimum * (1 + 1e-9)), ExhaustiveEnd::kFound);
    const bool is_refuted = end_at(problem, optimum * (1 - 1e-6)) == ExhaustiveEnd::kRefuted;
    num_refuted += is_refuted ? 1 : 0;
    if (kind.allowed || kind.apart || kind.pools || kind.uneven_pieces) {
      num_left_aside += is_refuted ? 0 : 1;
    } else {
      EXPECT_TRUE(is_refuted);
    }
  }
  EXPECT_GT(num_refuted, 300);
  EXPECT_GT(num_left_aside, 0);
}

}  // namespace
}  // namespace plimsoll::check
