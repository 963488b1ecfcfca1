// The frontier by mixed-integer programming, where names and order of return disagree.
//
// Problem. milp_search.h, for every budget.
// Method. A curve is drawn and then proved piece by piece. The units of a plan have a frontier of
// their own, whatever they discard, which the exact search finds at once; the curve is the least of
// those of all plans found so far. For one of its pieces, y - p (B - a) over the budgets from a to
// b, one program asks for the least of ms + p (B - a): is it y, then no plan is below the piece; is
// it less, then its units draw a better curve. The piece that could lose most comes first.
// Cost. A program a piece, and one more for every set of units that the curve learns; then
// `max_programs` ends the search, and what is proved of the rest is kept as the lower twin.
// Promises. Every point is achieved by a plan. The lower twin is proved within the solver's
// tolerances: that is, of times within 1e-6 of 1 + ms, of budgets within 2e-7 of the largest base;
// kOptimal where the two meet everywhere.
// Source: docs/mathematics/checkpointing.md#the-mixed-integer-program; the idea of proving an
// interval between two solutions by one program is the weighted sum's in bi-objective programming.
#pragma once

#include "math/milp.h"
#include "plimsoll/checkpoint/checkpoint_problem.h"
#include "plimsoll/core/outcome.h"
#include "plimsoll/core/result.h"
#include "plimsoll/core/run_context.h"
#include "plimsoll/math/frontier.h"

namespace plimsoll::checkpoint {

struct MilpFrontierOptions {
  int max_programs = 200;                    // >= 1
  std::int64_t max_nodes_of_program = 2000;  // >= 1
};

// kOptimal; kFeasible with the warning `frontier_unproved` where an option or the context ended the
// search, or where choices of operators were left out. The context is looked at between programs,
// which end with its deadline. Errors as plan_by_milp.
Result<Outcome<math::Frontier>> plan_frontier_by_milp(const CheckpointProblem& problem,
                                                      const MilpFrontierOptions& options = {},
                                                      const RunContext& context = {});

}  // namespace plimsoll::checkpoint
