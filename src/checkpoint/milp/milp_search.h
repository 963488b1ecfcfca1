// The same plans as frontier_search.h's by mixed-integer programming: for models whose names and
// order of return disagree, and for comparison.
//
// Problem. checkpoint_problem.h, except for runs of children and nested units, and for saved copies
// where units are not runs of positions; of a pipeline stage that of stage_search.h.
// Method. unit_milp.h chooses the modules that are units. What each of them discards is then
// decided to the byte by the exact searches, over a problem in which a unit is a position of its
// own, so that any order of return will do.
// A budget that is infeasible, or feasible except for the solver's tolerances, is answered by a
// second program, which minimises the peak. Promises. A plan whose peak is at most the budget,
// kOptimal where the program's bound is within 1e-6 of its time. Where bytes are few the program
// counts whole ones; elsewhere fractions of a byte may leave a gap. Units may be any modules that
// do not contain one another, in any order of return. The smallest budget has a plan; that no
// smaller one has, by more than the solver's tolerances, is proved. Sources:
// docs/mathematics/checkpointing.md#the-mixed-integer-program,
// docs/mathematics/checkpointing.md#several-microbatches.
#pragma once

#include "checkpoint/frontier/stage_search.h"
#include "math/milp.h"
#include "plimsoll/checkpoint/checkpoint_problem.h"
#include "plimsoll/checkpoint/frontier_search.h"
#include "plimsoll/core/outcome.h"
#include "plimsoll/core/result.h"

namespace plimsoll::checkpoint {

// Errors: kConflict for what it does not know. kInfeasible with the smallest feasible
// budget in the explanation; kLimit where an option cut the search. Of `options` each of the two
// programs gets all, except for its context, which ends both. The price of memory is that of the
// chosen units; others may offer more.
Result<Outcome<CheckpointPlan>> plan_by_milp(const CheckpointProblem& problem, Bytes budget,
                                             const math::MilpOptions& options = {});

// With `in_flight` microbatches. Errors as above, and those of plan_pipeline_stage.
Result<Outcome<StagePlan>> plan_stage_by_milp(const CheckpointProblem& problem, Bytes budget,
                                              int in_flight, const math::MilpOptions& options = {});

// The plan with the least memory whose recompute time is at most `ms`, and of those the fastest;
// kInfeasible only for a negative time. The certificate is of its time; where the memory was not
// proved least, the warning `more_memory` says what was.
Result<Outcome<CheckpointPlan>> plan_for_time_by_milp(const CheckpointProblem& problem, double ms,
                                                      const math::MilpOptions& options = {});

// The smallest budget that any plan fits, and the module that binds there: kOptimal, or kFeasible
// or kLimit where an option cut the search. Errors as above.
Result<Outcome<SmallestBudget>> smallest_budget_by_milp(const CheckpointProblem& problem,
                                                        const math::MilpOptions& options = {});

}  // namespace plimsoll::checkpoint
