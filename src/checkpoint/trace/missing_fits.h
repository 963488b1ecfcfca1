// Fits for modules that were recorded without one.
//
// Problem. The fitted cost model prices a module by the piecewise-linear fit of its trade-off
// curve. Records without a fit would be taken for modules whose recomputation is free.
// Method. A module that is not a leaf and has no slopes gets the fit of the curve of its operator
// table (sac_greedy_order.h, piecewise_fit.h); without a table, that of its recorded
// `tradeoff_curve`. Modules that share a table share the fit.
// Promises. A module whose table has no curve that can be fitted (its operators take no memory or
// no time, or make fewer than three points) becomes a leaf that `fit_failed` names, as our own
// records have it: a unit by operators only. Modules with neither table nor curve stay as they are,
// for a search to refuse. Nothing else is changed but `sac_memory` and `sac_runtime` where both are
// 0, which become those of the table.
// Sources: docs/mathematics/torch-checkpointing.md#greedy-order-and-trade-off-curve,
// docs/mathematics/torch-checkpointing.md#piecewise-linear-fit.
#pragma once

#include "plimsoll/checkpoint/module_stats.h"

namespace plimsoll::checkpoint {

// `stats` is valid, and still is afterwards.
void fit_missing_curves(ModuleStats& stats);

}  // namespace plimsoll::checkpoint
