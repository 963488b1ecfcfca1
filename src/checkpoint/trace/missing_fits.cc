#include "checkpoint/trace/missing_fits.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "checkpoint/trace/piecewise_fit.h"
#include "checkpoint/trace/sac_greedy_order.h"

namespace plimsoll::checkpoint {
namespace {

struct FittedCurve {
  TradeoffCurve curve;
  PiecewiseFit fit;
};

std::optional<FittedCurve> fit_table(const SACStats& table) {
  auto curve = make_tradeoff_curve(table, make_greedy_order(table));
  if (!curve) return std::nullopt;
  auto fit = fit_tradeoff_curve(curve->points);
  if (!fit) return std::nullopt;
  return FittedCurve{*std::move(curve), *std::move(fit)};
}

void take_fit(const PiecewiseFit& fit, ModuleInfo& module) {
  module.n_segments = static_cast<int>(fit.slopes.size());
  module.slopes = fit.slopes;
  module.intercepts = fit.intercepts;
  module.breakpoints = fit.breaks;
}

}  // namespace

void fit_missing_curves(ModuleStats& stats) {
  std::map<int, std::optional<FittedCurve>> fitted;  // by table
  for (ModuleInfo& module : stats.mod_stats) {
    if (module.is_leaf || !module.slopes.empty()) continue;
    const auto table = stats.sac_stats_of.find(module.fqn);
    if (table == stats.sac_stats_of.end()) {
      const auto fit = fit_tradeoff_curve(module.tradeoff_curve);
      if (fit) take_fit(*fit, module);
      continue;
    }
    auto found = fitted.find(table->second);
    if (found == fitted.end()) {
      found = fitted.emplace(table->second, fit_table(stats.sac_stats[table->second])).first;
    }
    const std::optional<FittedCurve>& own = found->second;
    if (own) {
      take_fit(own->fit, module);
      if (module.sac_memory == 0 && module.sac_runtime == 0) {
        module.sac_memory = own->curve.sac_memory;
        module.sac_runtime = own->curve.sac_runtime;
      }
    } else {
      module.is_leaf = true;
      if (std::find(stats.fit_failed.begin(), stats.fit_failed.end(), module.fqn) ==
          stats.fit_failed.end()) {
        stats.fit_failed.push_back(module.fqn);
      }
    }
  }
}

}  // namespace plimsoll::checkpoint
