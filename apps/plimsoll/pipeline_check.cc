// Plans of profiles, of ours and of others, read and judged.

#include "plimsoll/check/pipeline_check.h"

#include <fmt/format.h>

#include <map>
#include <set>
#include <unordered_map>
#include <utility>

#include "plimsoll/io/pipedream_graph.h"
#include "plimsoll/io/report_json.h"
#include "plimsoll/partition_case.h"
#include "plimsoll/partition_flags.h"
#include "plimsoll/partition_pipeline.h"

namespace plimsoll::app {
namespace {

using partition::PipeDreamNode;
using partition::PipeDreamProfile;
using partition::PipelinePlan;
using partition::PipelineStage;

bool is_staged_profile(std::string_view text) {
  const auto file = io::recognize_graph(std::string(text), "");
  return file && file->format == io::GraphFormat::kPipedream;
}

tl::unexpected<Error> refuse_other_form(const std::string& graph, const std::string& of) {
  return fail(ErrorCode::kUsage, graph,
              fmt::format("a plan of {}, for a graph of another form", of),
              "give the profile that it plans");
}

// The stages that the nodes of a graph.txt name, each on one device.
Result<PipelinePlan> take_stages(const PipeDreamProfile& profile, const PipeDreamProfile& staged,
                                 const std::string& file) {
  std::unordered_map<std::string_view, const PipeDreamNode*> node_of;
  for (const PipeDreamNode& node : staged.nodes) node_of.emplace(node.id, &node);
  std::map<int, PipelineStage> stages;
  const std::vector<int> kept = kept_nodes(profile);
  for (std::size_t op = 0; op < kept.size(); ++op) {
    const std::string& id = profile.nodes[kept[op]].id;
    const auto found = node_of.find(id);
    if (found == node_of.end() || !found->second->stage) {
      return fail(ErrorCode::kValue, file, fmt::format("node '{}' has no stage", id),
                  "give every node of the profile a stage_id");
    }
    PipelineStage& stage = stages[*found->second->stage];
    stage.operators.push_back(static_cast<int>(op));
    stage.choices.push_back(0);
  }
  PipelinePlan plan;
  for (auto& [number, stage] : stages) plan.stages.push_back(std::move(stage));
  return plan;
}

Result<PipelineCase> load_profile(const PartitionFlags& flags, const std::string& of) {
  PLIMSOLL_ASSIGN(PartitionCase made, load_partition_case(flags));
  if (!made.pipeline) return refuse_other_form(flags.graph, of);
  return *std::move(made.pipeline);
}

}  // namespace

bool is_pipeline_plan(std::string_view text) {
  return io::is_pipeline_answer(text) || io::is_piper_plan(text) || is_staged_profile(text);
}

Result<ReadPipelinePlan> read_pipeline_plan(PartitionFlags flags, std::string_view text,
                                            const std::string& file) {
  ReadPipelinePlan read;
  if (io::is_pipeline_answer(text)) {
    PLIMSOLL_ASSIGN(read.answer, io::read_pipeline_answer(text, file));
    if (read.answer.provenance) fill_from_provenance(read.answer.provenance->options, flags);
    PLIMSOLL_ASSIGN(read.made, load_profile(flags, "a pipeline"));
    return read;
  }
  PipelinePlan plan;
  if (io::is_piper_plan(text)) {
    PLIMSOLL_ASSIGN(read.made, load_profile(flags, "Piper's"));
    if (!read.made.piper) return refuse_other_form(flags.graph, "Piper's");
    PLIMSOLL_ASSIGN(plan, io::read_piper_plan(text, file, *read.made.piper));
  } else {
    PLIMSOLL_ASSIGN(const PipeDreamProfile staged, io::read_pipedream_graph(text, file));
    if (flags.devices.empty() && flags.on.empty()) {
      std::set<int> stages{0};
      for (const PipeDreamNode& node : staged.nodes) stages.insert(node.stage.value_or(0));
      flags.devices = {fmt::format("{}", stages.size())};
    }
    PLIMSOLL_ASSIGN(read.made, load_profile(flags, "PipeDream's"));
    if (!read.made.pipedream) return refuse_other_form(flags.graph, "PipeDream's");
    PLIMSOLL_ASSIGN(plan, take_stages(*read.made.pipedream, staged, file));
  }
  read.answer.stages = io::make_stage_entries(read.made.model, plan);
  return read;
}

int run_pipeline_check(PartitionFlags flags, std::string_view text, const std::string& file,
                       const GlobalFlags& global) {
  const auto read = read_pipeline_plan(std::move(flags), text, file);
  if (!read) return report(read.error(), global);
  const io::PipelineAnswer& answer = read->answer;
  const partition::PipelineModel& model = read->made.model;
  const auto plan = io::make_pipeline_plan(model, answer);
  if (!plan) return report(plan.error(), global);
  const auto judged = check::check_pipeline(model, *plan, {answer.slowest_ms});
  if (!judged) return report(judged.error(), global);
  if (global.json) {
    print(io::write_pipeline_report(*judged));
  } else {
    for (const check::PipelineViolation& violation : judged->violations) {
      print(fmt::format("violation {}: {}\n", std::string(to_string(violation.code)),
                        violation.message));
    }
    print(fmt::format("{}: {} violation(s), slowest stage {:.6g} ms, {} devices\n",
                      judged->is_right() ? "right" : "wrong", judged->violations.size(),
                      judged->slowest_ms, judged->num_devices));
  }
  if (!answer.input_hash.empty() && answer.input_hash != read->made.input_hash && !global.quiet) {
    print_error_text(fmt::format("warning: {}: the plan was made from another profile\n", file));
  }
  return judged->is_right() ? kExitOk : kExitViolations;
}

}  // namespace plimsoll::app
