#include "plimsoll/partition/pipeline_plan.h"

#include "core/check.h"

namespace plimsoll::partition {
namespace {

double time_of(const PipelineModel& model, const std::vector<std::vector<int>>& touching,
               const std::vector<int>& stage_of, const PipelineStage& stage) {
  const int d = stage.data_parallel;
  double compute = 0;
  double moved = 0;
  double parameters = 0;
  for (std::size_t i = 0; i < stage.operators.size(); ++i) {
    const int op = stage.operators[i];
    const OperatorVariant& choice =
        (*find_choices(model.operators[op], stage.tensor_parallel))[stage.choices[i]];
    compute += choice.time_ms;
    parameters += static_cast<double>(choice.parameters);
    for (std::size_t e = 0; e < touching[op].size(); ++e) {
      const PipelineEdge& edge = model.edges[touching[op][e]];
      if (stage_of[edge.source] == stage_of[edge.dest]) continue;
      moved += 2 * (edge.bytes + (choice.sync.empty() ? 0 : choice.sync[e]));
    }
  }
  const double n = model.num_microbatches.value_or(d);
  return compute / d + moved / d / model.bandwidth +
         4.0 * (d - 1) * parameters / d / n / model.bandwidth;
}

}  // namespace

bool is_plan_of(const PipelineModel& model, const PipelinePlan& plan) {
  for (const PipelineStage& stage : plan.stages) {
    if (stage.operators.size() != stage.choices.size() || stage.data_parallel < 1) return false;
    for (std::size_t i = 0; i < stage.operators.size(); ++i) {
      const int op = stage.operators[i];
      if (op < 0 || op >= model.num_operators()) return false;
      const auto* choices = find_choices(model.operators[op], stage.tensor_parallel);
      if (choices == nullptr || stage.choices[i] < 0 ||
          static_cast<std::size_t>(stage.choices[i]) >= choices->size()) {
        return false;
      }
    }
  }
  return true;
}

std::vector<StageFigures> figures_of_stages(const PipelineModel& model, const PipelinePlan& plan) {
  PLIMSOLL_DCHECK(validate(model).has_value(), "the model is valid");
  PLIMSOLL_DCHECK(is_plan_of(model, plan), "operators, degrees and choices of the plan exist");
  const auto touching = edges_of_operators(model);
  std::vector<int> stage_of(model.operators.size(), -1);
  for (std::size_t s = 0; s < plan.stages.size(); ++s) {
    for (const int op : plan.stages[s].operators) stage_of[op] = static_cast<int>(s);
  }
  std::vector<StageFigures> figures(plan.stages.size());
  int count = 0;
  for (std::size_t s = plan.stages.size(); s-- > 0;) {
    const PipelineStage& stage = plan.stages[s];
    count += stage.data_parallel;
    figures[s].time_ms = time_of(model, touching, stage_of, stage);
    figures[s].in_flight = (count + stage.data_parallel - 1) / stage.data_parallel;
    for (std::size_t i = 0; i < stage.operators.size(); ++i) {
      const OperatorVariant& choice = (*find_choices(model.operators[stage.operators[i]],
                                                     stage.tensor_parallel))[stage.choices[i]];
      figures[s].memory += figures[s].in_flight * choice.per_microbatch + choice.memory;
    }
  }
  return figures;
}

}  // namespace plimsoll::partition
