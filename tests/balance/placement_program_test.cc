// Our search beside a mixed-integer program of the same problem, which shares nothing with it.
#include "balance/placement_program.h"

#include <gtest/gtest.h>

#include "balance/balanced_placement.h"
#include "balance/problem/placement_judge.h"
#include "balance/random_placements.h"

namespace plimsoll::balance {
namespace {

using testing::Enumerator;
using testing::InstanceKind;
using testing::kind_of_seed;
using testing::PlacementProgram;
using testing::random_problem;

math::MilpOutcome solve_program(const PlacementProblem& problem) {
  math::MilpOptions options;
  options.max_nodes = 3000;
  const PlacementProgram program(problem);
  auto outcome = math::solve_milp(program.program(), options);
  EXPECT_TRUE(outcome.has_value());
  return outcome ? *outcome : math::MilpOutcome{};
}

// The oracle itself: enumeration and Cbc agree.
TEST(PlacementProgram, AgreesWithEnumeration) {
  int num_feasible = 0, num_infeasible = 0;
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    SCOPED_TRACE(seed);
    const PlacementProblem problem = random_problem(seed, kind_of_seed(seed));
    const double optimum = Enumerator(problem).find();
    const math::MilpOutcome outcome = solve_program(problem);
    if (optimum == kInfinity) {
      EXPECT_EQ(outcome.status, SolveStatus::kInfeasible);
      ++num_infeasible;
      continue;
    }
    ASSERT_EQ(outcome.status, SolveStatus::kOptimal);
    EXPECT_NEAR((outcome.objective + problem.floor_ms) / optimum, 1, 1e-6);
    ++num_feasible;
  }
  EXPECT_GT(num_feasible, 70);
  EXPECT_GT(num_infeasible, 3);
}

// Twice the units of one kind of ranks: beyond plain enumeration.
PlacementProblem doubled(std::uint64_t seed, const InstanceKind& kind) {
  PlacementProblem problem = random_problem(seed, kind);
  for (std::uint64_t other = seed + 1; other < seed + 100; ++other) {
    const PlacementProblem more = random_problem(other, kind);
    if (more.num_ranks != problem.num_ranks || more.ranks_per_host != problem.ranks_per_host) {
      continue;
    }
    problem.units.insert(problem.units.end(), more.units.begin(), more.units.end());
    for (std::size_t rank = 0; rank < problem.caps.size(); ++rank) {
      problem.caps[rank].add(more.caps[rank], 1);
    }
    break;
  }
  return problem;
}

TEST(PlacementProgram, AgreesWithTheSearch) {
  int num_finished = 0, num_optimal = 0, num_plain = 0, num_best = 0;
  for (std::uint64_t seed = 0; seed < 24; ++seed) {
    SCOPED_TRACE(seed);
    InstanceKind kind = kind_of_seed(seed);
    kind.classes = false;  // the two halves would mean other ranks
    const PlacementProblem problem = doubled(seed, kind);
    ASSERT_TRUE(validate(problem).has_value());
    const math::MilpOutcome outcome = solve_program(problem);
    SearchOptions search;
    search.effort = 100000;
    const BalanceOutcome found = balance(problem, {}, search, {});
    const Certificate& certificate = found.outcome.certificate;
    if (outcome.status == SolveStatus::kInfeasible) {
      EXPECT_FALSE(found.outcome.plan);
      continue;
    }
    if (outcome.status != SolveStatus::kOptimal) continue;
    ++num_finished;
    const double optimum = outcome.objective + problem.floor_ms;
    EXPECT_NE(found.outcome.status, SolveStatus::kInfeasible);
    if (certificate.lower_bound) {
      EXPECT_LE(*certificate.lower_bound, optimum * (1 + 1e-6));
    }
    if (!found.outcome.plan) continue;
    EXPECT_GE(certificate.objective, optimum * (1 - 1e-6));
    if (!kind.uneven_pieces) {
      ++num_plain;
      num_best += certificate.objective <= optimum * (1 + 1e-6);
    }
    if (found.outcome.status != SolveStatus::kOptimal) continue;
    ++num_optimal;
    EXPECT_LE(certificate.objective, optimum * (1 + 3e-6));
  }
  EXPECT_GT(num_finished, 15);
  EXPECT_GT(num_optimal, 6);
  EXPECT_GE(num_best, num_plain * 75 / 100) << num_best << " of " << num_plain;
}

}  // namespace
}  // namespace plimsoll::balance
