// What memory buys in time: the least objective of a plan in which no rank's shards take more than
// m bytes of HBM, for every m.
//
// Method. The plan without a limit gives the curve's right end, the proof that nothing fits its
// left (bisection on m). In between, limits are spread geometrically; each is searched from the
// plans found so far and bounded by prices. A plan holds from the bytes that it takes to the right,
// a bound from its limit to the left. Promises. At every m upper >= least objective >= lower; left
// of the lower curve no plan exists, left of the upper one none was found. The rating's cap
// (keeps_reference_rating) is left aside. Deterministic as plan_balanced: `unlimited.stops` goes on
// with the steps of the bisection, the number of limits searched, and the stops of each of them.
// Sources: docs/mathematics/balanced-sharding.md#memory-against-time, plimsoll/math/frontier.h.
#pragma once

#include <optional>
#include <vector>

#include "plimsoll/balance/placement_bound.h"
#include "plimsoll/embedding/balanced_search.h"
#include "plimsoll/math/frontier.h"

#pragma GCC visibility push(default)
namespace plimsoll::embedding {

struct BalancedFrontier {
  BalancedResult unlimited;
  math::Frontier frontier;            // empty where `unlimited` has no plan
  std::vector<PlacedProposal> plans;  // [points of the upper curve] of `unlimited`'s options
  // [points of the lower curve] Prices that prove that no plan of fewer bytes is below the point
  // before, of the first point that there is none; absent where a search proved it.
  std::vector<std::optional<balance::PlacementBound>> proofs;
};

// `num_limits` >= 0 between the ends; each search has the effort divided by their number, and of a
// clock a quarter is for the plan without a limit. `unlimited`'s outcome says so where any of the
// searches was cut. Errors: those of plan_balanced.
Result<BalancedFrontier> plan_balanced_frontier(const PlanningProblem& problem,
                                                const BalancedOptions& options, int num_limits,
                                                const SearchOptions& search,
                                                const RunContext& context);

// The same of options that are there already.
Result<BalancedFrontier> plan_balanced_frontier(const PlanningProblem& problem,
                                                const GivenOptions& given,
                                                const BalancedOptions& options, int num_limits,
                                                const SearchOptions& search,
                                                const RunContext& context);

}  // namespace plimsoll::embedding
#pragma GCC visibility pop
