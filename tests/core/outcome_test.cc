#include "plimsoll/core/outcome.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace plimsoll {
namespace {

Certificate make_certificate(double objective, std::optional<double> lower_bound) {
  Certificate certificate;
  certificate.objective = objective;
  certificate.lower_bound = lower_bound;
  return certificate;
}

TEST(SolveStatus, TravelsByName) {
  EXPECT_EQ(to_string(SolveStatus::kOptimal), "optimal");
  EXPECT_EQ(to_string(SolveStatus::kFeasible), "feasible");
  EXPECT_EQ(to_string(SolveStatus::kInfeasible), "infeasible");
  EXPECT_EQ(to_string(SolveStatus::kLimit), "limit");
}

TEST(StopReason, TravelsByName) {
  EXPECT_EQ(to_string(StopReason::kFinished), "finished");
  EXPECT_EQ(to_string(StopReason::kEffort), "effort");
  EXPECT_EQ(to_string(StopReason::kDeadline), "deadline");
  EXPECT_EQ(to_string(StopReason::kCancelled), "cancelled");
}

TEST(Certificate, MeasuresTheGapRelativeToTheBound) {
  EXPECT_EQ(make_certificate(3, 2).gap(), 0.5);
  EXPECT_EQ(make_certificate(2, 2).gap(), 0.0);
}

TEST(Certificate, HasNoGapWithoutABound) {
  EXPECT_EQ(make_certificate(3, std::nullopt).gap(), std::nullopt);
}

TEST(Certificate, HasNoGapWithoutAPlan) {
  EXPECT_EQ(make_certificate(std::numeric_limits<double>::quiet_NaN(), 2).gap(), std::nullopt);
}

TEST(Certificate, HasGapZeroWhereObjectiveAndBoundAreZero) {
  EXPECT_EQ(make_certificate(0, 0).gap(), 0.0);
}

TEST(Certificate, HasAnInfiniteGapAboveABoundOfZero) {
  EXPECT_EQ(make_certificate(1, 0).gap(), std::numeric_limits<double>::infinity());
}

TEST(Outcome, ClaimsNothingByDefault) {
  const Outcome<int> outcome;
  EXPECT_EQ(outcome.status, SolveStatus::kLimit);
  EXPECT_FALSE(outcome.plan.has_value());
  EXPECT_FALSE(outcome.certificate.lower_bound.has_value());
  EXPECT_EQ(outcome.stop, StopReason::kFinished);
}

}  // namespace
}  // namespace plimsoll
