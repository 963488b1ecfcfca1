// What the mixed-integer program is made from. Private to it.
#pragma once

#include "checkpoint/milp/unit_milp.h"
#include "plimsoll/core/result.h"

namespace plimsoll::checkpoint {

// Errors: kSchema, kConflict and kValue as solve_unit_milp has them.
Result<void> check_unit_milp_problem(const UnitMilpProblem& problem);

}  // namespace plimsoll::checkpoint
