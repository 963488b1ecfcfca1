// Our own search for sharding plans: the slowest rank, with a certificate, beside the reference's.
//
// Problem. A plan of least rating, step or time (BalanceObjective) over the options of all tables,
// under every rank's caps, with a lower bound.
// Method. The reference planner's plan is a start where its search fits `reference_effort`; the
// default options are searched first, then, if asked for, those of every width, from the best plan
// so far (solve::balance).
// Promises. Never worse, in the objective searched, than the reference's plan, unless that holds a
// hazard; the plan makes no hazard of the checker where the options allow that. Under
// `keeps_reference_rating` the plan's rating is at most the reference's: of the plans of least time
// and of least rating and the reference's own, the one of least time that holds this; the bound on
// the time is that of all plans. Deterministic (solve/balanced_placement.h).
// Source: notes on balanced sharding, section 7.
#pragma once

#include <cstdint>
#include <optional>

#include "plimsoll/embedding/placement_bridge.h"
#include "plimsoll/embedding/planner.h"

namespace plimsoll::embedding {

struct BalancedOptions {
  BridgeOptions bridge;
  bool keeps_reference_rating = false;  // with kTime
  int max_column_blocks = 0;            // >= 0; the wide space: EnumerationOptions
  bool uses_reference = true;           // as a start
  ReferenceOptions reference;
  std::int64_t stop_at = -1;  // effort at which to stop; < 0: nowhere
};

// Three ways to see one plan, ms.
struct PlanTimes {
  double rating = 0, step = 0, time = 0;
  bool operator==(const PlanTimes&) const = default;
};

struct BalancedResult {
  PlanningResult planning;  // `rating` is the reference's rating, the certificate's objective ours
  PlanTimes times;          // of the plan, NaN without one
  std::optional<PlanTimes> reference;  // of the reference's plan, where it found one
  std::int64_t effort = 0;             // spent
};

// The plan's rating, step and time. Precondition: a placed plan of these options.
PlanTimes plan_times(const BridgeInput& input, const StepModel& step_model,
                     const PlacedProposal& plan);

// Errors: those of plan_like_torchrec and make_placement_bridge.
Result<BalancedResult> plan_balanced(const PlanningProblem& problem, const BalancedOptions& options,
                                     const SearchOptions& search, const RunContext& context);

}  // namespace plimsoll::embedding
