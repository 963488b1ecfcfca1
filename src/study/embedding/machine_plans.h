// Plans of embedding tables for one of many machines: quick ones, with what sweeps tell of them.
#pragma once

#include <optional>

#include "plimsoll/core/result.h"
#include "plimsoll/core/run_context.h"
#include "plimsoll/embedding/placement_bridge.h"
#include "plimsoll/embedding/planner.h"
#include "plimsoll/study/machine_size.h"

namespace plimsoll::study {

inline constexpr std::int64_t kMachineEffort = 10'000;  // unless told otherwise

struct TablePlanOnMachine {
  MachinePlan plan;
  std::optional<double> gap;
  Bytes memory = 0, room = 0;  // of the fullest rank: HBM, or DDR where no rank has HBM
};

// By our own search alone, so that the bound is of all plans. `last` is the plan for the same
// machine and another batch that the search starts from (BalancedOptions::near), or null; where
// this one is found it takes its place. Errors: those of planning.
Result<TablePlanOnMachine> plan_on_machine(
    const embedding::PlanningProblem& problem, embedding::BalanceObjective objective,
    const SearchOptions& limits, const RunContext& context,
    std::optional<embedding::PlanningResult>* last = nullptr);

}  // namespace plimsoll::study
