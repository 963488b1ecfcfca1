// torch's `sac_milp`: which modules are checkpointed, and which share of their activations each
// gives up, so that recomputation takes the least time within a memory budget.
//
// Method. Upstream's mixed-integer program, variable by variable and row by row (seven variables a
// module and one for the peak; prefix sums written out, O(n^2) coefficients), solved by the same
// solver within the same gap of 5% and the same 180 s.
// Promises. Feasible and infeasible where upstream is, a recompute time within the gap of the
// optimum of upstream's program. Not upstream's decisions: within the gap there are many, and its
// solver picks one by accident.
// Departures. The peak is the decision's own, where upstream returns any number between that and
// the budget. The statistics stay as they are, where upstream overwrites a sac_memory that is too
// small. Units that name no module, which upstream passes over, are reported as warnings. Modules
// that could be units and have no fit are refused, where upstream recomputes them for nothing.
// Source: docs/mathematics/torch-checkpointing.md#sac_milp.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "plimsoll/checkpoint/checkpoint_policy.h"
#include "plimsoll/checkpoint/module_stats.h"
#include "plimsoll/checkpoint/variant.h"
#include "plimsoll/core/outcome.h"
#include "plimsoll/core/result.h"
#include "plimsoll/core/run_context.h"

#pragma GCC visibility push(default)
namespace plimsoll::checkpoint {

struct SACMilpOptions {
  Variant variant = default_variant();
  double memory_budget = 0;                  // GiB, finite
  int world_size = 1;                        // >= 1; parameters and gradients are divided by it
  std::vector<std::string> ac_units;         // fqns that may be units; empty: any
  std::vector<std::string> fsdp_units;       // fqns that no unit may contain
  double relative_gap = 0.05;                // >= 0
  std::optional<double> time_limit_s = 180;  // > 0
  RunContext context = {};                   // its deadline and cancel end the program, too
};

struct SACMilpResult {
  // Upstream's answer; without a plan {}, 0, -1.
  std::vector<std::pair<std::string, double>> decisions;  // fqn, ratio to 4 digits; by module index
  double recompute_ms = 0;                                // to 2 digits
  Bytes peak_bytes = -1;
  // The same, unrounded. A run that the clock cut with a plan in hand is kFeasible here and a
  // success to upstream.
  Outcome<CheckpointPolicy> outcome;
};

// Errors: those of validate() and make_module_tree(), kValue for an option out of range,
// kZeroDivision for a module that is not a leaf and keeps nothing, kValue for one without a fit.
Result<SACMilpResult> plan_like_sac_milp(const ModuleStats& stats, const SACMilpOptions& options);

}  // namespace plimsoll::checkpoint
#pragma GCC visibility pop
