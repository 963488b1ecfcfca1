#include "checkpoint/model/baseline.h"

#include <algorithm>

namespace plimsoll::checkpoint {

Baseline make_baseline(const ModuleStats& stats) {
  const ModuleInfo& root = stats.mod_stats.front();
  Baseline baseline;
  for (const ModuleInfo& module : stats.mod_stats) {
    baseline.peak_bytes =
        std::max(baseline.peak_bytes, root.param_per_module + module.grad_total +
                                          module.act_grad_per_module + module.act_total);
  }
  baseline.compute_ms = root.fw_runtime_per_module + root.bw_runtime_per_module;
  return baseline;
}

}  // namespace plimsoll::checkpoint
