// The same plans as frontier_search.h's by mixed-integer programming: for models whose names and
// order of return disagree, and for comparison.
//
// Problem. checkpoint_problem.h, but for runs of children, nested units and what a unit needs
// beside the bases that it covers.
// Method. unit_milp.h; then discards are rounded up to whole bytes, and what the solver's
// tolerances left above the budget is taken where it is cheapest.
// An infeasible budget is answered by a second program, which minimises the peak: whole units, so
// that the peak of what it chooses is exact.
// Promises. A plan whose peak is at most the budget, within the solver's tolerances of the optimum.
// Units may be any modules that do not contain one another, in any order of return. The smallest
// budget has a plan; that no smaller one has, by more than the solver's tolerances, is proved.
// Source: specification of the checkpointing planner, sections 9.2 and 9.6.
#pragma once

#include "plimsoll/checkpoint/checkpoint_problem.h"
#include "plimsoll/checkpoint/frontier_search.h"
#include "plimsoll/core/outcome.h"
#include "plimsoll/core/result.h"
#include "plimsoll/solve/milp.h"

namespace plimsoll::checkpoint {

// Errors: kConflict for a problem with runs, nested units, or units with needs of their own.
// kInfeasible with the smallest feasible budget in the explanation; kLimit where an option cut the
// search. Of `options` each of the two programs gets all.
Result<Outcome<CheckpointPlan>> plan_by_milp(const CheckpointProblem& problem, Bytes budget,
                                             const solve::MilpOptions& options = {});

// The smallest budget that any plan fits, and the module that binds there: kOptimal, or kFeasible
// or kLimit where an option cut the search. Errors likewise.
Result<Outcome<SmallestBudget>> smallest_budget_by_milp(const CheckpointProblem& problem,
                                                        const solve::MilpOptions& options = {});

}  // namespace plimsoll::checkpoint
