#include "plimsoll/plans/any_plan.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <map>
#include <utility>

#include "io/documents/plan_tree.h"
#include "io/import/foreign_plan.h"
#include "io/import/fx_placement.h"
#include "io/import/plan_file.h"
#include "plimsoll/checkpoint/checkpoint_flags.h"
#include "plimsoll/common.h"
#include "plimsoll/help.h"
#include "plimsoll/io/files.h"
#include "plimsoll/partition/partition_pipeline.h"
#include "plimsoll/shard/problem_flags.h"
#include "plimsoll/text/text_layout.h"
#include "study/embedding/judged_figures.h"
#include "study/partition/profile_judging.h"

namespace plimsoll::app {
namespace {

tl::unexpected<Error> need(std::string flag, const std::string& file, std::string what) {
  return fail(ErrorCode::kUsage, std::move(flag),
              fmt::format("{} does not say what it is a plan of", file), std::move(what));
}

std::map<std::string, std::string> options_of(const study::ShardingAnswer& answer) {
  return answer.provenance ? answer.provenance->options : std::map<std::string, std::string>();
}

Result<void> load_sharding(const AnyPlanFlags& flags, const io::PlanFile& file, const AnyPlan* like,
                           AnyPlan& plan) {
  study::ShardingAnswer answer;
  const bool is_own = io::is_own_plan(file.root);
  if (is_own) {
    PLIMSOLL_ASSIGN(answer, io::read_plan_tree(file.root, file.name));
  }
  const bool has_hardware = !flags.planning.model.empty() && !flags.planning.on.empty();
  if (!is_own && !has_hardware) {
    return need(flags.planning.model.empty() ? "--model" : "--on", file.name,
                "give --model MODEL and --on HARDWARE");
  }
  if (has_hardware) {
    std::map<std::string, std::string> recorded = options_of(answer);
    const auto* other =
        like == nullptr ? nullptr : std::get_if<study::ShardingAnswer>(&like->answer);
    if (recorded.empty() && other != nullptr) recorded = options_of(*other);
    PLIMSOLL_ASSIGN(embedding::PlanningProblem problem, make_problem(flags.planning, recorded));
    if (!is_own) {
      PLIMSOLL_ASSIGN(answer.plan,
                      io::read_foreign_plan(file.root, file.name,
                                            {problem.model, problem.topology, problem.cost_model}));
    }
    if (answer.plan && answer.bill == Bill{}) {
      PLIMSOLL_RETURN_IF_ERROR(study::put_judged_figures(problem, answer, plan.warnings));
      const bool is_like_other = !flags.planning.batch_size && recorded.contains("batch_size");
      plan.rated_at =
          counted(problem.batch_size, "sample", "samples") + " per rank" +
          (is_like_other ? " (as the other plan)" : batch_size_note(flags.planning, problem));
    }
    plan.model = std::move(problem.model);
  } else if (!flags.planning.model.empty()) {
    PLIMSOLL_ASSIGN(plan.model, load_model(flags.planning.model));
  }
  plan.answer = std::move(answer);
  return {};
}

Result<void> load_placement(const AnyPlanFlags& flags, const io::PlanFile& file, AnyPlan& plan) {
  PartitionFlags partition = flags.partition;
  partition.graph = flags.planning.model;
  partition.on = flags.planning.on;
  if (!flags.planning.machine.empty()) partition.machine = flags.planning.machine;
  if (file.format == io::PlanFormat::kPipelinePlan && partition.graph.empty()) {
    PLIMSOLL_ASSIGN(plan.answer, io::read_pipeline_tree(file.root, file.name));
    return {};
  }
  if (partition.graph.empty() &&
      (io::is_of_profile(file.format) || file.format == io::PlanFormat::kPlacementSplit)) {
    return need("--model", file.name, "give --model GRAPH");
  }
  if (io::is_of_profile(file.format)) {
    PLIMSOLL_ASSIGN(ReadPipelinePlan read, read_pipeline_plan(partition, file));
    plan.answer = std::move(read.answer);
    return {};
  }
  PLIMSOLL_ASSIGN(study::PlacementAnswer answer, read_placement_answer(file));
  if (!partition.graph.empty()) {
    fill_from_answer(answer, partition);
    PLIMSOLL_ASSIGN(plan.graph, load_partition_case(partition));
  }
  if (file.format == io::PlanFormat::kPlacementSplit) {
    PLIMSOLL_ASSIGN(const ReadPlacement read, read_any_placement(file, *plan.graph));
    put_assignment(*plan.graph->costs, plan.graph->names, read.assignment, answer);
  }
  plan.answer = std::move(answer);
  return {};
}

}  // namespace

void add_any_plan_flags(CLI::App& command, AnyPlanFlags& flags) {
  command.option_defaults()->group(kCommonGroup);
  command
      .add_option(
          "--model", flags.planning.model,
          "What the plan is of: a model, module statistics or an operator graph; a file, or "
          "a name that `plimsoll models` lists. Plans of other programs need it")
      ->type_name("MODEL");
  add_problem_flags(command, flags.planning);
  add_partition_flags(command, flags.partition);
}

void add_drawing_flags(CLI::App& command, const std::string& what, std::string& file,
                       std::string& output) {
  command.option_defaults()->group(kCommonGroup);
  command
      .add_option("PLAN", file,
                  "A plan of any kind that `plimsoll check` reads; '-' for standard input")
      ->required();
  command
      .add_option("-o,--output", output,
                  "Write the " + what + " to this file instead of standard output")
      ->type_name("FILE");
}

Result<io::PlanFile> open_any_plan(const std::string& file) {
  if (!is_file_name(file)) {
    for (const InputKind kind : {InputKind::kModel, InputKind::kHardware}) {
      if (const auto known = check_kind(file, kind); !known) {
        return fail(ErrorCode::kUsage, file, known.error().message + ", not a plan",
                    "name the file of a plan");
      }
    }
  }
  PLIMSOLL_ASSIGN(std::string text, io::read_text_file(file));
  return io::open_plan(std::move(text), file);
}

Result<AnyPlan> load_any_plan(const AnyPlanFlags& flags, const std::string& file,
                              const AnyPlan* like) {
  PLIMSOLL_ASSIGN(const io::PlanFile opened, open_any_plan(file));
  return take_any_plan(flags, opened, like);
}

Result<AnyPlan> take_any_plan(const AnyPlanFlags& flags, const io::PlanFile& opened,
                              const AnyPlan* like) {
  const std::string& file = opened.name;
  if (io::is_input(opened)) {
    return fail(ErrorCode::kUsage, file, "this is a model or a graph, not a plan",
                fmt::format("name the file of a plan, and give this as --model {}", file));
  }
  AnyPlan plan;
  plan.name = file;
  switch (opened.format) {
    case io::PlanFormat::kCheckpointPolicy: {
      PLIMSOLL_ASSIGN(plan.answer, io::read_checkpoint_tree(opened.root, file));
      if (!flags.planning.model.empty()) {
        PLIMSOLL_ASSIGN(plan.stats, load_module_stats(flags.planning.model));
      }
      break;
    }
    case io::PlanFormat::kShardingPlan:
      PLIMSOLL_RETURN_IF_ERROR(load_sharding(flags, opened, like, plan));
      break;
    default:
      PLIMSOLL_RETURN_IF_ERROR(load_placement(flags, opened, plan));
  }
  return plan;
}

Result<study::PlanOutline> outline_of(const AnyPlan& plan) {
  auto outline =
      std::visit([](const auto& answer) { return study::outline_plan(answer); }, plan.answer);
  if (!outline) outline.error().place = plan.name;
  return outline;
}

Result<study::StepTimeline> predict_step_of(const AnyPlan& plan) {
  struct Predict {
    const AnyPlan& plan;
    Result<study::StepTimeline> operator()(const study::ShardingAnswer& answer) const {
      return study::predict_step(answer);
    }
    Result<study::StepTimeline> operator()(const study::CheckpointAnswer& answer) const {
      if (plan.stats) return study::predict_step(answer, *plan.stats);
      return fail(ErrorCode::kUsage, "--model",
                  "a checkpointing plan does not hold the times of its modules",
                  "give --model STATS, the statistics that it was made from");
    }
    Result<study::StepTimeline> operator()(const study::PlacementAnswer& answer) const {
      const bool has_graph = plan.graph && plan.graph->costs;
      return study::predict_step(answer, has_graph ? &*plan.graph->costs : nullptr,
                                 has_graph ? plan.graph->names : std::vector<std::string>());
    }
    Result<study::StepTimeline> operator()(const study::PipelineAnswer& answer) const {
      return study::predict_step(answer);
    }
  };
  auto timeline = std::visit(Predict{plan}, plan.answer);
  if (!timeline && timeline.error().place == "plan") timeline.error().place = plan.name;
  return timeline;
}

Result<study::PlanDifference> compare_any_plans(const AnyPlan& before, const AnyPlan& after) {
  PLIMSOLL_ASSIGN(const study::PlanOutline old_outline, outline_of(before));
  PLIMSOLL_ASSIGN(const study::PlanOutline new_outline, outline_of(after));
  const auto* old_sharding = std::get_if<study::ShardingAnswer>(&before.answer);
  const auto* new_sharding = std::get_if<study::ShardingAnswer>(&after.answer);
  if (old_sharding == nullptr || new_sharding == nullptr) {
    return study::compare_plans(old_outline, new_outline);
  }
  return study::compare_plans(*old_sharding, *new_sharding, after.model ? &*after.model : nullptr);
}

}  // namespace plimsoll::app
