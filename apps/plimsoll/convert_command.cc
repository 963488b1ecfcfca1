// plimsoll convert: plans in the forms of other programs.

#include <fmt/format.h>

#include <memory>

#include "plimsoll/common.h"
#include "plimsoll/io/files.h"
#include "plimsoll/io/foreign_plan.h"
#include "plimsoll/planning_flags.h"

namespace plimsoll::app {
namespace {

struct ConvertFlags {
  GlobalFlags global;
  PlanningFlags planning;
  std::string plan;
  std::string to = "torchrec";
  std::string output;
};

int run_convert(const ConvertFlags& flags) {
  const PlanningFlags& planning = flags.planning;
  if (const auto once = check_standard_input({planning.model, planning.on, planning.constraints,
                                              planning.checkpoint_plan, flags.plan});
      !once) {
    return report(once.error(), flags.global);
  }
  auto text = io::read_text_file(flags.plan);
  if (!text) return report(text.error(), flags.global);
  std::map<std::string, std::string> recorded;
  if (const auto own = io::read_plan(*text, flags.plan); own && own->provenance) {
    recorded = own->provenance->options;
  }
  auto problem = make_problem(flags.planning, recorded);
  if (!problem) return report(problem.error(), flags.global);
  const auto answer = io::read_any_plan(*text, flags.plan,
                                        {problem->model, problem->topology, problem->cost_model});
  if (!answer) return report(answer.error(), flags.global);
  if (!answer->plan) {
    return report({ErrorCode::kValue, flags.plan, "the answer holds no plan", "plan again", ""},
                  flags.global);
  }
  const std::string converted = flags.to == "torchrec"  ? io::write_torchrec_plan(*answer->plan)
                                : flags.to == "easyrec" ? io::write_easyrec_plan(*answer->plan)
                                                        : io::write_plan(*answer->plan);
  const bool is_file = !flags.output.empty() && flags.output != "-";
  if (is_file) {
    if (const auto written = io::write_text_file(flags.output, converted); !written) {
      return report(written.error(), flags.global);
    }
  }
  if (!is_file || flags.global.json) print(converted);
  return kExitOk;
}

}  // namespace

void add_convert_command(CLI::App& app, Run& run) {
  auto flags = std::make_shared<ConvertFlags>();
  CLI::App* command = app.add_subcommand(
      "convert", "Write a plan in another form: torchrec (every shard), easyrec or plimsoll");
  command->footer(examples(
      {"plimsoll convert model.json plan.json --on 16x40GiB --to torchrec -o torchrec.json",
       "plimsoll convert model.json checkpoint/plan --on dgx-a100-640gb:2 --to plimsoll"}));
  add_planning_flags(*command, flags->planning);
  command->add_option("PLAN", flags->plan, "The plan; '-' for standard input")->required();
  command->add_option("--to", flags->to, "torchrec, easyrec or plimsoll")
      ->check(CLI::IsMember({"torchrec", "easyrec", "plimsoll"}))
      ->capture_default_str();
  command->add_option("-o,--output", flags->output, "Write to this file instead of stdout");
  add_global_flags(*command, flags->global);
  command->callback([flags, &run] { run = [flags] { return run_convert(*flags); }; });
}

}  // namespace plimsoll::app
