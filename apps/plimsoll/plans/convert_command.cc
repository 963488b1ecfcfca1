// plimsoll convert: plans in the forms of other programs.

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "core/suggest.h"
#include "io/documents/plan_tree.h"
#include "io/import/foreign_plan.h"
#include "io/import/fx_placement.h"
#include "plimsoll/check/sharding_check.h"
#include "plimsoll/common.h"
#include "plimsoll/help.h"
#include "plimsoll/io/files.h"
#include "plimsoll/partition/partition_case.h"
#include "plimsoll/partition/partition_flags.h"
#include "plimsoll/partition/partition_pipeline.h"
#include "plimsoll/partition/partition_searches.h"
#include "plimsoll/shard/planning_flags.h"
#include "plimsoll/shard/shard_flags.h"
#include "plimsoll/text/text_layout.h"
#include "study/partition/placement_judging.h"
#include "study/partition/profile_judging.h"

namespace plimsoll::app {
namespace {

struct ConvertFlags {
  GlobalFlags global;
  PlanningFlags planning;
  PartitionFlags partition;
  std::string plan;
  std::string to = "torchrec";
  std::string output;
  bool force = false;
};

// What `plimsoll check` refuses is not written, unless it is forced.
Result<void> check_right(const ConvertFlags& flags, const io::PlanFile& plan,
                         const check::CheckReport& report) {
  if (flags.force || report.is_right()) return {};
  const std::vector<check::Finding> violations = report.violations();
  return fail(
      ErrorCode::kConflict, plan.name,
      fmt::format("the plan is wrong: {} ({})", violations.front().message,
                  counted(static_cast<std::int64_t>(violations.size()), "violation", "violations")),
      "see plimsoll check; --force writes it anyway");
}

// Its own claims are not of interest here.
study::PlanMaking without_claims() { return {{}, "", true, false}; }

Result<std::string> convert_sharding(const ConvertFlags& flags, const io::PlanFile& plan) {
  if (flags.planning.on.empty()) {
    return fail(ErrorCode::kUsage, "--on", "converting a sharding plan needs its hardware",
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
  check::CheckOptions rules;
  rules.batch_size = problem.batch_size;
  rules.reservation = problem.reservation;
  rules.fqn_constraints = problem.enumeration.fqn_constraints;
  rules.global_constraints = problem.enumeration.global_constraints;
  rules.is_whole = false;
  if (answer.provenance) {
    PLIMSOLL_ASSIGN(const auto recorded, read_recorded_balance(answer.provenance->options));
    rules.pools_ddr = recorded.bridge.pools_ddr;
  }
  PLIMSOLL_ASSIGN(const check::ShardingReport report,
                  check::check_sharding(problem.model, *answer.plan, problem.topology,
                                        problem.cost_model, problem.mode, rules));
  PLIMSOLL_RETURN_IF_ERROR(check_right(flags, plan, report));
  if (flags.to == "torchrec") return io::write_torchrec_plan(*answer.plan);
  if (flags.to == "easyrec") return io::write_easyrec_plan(*answer.plan);
  if (flags.to == "plimsoll") return io::write_plan(*answer.plan);
  return fail(ErrorCode::kUsage, "--to",
              fmt::format("sharding plans cannot be written as '{}'", flags.to),
              "choose torchrec, easyrec or plimsoll");
}

Result<std::string> convert_placement(const ConvertFlags& flags, const io::PlanFile& plan) {
  const std::vector<std::string> forms = placement_export_names();
  if (std::find(forms.begin(), forms.end(), flags.to) == forms.end()) {
    return fail(ErrorCode::kUsage, "--to",
                fmt::format("placements cannot be written as '{}'", flags.to),
                suggest(flags.to, forms));
  }
  PartitionFlags filled = flags.partition;
  filled.graph = flags.planning.model;
  filled.on = flags.planning.on;
  if (!flags.planning.machine.empty()) filled.machine = flags.planning.machine;
  PLIMSOLL_ASSIGN(const study::PlacementAnswer answer, read_placement_answer(plan));
  fill_from_answer(answer, filled);
  PLIMSOLL_ASSIGN(const PartitionCase made, load_partition_case(filled));
  if (made.fx) {
    PLIMSOLL_ASSIGN(const partition::Placement placement,
                    io::take_fx_placement(answer, made.fx->graph, plan.name));
    PLIMSOLL_ASSIGN(const check::CriticalPathReport report,
                    study::judge_fx(*made.fx, answer, placement, without_claims()));
    PLIMSOLL_RETURN_IF_ERROR(check_right(flags, plan, report));
    return write_placement_export(flags.to, made, answer);
  }
  PLIMSOLL_ASSIGN(ReadPlacement placement, read_any_placement(plan, made));
  PLIMSOLL_ASSIGN(const check::PlacementReport report,
                  study::judge_assignment(made, placement.answer, placement.assignment,
                                          without_claims(), false));
  PLIMSOLL_RETURN_IF_ERROR(check_right(flags, plan, report));
  // Another program's split has no figures yet.
  if (!placement.answer.plan) {
    put_assignment(*made.costs, made.names, placement.assignment, placement.answer);
  }
  return write_placement_export(flags.to, made, placement.answer);
}

Result<std::string> convert_pipeline(const ConvertFlags& flags, const io::PlanFile& plan) {
  PartitionFlags filled = flags.partition;
  filled.graph = flags.planning.model;
  filled.on = flags.planning.on;
  if (!flags.planning.machine.empty()) filled.machine = flags.planning.machine;
  PLIMSOLL_ASSIGN(const ReadPipelinePlan read, read_pipeline_plan(std::move(filled), plan));
  PLIMSOLL_ASSIGN(const check::PipelineReport report,
                  study::judge_profile_plan(read.made.model, read.answer, {}, false, false));
  PLIMSOLL_RETURN_IF_ERROR(check_right(flags, plan, report));
  return write_pipeline_export(read.made, read.answer, flags.to, "--to");
}

Result<std::string> convert(const ConvertFlags& flags, const io::PlanFile& plan) {
  if (io::is_of_profile(plan.format)) return convert_pipeline(flags, plan);
  if (io::is_of_graph(plan.format)) return convert_placement(flags, plan);
  if (plan.format == io::PlanFormat::kCheckpointPolicy) {
    return fail(
        ErrorCode::kUsage, plan.name, "a policy of checkpointing has no other form",
        "torch programs apply it by plimsoll.checkpointing; `plimsoll checkpoint --frontier "
        "--json` lists every budget");
  }
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
  if (!is_file || flags.global.json) {
    print(*converted);
  } else {
    print(in_lines(fmt::format("{}: the plan {} in the form of {}\n", shown(flags.output),
                               shown(plan->name), flags.to),
                   2));
  }
  return kExitOk;
}

}  // namespace

void add_convert_command(CLI::App& app, Run& run) {
  auto flags = std::make_shared<ConvertFlags>();
  CLI::App* command =
      app.add_subcommand("convert", "Write a plan in another form, such as TorchRec's");
  add_planning_flags(*command, flags->planning);
  command->get_option("--on")->required(false);
  command->get_option("MODEL")->description(
      "What the plan is of: a model or an operator graph; a file, '-' for standard input, or a "
      "name that `plimsoll models` lists");
  command->option_defaults()->group(kCommonGroup);
  command->add_option("PLAN", flags->plan, "The plan; '-' for standard input")->required();
  std::vector<std::string> forms = {"torchrec", "easyrec", "pipedream", "piper"};
  for (const std::string& form : placement_export_names()) forms.push_back(form);
  command
      ->add_option("--to", flags->to,
                   "For a sharding plan torchrec (every shard), easyrec or plimsoll; for other "
                   "plans, a form of `plimsoll partition --export`")
      ->check(CLI::IsMember(forms))
      ->capture_default_str();
  command->add_option("-o,--output", flags->output, "Write to this file instead")
      ->type_name("FILE");
  command->add_flag("--force", flags->force,
                    "Write the plan even if `plimsoll check` finds violations");
  add_partition_flags(*command, flags->partition);
  add_global_flags(*command, flags->global, Details::kNone);
  set_help(*command,
           {{kCommonGroup,
             "plimsoll convert model.json plan.json --on 16x40GiB --to torchrec -o torchrec.json"},
            {"Devices and rules",
             "plimsoll convert graph.json placement.json --to dnn_partitioning --devices 4"}},
           {"convert model.json plan.json --on 8x80GiB", "", "convert graph.json placement.json"});
  command->callback([flags, &run] { run = [flags] { return run_convert(*flags); }; });
}

}  // namespace plimsoll::app
