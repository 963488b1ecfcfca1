#include "io/import/plan_file.h"

#include <utility>

#include "io/documents/plan_tree.h"
#include "io/import/dnn_partitioning_json.h"
#include "io/import/fx_placement.h"
#include "io/import/piper_json.h"
#include "plimsoll/io/graph_formats.h"

namespace plimsoll::io {
namespace {

PlanFormat format_of(const JsonValue& root) {
  if (is_checkpoint_policy_tree(root)) return PlanFormat::kCheckpointPolicy;
  if (is_pipeline_answer_tree(root)) return PlanFormat::kPipelinePlan;
  if (is_piper_plan(root)) return PlanFormat::kPiperPlan;
  if (is_placement_tree(root)) return PlanFormat::kPlacement;
  if (is_dnn_partitioning_split(root)) return PlanFormat::kPlacementSplit;
  if (is_fx_partition(root)) return PlanFormat::kFxPartition;
  return PlanFormat::kShardingPlan;
}

}  // namespace

Result<PlanFile> open_plan(std::string text, std::string name) {
  PlanFile plan;
  plan.name = std::move(name);
  plan.text = std::move(text);
  auto root = parse_json(plan.text, plan.name);
  if (!root) {
    const auto graph = recognize_graph(plan.text, plan.name);
    if (!graph || graph->format != GraphFormat::kPipedream) {
      return tl::unexpected<Error>(std::move(root).error());
    }
    plan.format = PlanFormat::kStagedProfile;
    return plan;
  }
  plan.root = *std::move(root);
  plan.format = format_of(plan.root);
  return plan;
}

bool is_input(const PlanFile& plan) {
  if (plan.format != PlanFormat::kShardingPlan) return false;
  if (const JsonValue* schema = plan.root.find("schema")) {
    const auto* name = schema->as<std::string>();
    for (const std::string_view kind : {"plimsoll.model/1", "plimsoll.module_stats/1",
                                        "plimsoll.cost_graph/1", "plimsoll.fx_graph/1"}) {
      if (name != nullptr && *name == kind) return true;
    }
    return false;
  }
  // A table of a model has rows, one of a plan ranks.
  if (const JsonValue* tables = plan.root.find("tables")) {
    const auto* list = tables->as<JsonValue::Array>();
    return list != nullptr && !list->empty() && list->front().find("num_embeddings") != nullptr;
  }
  const JsonValue* modules = plan.root.find("modules");
  return (modules != nullptr && modules->as<JsonValue::Array>() != nullptr) ||
         plan.root.find("mod_stats") != nullptr;
}

bool is_of_profile(PlanFormat format) {
  return format == PlanFormat::kPipelinePlan || format == PlanFormat::kPiperPlan ||
         format == PlanFormat::kStagedProfile;
}

bool is_of_graph(PlanFormat format) {
  return format == PlanFormat::kPlacement || format == PlanFormat::kPlacementSplit ||
         format == PlanFormat::kFxPartition;
}

}  // namespace plimsoll::io
