// What a search returns, held against the checker and against trying everything.
#pragma once

#include <gtest/gtest.h>

#include <cmath>

#include "plimsoll/check/placement_check.h"
#include "plimsoll/core/outcome.h"
#include "plimsoll/partition/cost_graph.h"

namespace plimsoll::partition {

// There is a plan where the status says so, and its bound does not exceed its objective.
template <class Plan>
void expect_consistent(const Outcome<Plan>& outcome) {
  const bool has_plan =
      outcome.status == SolveStatus::kOptimal || outcome.status == SolveStatus::kFeasible;
  EXPECT_EQ(outcome.plan.has_value(), has_plan);
  if (outcome.plan) {
    EXPECT_LE(outcome.certificate.lower_bound.value(), outcome.certificate.objective);
  }
}

// The same, and the checker accepts the plan with the objective that it states.
inline void expect_right(const CostGraph& graph, const Outcome<DeviceAssignment>& outcome,
                         bool is_contiguous) {
  expect_consistent(outcome);
  if (!outcome.plan) return;
  check::PlacementCheckOptions options;
  options.requires_contiguity = is_contiguous;
  options.stated_max_load = outcome.certificate.objective;
  const auto report = check::check_placement(graph, *outcome.plan, options);
  ASSERT_TRUE(report.has_value());
  for (const auto& violation : report->violations()) {
    ADD_FAILURE() << to_string(violation.code) << ": " << violation.message;
  }
}

// The optimum of a search that ran to its end; infinite where it proved that there is no plan.
template <class Plan>
double proved_optimum(const Outcome<Plan>& outcome) {
  if (outcome.status == SolveStatus::kInfeasible) return kUnlimited;
  EXPECT_EQ(outcome.status, SolveStatus::kOptimal);
  return outcome.certificate.objective;
}

// Equal but for the rounding of sums; both may be infinite.
inline void expect_near(double value, double expected, double tolerance = 1e-9) {
  if (std::isinf(expected)) {
    EXPECT_EQ(value, expected);
  } else {
    EXPECT_NEAR(value, expected, tolerance * (1 + expected));
  }
}

}  // namespace plimsoll::partition
