// Which modules become FSDP units of their own, after the `fsdp_ilp` that torch merged and took
// back.
//
// Problem. The root is a unit; no other unit lies within another. A unit's parameters are gathered
// while the unit before it computes, forward and backward, and its gradients are reduced while the
// next one runs backward; what does not fit behind that computation is exposed. A rank holds its
// share of everything, the whole parameters and gradients of the units around the running module,
// and two more units' parameters for prefetching. Minimise the exposed time within the budget.
// Method. One binary a module; "the next unit's time" runs backwards through the list, cut at every
// unit, which is where the program needs a bound on a single unit's time. O(n) columns, and a row
// for each pair of ancestor and descendant.
// Promises. The optimum within `relative_gap`; time and peak are recomputed from the units.
// Departures. Upstream bounds times by 1000 ms; ours is the largest that can occur.
// Source: docs/mathematics/torch-checkpointing.md#fsdp_ilp.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "plimsoll/checkpoint/module_stats.h"
#include "plimsoll/core/outcome.h"
#include "plimsoll/core/result.h"

namespace plimsoll::checkpoint {

struct CollectiveCost {
  double latency_ms = 0;  // >= 0
  double bandwidth = 0;   // bytes per ms, > 0
  bool operator==(const CollectiveCost&) const = default;
};

struct FSDPOptions {
  double memory_budget = 0;  // GiB, finite
  int world_size = 1;        // >= 1
  CollectiveCost all_gather, reduce_scatter;
  std::vector<std::string> fsdp_units;  // fqns: exactly these and the root; empty: any
  double relative_gap = 0;              // >= 0
  std::optional<double> time_limit_s = std::nullopt;  // > 0
};

struct FSDPPlan {
  std::vector<std::string> units;  // by module index, the root first
  double exposed_ms = 0;
  Bytes peak_bytes = 0;  // rounded up
  bool operator==(const FSDPPlan&) const = default;
};

// What these units take, whether it fits or not; the root is one without being named. Errors: those
// of validate() and make_module_tree(), kValue for an option out of range, kNotFound for a unit
// that names no module, kConflict for one within another.
Result<FSDPPlan> price_fsdp_units(const ModuleStats& stats, const FSDPOptions& options,
                                  const std::vector<std::string>& units);

// Errors as above.
Result<Outcome<FSDPPlan>> plan_fsdp_units(const ModuleStats& stats, const FSDPOptions& options);

}  // namespace plimsoll::checkpoint
