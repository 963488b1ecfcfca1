// What a model takes with neither checkpointing nor sharding, as upstream reckons it.
// Source: docs/mathematics/torch-checkpointing.md#module-statistics.
#pragma once

#include "plimsoll/checkpoint/module_stats.h"
#include "plimsoll/core/units.h"

namespace plimsoll::checkpoint {

struct Baseline {
  Bytes peak_bytes = 0;  // the largest, over all modules, of parameters, gradients, activations and
                         // temporaries while the module runs backward; at least 0
  double compute_ms = 0;  // forward and backward of the root
  bool operator==(const Baseline&) const = default;
};

// `stats` is valid.
Baseline make_baseline(const ModuleStats& stats);

}  // namespace plimsoll::checkpoint
