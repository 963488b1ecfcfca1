// What the checker makes of a bound that comes without prices that prove it.
//
// Prices that take little time (SearchAid), which balance::verify_bound accepts; else a search of
// its own to the end (exhaustive_search.h), case by case, of the cases that are not proved by
// prices (those stated, where they hold). A plan below the bound, if it finds one, is judged as
// every plan is.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "balance/verify/verify_bound.h"
#include "check/embedding/exhaustive_search.h"
#include "check/embedding/plan_space.h"

namespace plimsoll::check {

struct BoundAttempt {
  std::string proof;              // one sentence, where the bound is proved
  std::optional<double> refuter;  // ms of a plan below it
  bool is_searched = false;       // proved by the search
  std::int64_t num_nodes = 0;     // states that the search looked at
};

// What plans a bound is of, beside those that fit the space's problem.
struct BoundScope {
  embedding::BridgeOptions rules;
  std::optional<std::size_t> max_hazards;  // absent: any number
};

// Is every plan at or above `claimed` (ms; infinite: is there none)? Neither proof nor refuter: it
// is not known. `stated` (may be null) are cases whose prices may prove some of them. Precondition:
// the space's bridge has all plans.
Result<BoundAttempt> attempt_bound(const PlanSpace& space, const BoundScope& scope, double claimed,
                                   const ExhaustiveLimits& limits,
                                   const balance::PlacementBound* stated = nullptr);

// What prices do not prove of what a bound says of itself: its value, its method, the value of each
// case. One sentence; empty: nothing.
std::string find_bound_fault(const balance::PlacementBound& bound,
                             const balance::BoundVerdict& verdict);

// "that no plan is below 3 ms", "that no plan exists"; of a bound of the plans that keep a cap:
// "that no plan whose slowest rank takes at most 2 ms is below 3 ms".
std::string plan_text(double value, std::optional<double> rating_cap);

}  // namespace plimsoll::check
