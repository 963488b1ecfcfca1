// What every bound of a problem with a known optimum is.
#pragma once

#include <gtest/gtest.h>

#include "balance/verify/verify_bound.h"
#include "plimsoll/balance/placement_bound.h"
#include "plimsoll/balance/placement_problem.h"

namespace plimsoll::balance::testing {

// At least `least`, at most the optimum, and proved again.
inline void expect_bound(const PlacementProblem& problem, const PlacementBound& bound, double least,
                         double optimum) {
  EXPECT_GE(bound.value, least * (1 - 1e-9));
  EXPECT_LE(bound.value, optimum * (1 + 1e-9));
  const BoundVerdict verdict = verify_bound(problem, bound);
  EXPECT_TRUE(verdict.holds) << verdict.fault;
  EXPECT_LE(verdict.value, optimum * (1 + 1e-9));
}

}  // namespace plimsoll::balance::testing
