// plimsoll convert: plans in the forms of other programs.

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "io/documents/fx_placement.h"
#include "io/documents/plan_tree.h"
#include "io/import/foreign_plan.h"
#include "plimsoll/common.h"
#include "plimsoll/core/suggest.h"
#include "plimsoll/io/files.h"
#include "plimsoll/partition_case.h"
#include "plimsoll/partition_flags.h"
#include "plimsoll/partition_pipeline.h"
#include "plimsoll/partition_searches.h"
#include "plimsoll/planning_flags.h"

namespace plimsoll::app {
namespace {

struct ConvertFlags {
  GlobalFlags global;
  PlanningFlags planning;
  PartitionFlags partition;
  std::string plan;
  std::string to = "torchrec";
  std::string output;
};

Result<std::string> convert_sharding(const ConvertFlags& flags, const io::PlanFile& plan) {
  if (flags.planning.on.empty()) {
    return fail(ErrorCode::kUsage, "--on", "a sharding plan is converted for its hardware",
                "name it, such as --on dgx-h100:2");
  }
  study::ShardingAnswer answer;
  const bool is_own = io::is_own_plan(plan.root);
  if (is_own) {
    PLIMSOLL_ASSIGN(answer, io::read_plan_tree(plan.root, plan.name));
  }
  PLIMSOLL_ASSIGN(
      const auto problem,
      make_problem(flags.planning, answer.provenance ? answer.provenance->options
                                                     : std::map<std::string, std::string>()));
  if (!is_own) {
    PLIMSOLL_ASSIGN(answer.plan,
                    io::read_foreign_plan(plan.root, plan.name,
                                          {problem.model, problem.topology, problem.cost_model}));
  }
  if (!answer.plan) {
    return fail(ErrorCode::kValue, plan.name, "the answer holds no plan", "plan again");
  }
  if (flags.to == "torchrec") return io::write_torchrec_plan(*answer.plan);
  if (flags.to == "easyrec") return io::write_easyrec_plan(*answer.plan);
  if (flags.to == "plimsoll") return io::write_plan(*answer.plan);
  return fail(ErrorCode::kUsage, "--to", fmt::format("'{}' is a form of placements", flags.to),
              "choose torchrec, easyrec or plimsoll");
}

Result<std::string> convert_placement(const ConvertFlags& flags, const io::PlanFile& plan) {
  const std::vector<std::string> forms = placement_export_names();
  if (std::find(forms.begin(), forms.end(), flags.to) == forms.end()) {
    return fail(ErrorCode::kUsage, "--to", fmt::format("'{}' is no form of placements", flags.to),
                suggest(flags.to, forms));
  }
  PartitionFlags filled = flags.partition;
  filled.graph = flags.planning.model;
  filled.on = flags.planning.on;
  PLIMSOLL_ASSIGN(const study::PlacementAnswer answer, read_placement_answer(plan));
  fill_from_answer(answer, filled);
  PLIMSOLL_ASSIGN(const PartitionCase made, load_partition_case(filled));
  if (made.fx) {
    PLIMSOLL_RETURN_IF_ERROR(io::take_fx_placement(answer, made.fx->graph, plan.name));
    return write_placement_export(flags.to, made, answer);
  }
  PLIMSOLL_ASSIGN(ReadPlacement placement, read_any_placement(plan, made));
  // Another program's split has no figures yet.
  if (!placement.answer.stages) {
    put_assignment(*made.costs, made.names, placement.assignment, placement.answer);
  }
  return write_placement_export(flags.to, made, placement.answer);
}

Result<std::string> convert_pipeline(const ConvertFlags& flags, const io::PlanFile& plan) {
  PartitionFlags filled = flags.partition;
  filled.graph = flags.planning.model;
  filled.on = flags.planning.on;
  PLIMSOLL_ASSIGN(const ReadPipelinePlan read, read_pipeline_plan(std::move(filled), plan));
  return write_pipeline_export(read.made, read.answer, flags.to, "--to");
}

Result<std::string> convert(const ConvertFlags& flags, const io::PlanFile& plan) {
  if (io::is_of_profile(plan.format)) return convert_pipeline(flags, plan);
  if (io::is_of_graph(plan.format)) return convert_placement(flags, plan);
  return convert_sharding(flags, plan);
}

int run_convert(const ConvertFlags& flags) {
  const PlanningFlags& planning = flags.planning;
  const auto plan = load_plan(planning, flags.plan);
  if (!plan) return report(plan.error(), flags.global);
  const auto converted = convert(flags, *plan);
  if (!converted) return report(converted.error(), flags.global);
  const bool is_file = !flags.output.empty() && flags.output != "-";
  if (is_file) {
    if (const auto written = io::write_text_file(flags.output, *converted); !written) {
      return report(written.error(), flags.global);
    }
  }
  if (!is_file || flags.global.json) print(*converted);
  return kExitOk;
}

}  // namespace

void add_convert_command(CLI::App& app, Run& run) {
  auto flags = std::make_shared<ConvertFlags>();
  CLI::App* command =
      app.add_subcommand("convert", "Write a plan, or a placement of operators, in another form");
  command->footer(examples(
      {"plimsoll convert model.json plan.json --on 16x40GiB --to torchrec -o torchrec.json",
       "plimsoll convert model.json checkpoint/plan --on dgx-a100-640gb:2 --to plimsoll",
       "plimsoll convert graph.json placement.json --to dnn_partitioning"}));
  add_planning_flags(*command, flags->planning);
  command->get_option("--on")->required(false);
  command->get_option("MODEL")->description(
      "A model file, '-' for standard input, or the name of a shipped model; of a placement the "
      "operator graph");
  add_partition_flags(*command, flags->partition);
  command->add_option("PLAN", flags->plan, "The plan; '-' for standard input")->required();
  std::vector<std::string> forms = {"torchrec", "easyrec", "pipedream", "piper"};
  for (const std::string& form : placement_export_names()) forms.push_back(form);
  command
      ->add_option(
          "--to", flags->to,
          "Of a sharding plan torchrec (every shard), easyrec or plimsoll; of a placement, "
          "or of a profile's plan, a form that partition --export knows")
      ->check(CLI::IsMember(forms))
      ->capture_default_str();
  command->add_option("-o,--output", flags->output, "Write to this file instead of stdout");
  add_global_flags(*command, flags->global);
  command->callback([flags, &run] { run = [flags] { return run_convert(*flags); }; });
}

}  // namespace plimsoll::app
