// Between checkpoint_problem.h and unit_milp.h. Private to the searches by mixed-integer
// programming.
#pragma once

#include <vector>

#include "checkpoint/milp/unit_milp.h"
#include "plimsoll/checkpoint/checkpoint_problem.h"

namespace plimsoll::checkpoint {

// Error kConflict for runs of children and nested units, which the program does not know, and for
// saved copies where units are not runs of positions.
Result<void> check_single_units(const CheckpointProblem& problem);

// The end of the step is one more position, after all others.
UnitMilpProblem make_program(const CheckpointProblem& problem, Bytes budget, int in_flight = 1);

// The problem with no units but the plan's, each at its own position alone: none holds another, so
// that the exact searches take it in any order of return.
struct FixedUnits {
  CheckpointProblem problem;
  std::vector<int> original;  // [units] into the units of the whole problem
};
FixedUnits fix_units(const CheckpointProblem& problem, const UnitMilpPlan& plan);

// A solver's tolerance as bytes of this problem.
Bytes tolerance_of(const CheckpointProblem& problem);

Warning planned_by_milp(const CheckpointProblem& problem);

}  // namespace plimsoll::checkpoint
