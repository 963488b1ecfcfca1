// Three ways to see one plan, in milliseconds.
#pragma once

#include "plimsoll/embedding/placement_bridge.h"
#include "plimsoll/embedding/proposer.h"

#pragma GCC visibility push(default)
namespace plimsoll::embedding {

struct PlanTimes {
  double rating = 0;  // the slowest rank's total, as the reference rates plans
  double step = 0;    // a wait after every component
  double time = 0;    // by the step model
  bool operator==(const PlanTimes&) const = default;
};

// Precondition: a placed plan of these options.
PlanTimes plan_times(const BridgeInput& input, const StepModel& step_model,
                     const PlacedProposal& plan);
double value_of(const PlanTimes& times, BalanceObjective objective);

}  // namespace plimsoll::embedding
#pragma GCC visibility pop
