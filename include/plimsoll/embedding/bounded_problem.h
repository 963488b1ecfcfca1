// The problem that a balanced plan and its bound are of, made from the inputs alone, for the search
// and for those who check the bound: reserved, enumerated and bridged.
#pragma once

#include "plimsoll/core/result.h"
#include "plimsoll/embedding/placement_bridge.h"
#include "plimsoll/embedding/planning_problem.h"
#include "plimsoll/embedding/reservation.h"

#pragma GCC visibility push(default)
namespace plimsoll::embedding {

// What decides which plans there are, and which of them is best.
struct BoundedOptions {
  BridgeOptions bridge{.objective = BalanceObjective::kTime};
  bool keeps_reference_rating = true;  // with kTime
  bool uses_reference = true;          // as a start
  int max_column_blocks = 0;           // >= 0; the wide space: EnumerationOptions
};

struct BoundedProblem {
  Enumeration enumeration;  // with every width where `max_column_blocks` is above 0
  Reservation reservation;
  PlacementBridge bridge;
};

// Errors: those of validate, reserve, enumerate and make_bounded_bridge; where the reservation
// leaves a rank nothing, kPlanner.
Result<BoundedProblem> prepare_bounded_problem(const PlanningProblem& problem,
                                               const BoundedOptions& options);
Result<PlacementBridge> make_bounded_problem(const PlanningProblem& problem,
                                             const BoundedOptions& options);

}  // namespace plimsoll::embedding
#pragma GCC visibility pop
