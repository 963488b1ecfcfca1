// Bounds and plans on 10,000 tiny problems against enumeration.
#include <gtest/gtest.h>

#include "balance/balanced_placement.h"
#include "balance/bounds/bound_placement.h"
#include "balance/problem/placement_judge.h"
#include "balance/random_placements.h"
#include "balance/verify/verify_bound.h"

namespace plimsoll::balance {
namespace {

using testing::Enumerator;
using testing::InstanceKind;
using testing::kind_of_seed;
using testing::random_problem;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Seeds below this are those of the tests that always run.
constexpr std::uint64_t kFirstSeed = 1000;
constexpr std::uint64_t kEndSeed = kFirstSeed + 10000;

TEST(PlacementLong, PlansAndBoundsAgreeWithEnumeration) {
  int num_feasible = 0, num_best = 0, num_plain = 0, num_plain_best = 0;
  double gaps = 0;
  for (std::uint64_t seed = kFirstSeed; seed < kEndSeed; ++seed) {
    SCOPED_TRACE(seed);
    const InstanceKind kind = kind_of_seed(seed);
    PlacementProblem problem = random_problem(seed, kind);
    // A cap on times, as the rating's is.
    problem.resources[0].is_time = seed % 4 == 1 && !problem.resources[0].is_pooled;
    const double optimum = Enumerator(problem).find();
    BoundOptions options;
    options.coarse_cells = 300;
    options.cells = 1000;
    options.window_tolerance = 1e-3;
    const PlacementBound bound = bound_placement(problem, options, {});
    ASSERT_LE(bound.value, optimum * (1 + 1e-9));
    const BoundVerdict verdict = verify_bound(problem, bound);
    ASSERT_TRUE(verdict.holds) << verdict.fault;
    ASSERT_LE(verdict.value, optimum * (1 + 1e-9));

    SearchOptions search;
    search.effort = 3000;
    const BalanceOutcome found = balance(problem, {}, search, {});
    const Certificate& certificate = found.outcome.certificate;
    if (certificate.lower_bound) {
      ASSERT_LE(*certificate.lower_bound, optimum * (1 + 1e-9));
    }
    ASSERT_TRUE(verify_bound(problem, found.bound).holds);
    if (found.outcome.status == SolveStatus::kInfeasible) {
      ASSERT_EQ(optimum, kInfinity);
    }
    if (optimum == kInfinity) {
      ASSERT_FALSE(found.outcome.plan);
      continue;
    }
    ++num_feasible;
    gaps += optimum / bound.value - 1;
    const bool is_plain = !kind.uneven_pieces && !kind.apart && !kind.allowed;
    num_plain += is_plain;
    if (!found.outcome.plan) continue;
    const PlacementValue value = evaluate(problem, *found.outcome.plan);
    ASSERT_TRUE(value.is_allowed());
    ASSERT_EQ(value.objective, certificate.objective);
    ASSERT_GE(value.objective, optimum * (1 - 1e-9));
    const bool is_best = value.objective <= optimum * (1 + 1e-6);
    num_best += is_best;
    num_plain_best += is_plain && is_best;
  }
  ::testing::Test::RecordProperty("feasible", num_feasible);
  EXPECT_GT(num_feasible, 5000);
  EXPECT_LT(gaps / num_feasible, 0.05);
  EXPECT_GE(num_best, num_feasible * 80 / 100) << num_best << " of " << num_feasible;
  EXPECT_GE(num_plain_best, num_plain * 90 / 100) << num_plain_best << " of " << num_plain;
}

}  // namespace
}  // namespace plimsoll::balance
