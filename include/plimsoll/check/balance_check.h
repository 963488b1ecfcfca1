// What makes the claims beside a plan right: its status, the times it states, the rating it keeps,
// the bound it proves, the reference's figures and the curve of memory against time.
//
// Times are added up again from what check_sharding found on every rank. The bound is computed from
// the prices in the certificate (balance::verify_bound) on the problem that model, machine and
// options give (bounded_problem.h). Whatever search is said to have made the plan, every claim that
// is there is judged; what is missing counts as its default. A bound that its prices do not prove
// is proved by other prices or by a search of the checker's own to the end (exhaustive_search.h),
// refuted by a real plan below it, or not repeated. No search is linked: who has one gives it as
// SearchAid. The reference's figures are those of its search, which runs again. Source:
// docs/mathematics/balanced-sharding.md#certificates.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "plimsoll/balance/placement_bound.h"
#include "plimsoll/check/frontier_check.h"
#include "plimsoll/check/sharding_check.h"
#include "plimsoll/core/outcome.h"
#include "plimsoll/core/run_context.h"
#include "plimsoll/embedding/bounded_problem.h"
#include "plimsoll/embedding/plan_times.h"

#pragma GCC visibility push(default)
namespace plimsoll::check {

// What a plan states, and the options that it was made with.
struct StatedBalance {
  embedding::BoundedOptions options;  // `bridge.rating_cap` is that of plan and bound
  // The objective that the options name, where they do; that of the answer stands in `options`.
  std::optional<embedding::BalanceObjective> recorded_objective;
  std::optional<SolveStatus> status;
  // Gaps that count as `optimal`: what the plan says of itself, and what the checker accepts. Both
  // >= 0; a plan is optimal within the smaller one.
  double tolerance = SearchOptions{}.tolerance;
  double accepted_tolerance = SearchOptions{}.tolerance;
  std::optional<double> rating;  // judged here where it counts bytes, or where there is no plan
  std::optional<embedding::PlanTimes> times;
  std::optional<Certificate> certificate;
  std::optional<balance::PlacementBound> bound;
  std::optional<embedding::PlanTimes> reference;  // the reference plan's
  // Is the plan judged on what it was made from? Else the reference's figures cannot be repeated.
  bool are_inputs_given = true;
  StatedFrontier frontier;
  // The objective of the search is the largest sum of HBM bytes, and there are no bounds.
  bool rates_storage = false;
  std::vector<std::string> warnings;  // codes
};

// What is not repeated is a warning (kNotRepeated).
struct BalanceReport : CheckReport {
  std::optional<embedding::PlanTimes> times;  // of the plan
  std::optional<double> proved_bound;         // ms, by the prices; infinite: no plan exists
  // The stated bound is more than the prices prove: it rests on a search to its end. The checker
  // searches again by rules of its own (exhaustive_search.h), up to the limits there.
  bool is_bound_searched = false;
  bool is_search_repeated = false;  // to its end: the stated bound holds
  std::int64_t num_repeated_nodes = 0;
  bool is_anything_claimed = false;
  std::string proof;  // one sentence: what proves bound or status; may be empty
};

// The reference's plan, searched again.
struct RepeatedReference {
  std::optional<embedding::PlanTimes> times;  // absent: it finds no plan
  embedding::OptionSet options;
  embedding::PlacedProposal plan;  // of these options
};

// What searches say, for a judge that links none (study/search_aid.h makes it). Prices are verified
// and plans judged, so that no proof rests on it. Empty functions: fewer claims are repeated.
struct SearchAid {
  // Prices for a bound of the problem, cheap ones.
  std::function<balance::PlacementBound(const balance::PlacementProblem&)> find_prices;
  // From the inputs and options that are judged.
  std::function<Result<RepeatedReference>()> repeat_reference;
};

// `plan` and `sharding` (check_sharding's report of it) are null where the answer has no plan; the
// times are those of a plan without violations there. Errors: those of make_bounded_problem, but
// where the reservation leaves nothing or a table has no option.
Result<BalanceReport> check_balance(const embedding::PlanningProblem& problem,
                                    const embedding::ShardingPlan* plan,
                                    const ShardingReport* sharding, const StatedBalance& stated,
                                    const SearchAid& aid = {});

// The same of options that are given, as those of a dump; `problem` tells what reports and hazards
// need, as in plan_balanced. Without an estimator no shard sends bytes out.
Result<BalanceReport> check_balance(const embedding::PlanningProblem& problem,
                                    const embedding::BridgeInput& given,
                                    const embedding::ShardingPlan* plan,
                                    const ShardingReport* sharding, const StatedBalance& stated,
                                    const SearchAid& aid = {});

// Puts the violations into the report and says what they make of the certificate: refuted by any of
// a plan that claims something, hazards under `strict` left aside. Under `strict` what is not
// repeated is a violation, too.
void conclude(BalanceReport balance, bool is_strict, ShardingReport& report);

}  // namespace plimsoll::check
#pragma GCC visibility pop
