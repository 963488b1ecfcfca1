#include "study/partition/pipeline_answer.h"

#include <algorithm>

#include "core/check.h"

namespace plimsoll::study {

using partition::OperatorVariant;
using partition::PipelineModel;
using partition::PipelinePlan;
using partition::PipelineStage;
using partition::StageFigures;

std::vector<PipelineStageEntry> make_stage_entries(const PipelineModel& model,
                                                   const PipelinePlan& plan) {
  PLIMSOLL_CHECK(is_plan_of(model, plan), "operators, degrees and choices of the plan exist");
  const std::vector<StageFigures> figures = figures_of_stages(model, plan);
  std::vector<PipelineStageEntry> entries;
  for (std::size_t s = 0; s < plan.stages.size(); ++s) {
    const PipelineStage& stage = plan.stages[s];
    PipelineStageEntry& entry = entries.emplace_back();
    entry.operators = stage.operators;
    entry.data_parallel = stage.data_parallel;
    entry.tensor_parallel = stage.tensor_parallel;
    for (std::size_t i = 0; i < stage.operators.size(); ++i) {
      const auto& choices =
          *find_choices(model.operators[stage.operators[i]], stage.tensor_parallel);
      entry.choices.push_back(choices[stage.choices[i]].name);
    }
    entry.time_ms = figures[s].time_ms;
    entry.in_flight = figures[s].in_flight;
    entry.memory = figures[s].memory;
  }
  return entries;
}

Result<PipelinePlan> make_pipeline_plan(const PipelineModel& model, const PipelineAnswer& answer) {
  if (!answer.plan) {
    return fail(ErrorCode::kUsage, "stages", "the answer holds no plan", "give one with stages");
  }
  PipelinePlan plan;
  for (std::size_t s = 0; s < answer.plan->size(); ++s) {
    const PipelineStageEntry& entry = (*answer.plan)[s];
    const std::string place = "stage " + std::to_string(s);
    PipelineStage stage{entry.operators, {}, entry.data_parallel, entry.tensor_parallel};
    for (std::size_t i = 0; i < entry.operators.size(); ++i) {
      const int op = entry.operators[i];
      if (op < 0 || op >= model.num_operators()) {
        return fail(ErrorCode::kValue, place, "there is no operator " + std::to_string(op),
                    "give an operator's place in the model");
      }
      const auto* choices = find_choices(model.operators[op], entry.tensor_parallel);
      if (choices == nullptr) {
        return fail(ErrorCode::kValue, place,
                    place_of(model, op) + " cannot run on " +
                        std::to_string(entry.tensor_parallel) + " devices",
                    "give a tensor-parallel degree of the operator");
      }
      const auto choice =
          std::find_if(choices->begin(), choices->end(),
                       [&](const OperatorVariant& c) { return c.name == entry.choices[i]; });
      if (choice == choices->end()) {
        return fail(ErrorCode::kValue, place,
                    place_of(model, op) + " has no choice '" + entry.choices[i] + "'",
                    "give a choice of the operator");
      }
      stage.choices.push_back(static_cast<int>(choice - choices->begin()));
    }
    plan.stages.push_back(std::move(stage));
  }
  return plan;
}

}  // namespace plimsoll::study
