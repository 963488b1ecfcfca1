// What makes a balanced plan's claims right: the times it states, the rating it keeps, the bound it
// proves.
//
// Times are added up anew from what check_sharding found on every rank. The bound is computed from
// the prices in the certificate (solve::verify_bound) on the problem that model, machine and
// options give; of the search nothing is used but the way from options to that problem
// (placement_bridge.h). Source: notes on balanced sharding, part 2, section 7.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "plimsoll/check/sharding_check.h"
#include "plimsoll/core/outcome.h"
#include "plimsoll/embedding/balanced_search.h"
#include "plimsoll/solve/placement_bound.h"

namespace plimsoll::check {

inline constexpr std::int64_t kMaxRepeatedNodes = 1 << 20;

// What a plan states, and the options that it was made with.
struct StatedBalance {
  embedding::BalancedOptions options;  // `bridge.rating_cap` is that of plan and bound
  std::optional<SolveStatus> status;
  double tolerance = SearchOptions{}.tolerance;  // >= 0; a gap that counts as `optimal`
  std::optional<embedding::PlanTimes> times;
  std::optional<Certificate> certificate;
  std::optional<solve::PlacementBound> bound;
};

struct BalanceReport {
  std::vector<Violation> violations;
  std::optional<embedding::PlanTimes> times;  // of the plan
  std::optional<double> proved_bound;         // ms, by the prices; infinite: no plan exists
  // The stated bound is more than the prices prove: it rests on a search to its end. The judge
  // searches again by rules of its own (exhaustive_search.h), as far as kMaxRepeatedNodes.
  bool is_bound_searched = false;
  bool is_search_repeated = false;  // to its end: the stated bound holds
  std::int64_t num_repeated_nodes = 0;
};

// `plan` and `sharding` (check_sharding's report of it) are null where the answer has no plan; the
// times are those of a plan without violations there. A search that finds a placement below a
// stated bound is no violation where the search relaxes the problem. Errors: those of
// make_bounded_problem.
Result<BalanceReport> check_balance(const embedding::PlanningProblem& problem,
                                    const embedding::ShardingPlan* plan,
                                    const CheckReport* sharding, const StatedBalance& stated);

// The same of options that are given; `input` without estimator.
Result<BalanceReport> check_balance(const embedding::BridgeInput& input,
                                    const embedding::ShardingPlan* plan,
                                    const CheckReport* sharding, const StatedBalance& stated);

}  // namespace plimsoll::check
