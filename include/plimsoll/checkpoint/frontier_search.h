// Our own search for activation checkpointing: the exact budget-to-time frontier, whole, and the
// optimal plan for one budget.
//
// Problem. checkpoint_problem.h: choose units that do not overlap, and what each discards, at the
// least recompute time within a budget of memory. Weakly NP-hard.
// Method. Let s be the budget plus all that is discarded so far, and V_p(s) the least time that
// finishes from position p on. The past matters only through s, so V follows backwards:
//   V_p = min( V_{p+1} where s >= base at p;
//              for each unit u = [p, q]: min over d of price_u(d) + V_{q+1}(s + d), s >= threshold
//              )
// and V_0 is the frontier. The tree is gone: units of a tree that do not overlap are exactly the
// paths along positions. Functions are piecewise linear (plimsoll/math/piecewise_linear.h). For one
// budget, a convex sweep backwards gives a lower bound, a convex sweep forwards the least price of
// reaching each slack, and the exact sweep drops what the two prove to cost more than a guessed
// ceiling; a guess that fails is raised. Cost. O(n q K) for n units of q price pieces and K pieces
// of V; K is a few times n on unlike layers. Memory O(K) for the frontier times the depth of
// nesting. Promises. Exact at every whole byte, within 1e-8 relative. A plan's peak never exceeds
// the budget and is replayed. Ties: no unit before a unit, an inner unit before an outer, the
// largest discard of equal price; so the earliest modules discard most. The same plan on every
// rank. Departures. Segments of children are recomputed whole; a nested unit needs its outer one to
// discard everything. Modules whose names and order of return disagree are refused.
// Sources: docs/mathematics/checkpointing.md#the-exact-dynamic-program,
// docs/mathematics/checkpointing.md#one-budget,
// docs/mathematics/checkpointing.md#runs-and-nested-units.
#pragma once

#include <cstdint>
#include <limits>

#include "plimsoll/checkpoint/checkpoint_problem.h"
#include "plimsoll/core/outcome.h"
#include "plimsoll/core/result.h"
#include "plimsoll/core/run_context.h"
#include "plimsoll/math/frontier.h"

#pragma GCC visibility push(default)
namespace plimsoll::checkpoint {

// Rules that save work and change no answer; each can be turned off.
struct FrontierOptions {
  bool prune_by_bounds = true;     // one budget: the two convex sweeps
  bool truncate_below = true;      // no slack is below the smallest feasible budget
  bool drop_useless_units = true;  // what fits before the unit would fit ever after
  bool linear_convolution = true;  // off: the minimum over shifted copies
  // A function of more pieces is an error. > 0
  std::size_t max_segments = 1'000'000;
  // An exact sweep that makes more pieces than this gives way to one with functions of few pieces,
  // whose answer has a bound of its own; for one budget, and for all. > 0
  std::int64_t max_made = 100'000'000;
  std::int64_t max_frontier_made = 24'000'000;
  // A frontier of more points is replaced by one of about so many, and a bound. >= 2
  std::size_t max_points = std::numeric_limits<std::size_t>::max();
};

// Effort, equal on every machine.
struct SearchWork {
  std::int64_t segments = 0;   // pieces made by all minima between units
  std::int64_t convolved = 0;  // pieces made within convolutions
  std::size_t largest = 0;     // pieces of the largest function
  int passes = 0;              // exact sweeps
};

struct CheckpointPlan {
  CheckpointPolicy policy;
  // Empty where choices of operators were left out of the problem: the plan may take those, too.
  std::vector<UnitDecision> decisions;
  PlanFigures figures;  // replayed
  // What the next GiB buys at first, >= 0; where prices are steps, by the convex bound.
  double price_ms_per_gib = 0;
};

// The smallest budget that any plan fits, and the module that binds there ("" at the end point).
struct SmallestBudget {
  Bytes bytes = 0;
  std::string binding;
};

// Errors of all searches here: kConflict where names and order of return disagree (the MILP takes
// such models), kOverflow beyond max_segments.

// kOptimal with the frontier, whose costs are recompute ms; kFeasible, with a lower twin, where
// choices of operators were left out (CheckpointProblem::thinned), where the effort ended, and of
// more than max_points. The certificate is then of the budget where the curves are farthest apart.
// kLimit when the context stopped it.
Result<Outcome<math::Frontier>> plan_frontier(const CheckpointProblem& problem,
                                              const FrontierOptions& options = {},
                                              const RunContext& context = {},
                                              SearchWork* work = nullptr);

// A convex curve below the frontier, in a fraction of its time.
Result<math::PiecewiseLinear> bound_frontier(const CheckpointProblem& problem);

// kOptimal where no plan is faster, of choices left out as well; else kFeasible with a bound, after
// the effort that near_choices.h may take. kInfeasible with the smallest feasible budget in the
// explanation; kLimit.
Result<Outcome<CheckpointPlan>> plan_for_budget(const CheckpointProblem& problem, Bytes budget,
                                                const FrontierOptions& options = {},
                                                const RunContext& context = {},
                                                SearchWork* work = nullptr);

// The least memory whose recompute time is at most `ms`; kInfeasible only for a negative time.
Result<Outcome<CheckpointPlan>> plan_for_time(const CheckpointProblem& problem,
                                              const math::Frontier& frontier, double ms,
                                              const FrontierOptions& options = {},
                                              const RunContext& context = {});

// The plan at the frontier's knee; where it has none, at its smallest budget.
Result<Outcome<CheckpointPlan>> plan_at_knee(const CheckpointProblem& problem,
                                             const math::Frontier& frontier,
                                             const FrontierOptions& options = {},
                                             const RunContext& context = {});

Result<SmallestBudget> smallest_budget(const CheckpointProblem& problem);

// What an infeasible budget lacks, and where.
Explanation explain_infeasible(const SmallestBudget& smallest, Bytes budget);

}  // namespace plimsoll::checkpoint
#pragma GCC visibility pop
