#include "study/partition/profile_planning.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "core/check.h"
#include "plimsoll/core/units.h"

namespace plimsoll::study {
namespace {

using partition::PipelineModel;
using partition::PipelinePlan;

PipelineAnswer start_answer(const ProfileCase& made, std::string objective) {
  PipelineAnswer answer;
  answer.input_hash = made.input_hash;
  answer.objective = std::move(objective);
  answer.num_devices = made.model.num_devices;
  return answer;
}

void put_plan(const PipelineModel& model, const PipelinePlan& plan, PipelineAnswer& answer) {
  answer.plan = make_stage_entries(model, plan);
  double slowest = 0;
  for (const partition::StageFigures& stage : figures_of_stages(model, plan)) {
    slowest = std::max(slowest, stage.time_ms);
  }
  answer.slowest_ms = slowest;
}

// The published optimizer's stages as a plan of the model, which has none of its inputs.
PipelinePlan to_pipeline_plan(const partition::PipeDreamProfile& profile,
                              const partition::PipeDreamPlan& found) {
  std::vector<int> op_of(profile.nodes.size(), -1);
  const std::vector<int> kept = kept_nodes(profile);
  for (std::size_t op = 0; op < kept.size(); ++op) op_of[kept[op]] = static_cast<int>(op);
  PipelinePlan plan;
  for (const partition::PipeDreamStage& stage : found.stages) {
    partition::PipelineStage made;
    made.data_parallel = stage.replicas;
    for (const int node : stage.nodes) {
      if (op_of[node] >= 0) made.operators.push_back(op_of[node]);
    }
    made.choices.assign(made.operators.size(), 0);
    if (!made.operators.empty()) plan.stages.push_back(std::move(made));
  }
  return plan;
}

}  // namespace

Result<ProfilePlan> plan_profile(const ProfileCase& made, const partition::PipelineOptions& options,
                                 const RunContext& context) {
  PLIMSOLL_ASSIGN(const partition::PipelineSearch search,
                  partition::plan_pipeline(made.model, options, context));
  ProfilePlan plan{start_answer(made, std::string(to_string(options.objective))), {}};
  PipelineAnswer& answer = plan.answer;
  take_end(search.outcome, answer);
  const bool was_cut =
      search.outcome.stop == StopReason::kDeadline || search.outcome.stop == StopReason::kCancelled;
  if (was_cut) answer.provenance.emplace().stopped_at = fmt::format("{}", search.num_pairs);
  if (search.outcome.plan) put_plan(made.model, *search.outcome.plan, answer);
  if (answer.status == SolveStatus::kInfeasible) {
    plan.need = find_memory_need(made.model, options, context);
  }
  return plan;
}

Result<PipelineAnswer> plan_profile_like_pipedream(const ProfileCase& made, bool is_straight) {
  PLIMSOLL_CHECK(made.pipedream, "the profile is one of PipeDream's");
  partition::PipeDreamOptions options;
  options.levels[0].num_machines = made.model.num_devices;
  options.levels[0].bandwidth = made.model.bandwidth * kMsPerSecond;
  if (made.model.memory_cap) options.memory = static_cast<double>(*made.model.memory_cap);
  options.straight_pipeline = is_straight;
  PLIMSOLL_ASSIGN(const partition::PipeDreamAnswer found,
                  partition::plan_like_pipedream(*made.pipedream, options));
  PipelineAnswer answer = start_answer(made, "slowest_stage");
  take_end(found.outcome, answer);
  if (found.outcome.plan) {
    put_plan(made.model, to_pipeline_plan(*made.pipedream, *found.outcome.plan), answer);
  }
  return answer;
}

}  // namespace plimsoll::study
