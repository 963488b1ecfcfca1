// torch's `get_optimal_checkpointing_policy_per_module`: which operators of one module keep their
// output, so that recomputation takes the least time within a share of the module's memory.
//
// Problem. A 0/1 knapsack over groups: operators that must be kept or dropped together (in-place
// with the one whose output they change; random ones all or none) are one item; views are always
// dropped; some operators are always kept.
// Method. Dynamic programming over undominated (bytes, ms) states, the groups by decreasing ms per
// byte; a state goes where even a fractional filling of the room left stays below the best whole
// filling known. O(groups * states); a transformer block has some tens of states.
// Promises. The exact optimum. Of equal times the fewest bytes, of those the first found; a group
// that takes no time is not kept. Where the rules contradict each other or what must be kept does
// not fit, the outcome is infeasible; upstream returns an empty list.
// Departures. Upstream's solver stops within 5% of the optimum, or after 10 s.
// Source: docs/mathematics/torch-checkpointing.md#policy-of-one-module.
#pragma once

#include <vector>

#include "plimsoll/checkpoint/module_stats.h"
#include "plimsoll/core/outcome.h"
#include "plimsoll/core/result.h"

namespace plimsoll::checkpoint {

struct ModulePolicy {
  std::vector<int> save;     // [operators] 1: the output is kept, 0: it is recomputed
  Bytes saved_memory = 0;    // over kept operators
  double saved_runtime = 0;  // ms, over kept operators in their order
  bool operator==(const ModulePolicy&) const = default;
};

// The bytes that may be kept: ceil(budget * sum(memory)).
// Quirk, kept: the product is rounded to a double before it is rounded up, so that k / total *
// total may be k + 1.
Bytes policy_capacity(const SACStats& stats, double memory_budget);

// The certificate's objective is the recomputed time. Errors: those of validate(), kValue for a
// budget outside [0, 1].
Result<Outcome<ModulePolicy>> optimal_policy_per_module(const SACStats& stats,
                                                        double memory_budget);

}  // namespace plimsoll::checkpoint
