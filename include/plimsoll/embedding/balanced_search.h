// Our own search for sharding plans: the slowest rank, with a certificate, beside the reference's.
//
// Problem. A plan of least rating, step or time (BalanceObjective) over the options of all tables,
// under every rank's caps, with a lower bound.
// Method. The reference planner's plan is a start where its search fits `reference_effort`, and so
// is, for step and time, a plan of small rating; the default options are searched first, then, if
// asked for, those of every width, from the best plan so far (balance::balance). The prices that
// prove the bound stand in the certificate, so that it can be checked without the search
// (balance::verify_bound). Promises. Never worse, in the objective searched, than the reference's
// plan, unless that has more hazards, breaks a rule or does not fit; a plan that is worse than it
// in rating, step and time comes with the reason (`worse_than_reference`). First the number of the
// checker's hazards is least, then the objective. A plan of the least number that tables and
// collections allow (embedding/problem/option_hazards.h) has a bound of all plans of that number;
// it is above zero where a warning names tables and hazards (`hazard_unavoidable`). Where no such
// plan fits or is found, the search begins again with all options and reduces hazards as far as
// plans are found; the bound is of all plans then, and `optimal` asks for a proof of the number,
// too. Deterministic (balance/balanced_placement.h). Under `keeps_reference_rating` the reference's
// rating caps the plan's (BridgeOptions::rating_cap): plan and bound are those of the plans that
// keep it. Where every tier is in use already, so that none can stand for the cap, it is kept by
// choice: of the plan of least time, of that of least rating and of the reference's own, the one of
// least time that keeps it, and the bound is that of all plans. Where the reference's search was
// cut, or no plan of as few hazards is found that keeps its rating, the condition is dropped, and a
// warning says so (`rating_cap_dropped`: the plan rates above it). Tables whose columns have an
// optimizer state each are named by a warning (`optimizer_state_per_block`); under
// BridgeOptions::strict_numerics no plan has one, and where a table has no other option the answer
// is `infeasible` and names it. Source: docs/mathematics/balanced-sharding.md#order-of-the-search.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "plimsoll/balance/placement_bound.h"
#include "plimsoll/embedding/bounded_problem.h"
#include "plimsoll/embedding/plan_times.h"
#include "plimsoll/embedding/planner.h"

#pragma GCC visibility push(default)
namespace plimsoll::embedding {

// By default the time is minimized among the plans that rate no worse than the reference's.
struct BalancedOptions : BoundedOptions {
  // Minimizes that alone.
  static BalancedOptions minimizing(BalanceObjective objective) {
    BalancedOptions options;
    options.bridge.objective = objective;
    options.keeps_reference_rating = false;
    return options;
  }

  ReferenceOptions reference;
  bool certifies = true;  // keeps the prices that prove the bound
  // Begins again with all options where no plan of the fewest hazards is found.
  bool may_keep_hazards = true;
  bool explains = true;  // says why there is no plan, where that is proved
  // A plan of the same tables on the same ranks, such as one for another batch; not owned, may be
  // null. Where it is allowed here, the search starts from it and makes no plan of small rating
  // or step to start from. The answer's record does not name it, so that it alone does not repeat
  // the search.
  const PlanningResult* near = nullptr;
  // Where an earlier run was stopped (BalancedResult::stops), to stop there again.
  std::vector<std::int64_t> stops;
};

// What, beside bytes, no plan fits for (embedding/balanced/explain_no_plan.h): without it, it is
// not proved that nothing fits.
enum class NoPlanCauseKind {
  kRules,        // placement rules
  kConstraints,  // sharding types, compute kernels or min_partition of tables
  kHazards,      // plans with hazards are ruled out
  kNumerics,     // options with an optimizer state per block are ruled out
  kWidths,       // widths of column shards that were not tried
};
struct NoPlanCause {
  NoPlanCauseKind kind = NoPlanCauseKind::kRules;
  std::string text;       // for people, one sentence; names neither flags nor keywords
  bool has_plan = false;  // without it a plan was found
  bool operator==(const NoPlanCause&) const = default;
};

struct BalancedResult {
  PlanningResult planning;  // `rating` is the reference's rating, the certificate's objective ours
  PlanTimes times;          // of the plan, NaN without one
  std::optional<PlanTimes> reference;  // of the reference's plan, where it found one
  std::int64_t effort = 0;             // spent
  bool is_reference_whole = false;     // the reference's search ran to its end
  std::optional<double> rating_cap;    // ms; plan and bound are those of the plans that keep it
  bool keeps_hazards = false;          // no plan of the fewest hazards fits, or was found
  std::vector<NoPlanCause> causes;     // of an infeasible problem
  std::optional<balance::PlacementBound> bound;  // what prices prove of the problem searched last
  // Where the clock or a cancel stopped the reference's search (proposals) and each of ours
  // (effort), in turn; -1: nowhere; 0: before it began.
  std::vector<std::int64_t> stops;
};

// Errors: those of plan_like_torchrec and make_placement_bridge.
Result<BalancedResult> plan_balanced(const PlanningProblem& problem,
                                     const BalancedOptions& options = {},
                                     const SearchOptions& search = {},
                                     const RunContext& context = {});

// Options that are there already, as those of a dump: `prepared` has enumeration (profiles may be
// empty), reservation and provenance, as prepare_like_torchrec makes them. The problem's model and
// topology are what reports and hazards need. Without an estimator no shard sends bytes out
// (output_bytes).
struct GivenOptions {
  PlanningResult prepared;
  const Estimator* estimator = nullptr;  // what made the options, where it is known; not owned
};
Result<BalancedResult> plan_balanced(const PlanningProblem& problem, const GivenOptions& given,
                                     const BalancedOptions& options, const SearchOptions& search,
                                     const RunContext& context);

// The search over one set of options.
struct OptionSearchResult {
  Outcome<PlacedProposal> outcome;  // in table order
  std::optional<double> rating_cap;
  std::optional<balance::PlacementBound> bound;
  std::int64_t effort = 0;
  bool keeps_hazards = false;       // no plan of the fewest hazards fits, or was found
  std::vector<std::int64_t> stops;  // of each search
};

// `starts` are plans of these options, the first that of `options.near` if that is set; those that
// break a rule or hold a hazard are left out. Of `options` the bridge, `certifies`, `stops` and
// whether there is a `near` count. Errors: those of make_placement_bridge.
Result<OptionSearchResult> balance_options(const BridgeInput& input, const BalancedOptions& options,
                                           const std::vector<PlacedProposal>& starts,
                                           const SearchOptions& search, const RunContext& context);

// The reference's plan alone, as plan_balanced makes it on its way: `reference`,
// `is_reference_whole`, and in `planning` what it was made from. Deterministic: its search ends by
// its effort, or where `options.stops` says that a clock cut it. For those who check what a plan
// states of the reference. Errors: those of plan_like_torchrec.
Result<BalancedResult> repeat_reference(const PlanningProblem& problem,
                                        const BalancedOptions& options);
Result<BalancedResult> repeat_reference(const PlanningProblem& problem, const GivenOptions& given,
                                        const BalancedOptions& options);

}  // namespace plimsoll::embedding
#pragma GCC visibility pop
