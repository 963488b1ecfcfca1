#include "partition/pipeline/pipeline_line.h"

#include <algorithm>

namespace plimsoll::partition {

bool is_line(const PipelineModel& model, const PipelineOptions& options) {
  if (options.max_data_parallel > 1 && model.num_devices > 1) return false;
  if (model.memory_cap || options.must_use_all_devices) return false;
  const auto is_plain = [](const PipelineOperator& op) {
    if (op.degrees.size() != 1 || op.degrees[0].degree != 1) return false;
    const auto& choices = op.degrees[0].choices;
    return std::all_of(choices.begin(), choices.end(),
                       [](const OperatorVariant& choice) { return choice.sync.empty(); });
  };
  return std::all_of(model.operators.begin(), model.operators.end(), is_plain) &&
         std::all_of(model.edges.begin(), model.edges.end(),
                     [](const PipelineEdge& edge) { return edge.bytes == 0; });
}

PipelinePlan make_line_plan(const PipelineModel& model, const GroupGraph& groups,
                            const std::vector<int>& station_of) {
  const int last = *std::max_element(station_of.begin(), station_of.end());
  std::vector<int> stage_of(model.operators.size());
  for (std::size_t g = 0; g < station_of.size(); ++g) {
    stage_of[groups.nodes[g][0]] = last - station_of[g];
  }
  PipelinePlan plan;
  plan.stages.resize(static_cast<std::size_t>(last) + 1);
  for (int op = 0; op < model.num_operators(); ++op) {
    const auto& choices = model.operators[op].degrees[0].choices;
    const auto fastest = std::min_element(
        choices.begin(), choices.end(),
        [](const OperatorVariant& a, const OperatorVariant& b) { return a.time_ms < b.time_ms; });
    PipelineStage& stage = plan.stages[stage_of[op]];
    stage.operators.push_back(op);
    stage.choices.push_back(static_cast<int>(fastest - choices.begin()));
  }
  return plan;
}

}  // namespace plimsoll::partition
