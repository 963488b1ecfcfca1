// One plan over several kinds of device: each device group is planned alone, with the tables whose
// constraints name it. Source: docs/mathematics/torchrec-planner.md#rating-and-main-loop; releases
// from 1.7 on have no such planner.

#include <fmt/format.h>

#include "plimsoll/embedding/planner.h"

namespace plimsoll::embedding {

Result<HeterogeneousResult> plan_heterogeneous(const HeterogeneousProblem& problem,
                                               const ReferenceOptions& options,
                                               const SearchOptions& search,
                                               const RunContext& context) {
  if (!problem.cost_model.heterogeneous_planner) {
    return fail(ErrorCode::kUsage, "cost_model",
                fmt::format("{} has no heterogeneous planner", problem.cost_model.name),
                "choose torchrec-1.4 or torchrec-ref");
  }
  if (problem.topologies.empty()) {
    return fail(ErrorCode::kUsage, "topologies", "no device group is given",
                "give a topology for each device group");
  }
  HeterogeneousResult result;
  for (const auto& [group, topology] : problem.topologies) {
    PlanningProblem part;
    part.model = problem.model;
    part.topology = topology;
    part.cost_model = problem.cost_model;
    part.mode = problem.mode;
    part.batch_size = problem.batch_size;
    part.reservation = problem.reservation;
    part.enumeration.breadth_first = true;
    part.enumeration.device_group = group;
    PLIMSOLL_ASSIGN(PlanningResult planned, plan_like_torchrec(part, options, search, context));
    const bool has_failed = planned.failure.has_value();
    result.failure = planned.failure;
    result.groups.emplace_back(group, std::move(planned));
    if (has_failed) break;
  }
  return result;
}

}  // namespace plimsoll::embedding
