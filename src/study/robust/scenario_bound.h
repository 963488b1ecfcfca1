// Lower bounds of a measure over scenarios (plimsoll/study/robust.h), and their judge.
#pragma once

#include <optional>
#include <vector>

#include "plimsoll/core/run_context.h"
#include "plimsoll/study/robust.h"
#include "study/robust/scenario_costs.h"

namespace plimsoll::study {

// How many scenarios prove a bound: n - k + 1 for the quantile, the tail's size for the cvar.
int num_proving(RiskMeasure measure, double level, int num_scenarios);

// `values` are the plan's, of these scenarios. Empty where options are such that no bound holds for
// all plans. Errors: those of estimating.
Result<std::vector<ScenarioBound>> bound_risk(const ScenarioCosts& costs,
                                              const std::vector<Factors>& scenarios,
                                              const embedding::BridgeOptions& rules,
                                              const RobustOptions& options,
                                              const ScenarioCosts::Values& values,
                                              const RunContext& context);

// What the witnesses prove of every plan's measure; nothing where they prove nothing.
Result<std::optional<double>> proved_risk(const ScenarioCosts& costs,
                                          const std::vector<Factors>& scenarios,
                                          const embedding::BridgeOptions& rules,
                                          const RobustOptions& options,
                                          const std::vector<ScenarioBound>& bounds);

}  // namespace plimsoll::study
