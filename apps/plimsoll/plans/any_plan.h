// A plan of whatever planner, as the commands read it that take plans of all of them.
#pragma once

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "io/import/plan_file.h"
#include "plimsoll/checkpoint/module_stats.h"
#include "plimsoll/core/outcome.h"
#include "plimsoll/core/result.h"
#include "plimsoll/embedding/model.h"
#include "plimsoll/partition/partition_case.h"
#include "plimsoll/partition/partition_flags.h"
#include "plimsoll/shard/planning_flags.h"
#include "plimsoll/study/plan_difference.h"
#include "plimsoll/study/plan_outline.h"
#include "plimsoll/study/step_timeline.h"
#include "study/partition/pipeline_answer.h"

namespace CLI {
class App;
}

namespace plimsoll::app {

// What the plan is of, where it has to be told: --model, --on and what else describes a problem.
struct AnyPlanFlags {
  PlanningFlags planning;
  PartitionFlags partition;
};
void add_any_plan_flags(CLI::App& command, AnyPlanFlags& flags);
// PLAN and -o of a command that draws it, a "page" or a "trace".
void add_drawing_flags(CLI::App& command, const std::string& what, std::string& file,
                       std::string& output);

struct AnyPlan {
  std::string name;
  std::variant<study::ShardingAnswer, study::CheckpointAnswer, study::PlacementAnswer,
               study::PipelineAnswer>
      answer;
  // What the plan is of, where --model names it.
  std::optional<embedding::Model> model;
  std::optional<checkpoint::ModuleStats> stats;
  std::optional<PartitionCase> graph;
  std::vector<Warning> warnings;
  // Of a sharding plan that states no figures: what they are computed for, "512 samples per rank".
  std::string rated_at;
};

// The plan of a file ("-": standard input) with its figures: those that it states, else those that
// the checker computes where --model, and of a sharding plan --on, are given. Errors: kUsage where
// another program's plan needs them, and those of reading. `like`: a plan whose recorded options
// stand for those that neither the flags nor this plan give.
Result<AnyPlan> load_any_plan(const AnyPlanFlags& flags, const std::string& file,
                              const AnyPlan* like = nullptr);

// Its steps: the document, where the name is not that of something else, and the document's plan.
Result<io::PlanFile> open_any_plan(const std::string& file);
Result<AnyPlan> take_any_plan(const AnyPlanFlags& flags, const io::PlanFile& opened,
                              const AnyPlan* like = nullptr);

// Error kValue at the file: an answer without a plan.
Result<study::PlanOutline> outline_of(const AnyPlan& plan);

// The step that it predicts. Errors as study::predict_step says, the plan's at its file; kUsage, at
// --model: a plan whose times stand in what it is of.
Result<study::StepTimeline> predict_step_of(const AnyPlan& plan);

// What differs between two of them, with what has to be moved. Errors as study::compare_plans says.
Result<study::PlanDifference> compare_any_plans(const AnyPlan& before, const AnyPlan& after);

}  // namespace plimsoll::app
