// Plans of profiles, of ours and of others, read and judged.

#include "plimsoll/check/pipeline_check.h"

#include <fmt/format.h>

#include <map>
#include <set>
#include <unordered_map>
#include <utility>

#include "core/search_record.h"
#include "io/documents/plan_tree.h"
#include "io/documents/report_json.h"
#include "io/import/pipedream_graph.h"
#include "plimsoll/partition/partition_case.h"
#include "plimsoll/partition/partition_flags.h"
#include "plimsoll/partition/partition_pipeline.h"
#include "plimsoll/text/certificate_text.h"
#include "study/partition/profile_judging.h"

namespace plimsoll::app {
namespace {

using partition::PipeDreamNode;
using partition::PipeDreamProfile;
using partition::PipelinePlan;
using partition::PipelineStage;

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

std::vector<std::string> contradictions_of(const ReadPipelinePlan& read) {
  const study::PipelineAnswer& answer = read.answer;
  std::vector<std::string> found;
  if (!answer.input_hash.empty() && answer.input_hash != read.made.input_hash) {
    found.emplace_back("the plan was made from another profile");
  }
  if (!answer.objective.empty() && answer.objective != study::kSlowestStage &&
      answer.objective != study::kBatch) {
    found.push_back(fmt::format("objective: there is no '{}'", answer.objective));
  }
  if (answer.objective == study::kBatch && !read.made.model.num_microbatches) {
    found.emplace_back("objective: a batch without microbatches");
  }
  if (answer.num_devices && *answer.num_devices != read.made.model.num_devices) {
    found.push_back(fmt::format("num_devices: stated {}, checked with {}", *answer.num_devices,
                                read.made.model.num_devices));
  }
  if (!answer.provenance) return found;
  for (const auto& [name, hash] : answer.provenance->inputs) {
    if (name == "graph" && hash == read.made.input_hash) continue;
    found.push_back(fmt::format("provenance/inputs/{}: made from something else", name));
  }
  constexpr const char* kProfileSearchOptions[] = {"search", "effort", "tolerance"};
  PartitionFlags own;
  const auto& recorded = answer.provenance->options;
  fill_from_provenance(recorded, own);
  for (std::string& fault : faults_of_options(recorded, own, kProfileSearchOptions)) {
    found.push_back(std::move(fault));
  }
  const auto search = read_search_record(recorded).search;
  if (search && *search != "replicated" && *search != "pipedream") {
    found.push_back(fmt::format("provenance/options/search: no search '{}'", *search));
  }
  return found;
}

}  // namespace

Result<ReadPipelinePlan> read_pipeline_plan(PartitionFlags flags, const io::PlanFile& file) {
  ReadPipelinePlan read;
  if (file.format == io::PlanFormat::kPipelinePlan) {
    PLIMSOLL_ASSIGN(read.answer, io::read_pipeline_tree(file.root, file.name));
    if (read.answer.provenance) fill_from_provenance(read.answer.provenance->options, flags);
    PLIMSOLL_ASSIGN(read.made, load_profile(flags, "a pipeline"));
    return read;
  }
  PipelinePlan plan;
  if (file.format == io::PlanFormat::kPiperPlan) {
    PLIMSOLL_ASSIGN(read.made, load_profile(flags, "Piper's"));
    if (!read.made.piper) return refuse_other_form(flags.graph, "Piper's");
    PLIMSOLL_ASSIGN(plan, io::read_piper_plan(file.root, file.name, *read.made.piper));
  } else {
    PLIMSOLL_ASSIGN(const PipeDreamProfile staged, io::read_pipedream_graph(file.text, file.name));
    if (flags.devices.empty() && flags.on.empty()) {
      std::set<int> stages{0};
      for (const PipeDreamNode& node : staged.nodes) stages.insert(node.stage.value_or(0));
      flags.devices = {fmt::format("{}", stages.size())};
    }
    PLIMSOLL_ASSIGN(read.made, load_profile(flags, "PipeDream's"));
    if (!read.made.pipedream) return refuse_other_form(flags.graph, "PipeDream's");
    PLIMSOLL_ASSIGN(plan, take_stages(*read.made.pipedream, staged, file.name));
  }
  read.answer.plan = study::make_stage_entries(read.made.model, plan);
  return read;
}

int run_pipeline_check(const PartitionFlags& flags, const io::PlanFile& plan, bool is_strict,
                       const GlobalFlags& global) {
  const auto read = read_pipeline_plan(flags, plan);
  if (!read) return report(read.error(), global);
  auto judged = study::judge_profile_plan(read->made.model, read->answer, contradictions_of(*read),
                                          flags.straight, is_strict);
  if (!judged) return report(judged.error(), global);
  if (global.json) {
    print(io::write_pipeline_report(*judged));
  } else {
    print(verdict(*judged, false, global) +
          fmt::format(", slowest stage {}, {}\n", ms_text(judged->slowest_ms),
                      counted(judged->num_devices, "device", "devices")) +
          judgement_line("certificate", judged->certificate, global) +
          findings_text(*judged, global));
  }
  return judged->is_right() ? kExitOk : kExitViolations;
}

}  // namespace plimsoll::app
