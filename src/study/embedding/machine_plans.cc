#include "study/embedding/machine_plans.h"

#include <algorithm>
#include <utility>

#include "plimsoll/embedding/balanced_search.h"
#include "plimsoll/embedding/perf_model.h"

namespace plimsoll::study {

Result<TablePlanOnMachine> plan_on_machine(const embedding::PlanningProblem& problem,
                                           embedding::BalanceObjective objective,
                                           const SearchOptions& limits, const RunContext& context,
                                           std::optional<embedding::PlanningResult>* last) {
  auto options = embedding::BalancedOptions::minimizing(objective);
  if (problem.machine) options.bridge.step_model = problem.machine->step;
  options.uses_reference = options.certifies = options.explains = false;
  if (last != nullptr && *last) options.near = &**last;
  SearchOptions search = limits;
  if (search.effort < 0) search.effort = kMachineEffort;
  PLIMSOLL_ASSIGN(embedding::BalancedResult found,
                  embedding::plan_balanced(problem, options, search, context.inner()));
  const embedding::PlanningResult& planning = found.planning;
  TablePlanOnMachine made;
  made.plan.status = planning.outcome.status;
  made.plan.lower_bound = planning.outcome.certificate.lower_bound;
  made.gap = planning.outcome.certificate.gap();
  if (!planning.outcome.plan) return made;
  made.plan.ms = value_of(found.times, objective);
  const std::vector<topology::Storage> used =
      embedding::rank_storage(planning.enumeration.options, planning.best);
  const std::vector<topology::Storage>& room = planning.reservation->topology.devices;
  const bool has_hbm = std::any_of(room.begin(), room.end(),
                                   [](const topology::Storage& rank) { return rank.hbm > 0; });
  for (std::size_t rank = 0; rank < used.size(); ++rank) {
    const Bytes bytes = has_hbm ? used[rank].hbm : used[rank].ddr;
    if (bytes < made.memory || (bytes == made.memory && rank > 0)) continue;
    made.memory = bytes;
    made.room = has_hbm ? room[rank].hbm : room[rank].ddr;
  }
  if (last != nullptr) *last = std::move(found.planning);
  return made;
}

}  // namespace plimsoll::study
