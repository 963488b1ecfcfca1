// What no placement can beat under torch.fx's cost model.
//
// Method. The longest path without transfers; and for paths among the longest: a device that runs a
// stretch of the path holds at least the stretch's operators, their sources and the values that
// come from beside the path. So a path is cut into stretches that fit the largest device, and into
// as many at least as devices are needed to hold all of it; the cheapest such cuts, by dynamic
// programming, are added to the path's time. Taken are the longest path through each operator.
// Cost. O(paths * length * (longest stretch + devices)). Promises. Never above the optimum.
// Source: docs/mathematics/torch-fx-partitioner.md#a-shorter-critical-path.
#pragma once

#include <string>

#include "partition/fx_search/fx_problem.h"
#include "plimsoll/core/proof.h"
#include "plimsoll/core/run_context.h"

namespace plimsoll::partition {

struct FxBound {
  double value = 0;  // seconds; infinite: an operator fits no device
  ProofKind proof = ProofKind::kNone;
};

// `cuts_paths` false: the longest path alone.
FxBound bound_critical_path(const FxProblem& problem, bool cuts_paths, const RunContext& context);

}  // namespace plimsoll::partition
