// Plans of profiles, of ours and of others, read and judged.

#include "plimsoll/check/pipeline_check.h"

#include <fmt/format.h>

#include <map>
#include <set>
#include <unordered_map>
#include <utility>

#include "check/partition/placement_claims.h"
#include "io/documents/report_json.h"
#include "io/import/pipedream_graph.h"
#include "plimsoll/certificate_text.h"
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

constexpr const char* kSlowest = "slowest_stage";
constexpr const char* kBatch = "batch";

std::vector<std::string> contradictions_of(const ReadPipelinePlan& read) {
  const io::PipelineAnswer& answer = read.answer;
  std::vector<std::string> found;
  if (!answer.input_hash.empty() && answer.input_hash != read.made.input_hash) {
    found.emplace_back("the plan was made from another profile");
  }
  if (!answer.objective.empty() && answer.objective != kSlowest && answer.objective != kBatch) {
    found.push_back(fmt::format("objective: there is no '{}'", answer.objective));
  }
  if (answer.objective == kBatch && !read.made.model.num_microbatches) {
    found.emplace_back("objective: a batch without microbatches");
  }
  if (answer.num_devices && *answer.num_devices != read.made.model.num_devices) {
    found.push_back(fmt::format("num_devices: stated {}, judged on {}", *answer.num_devices,
                                read.made.model.num_devices));
  }
  if (!answer.provenance) return found;
  for (const auto& [name, hash] : answer.provenance->inputs) {
    if (name == "graph" && hash == read.made.input_hash) continue;
    found.push_back(fmt::format("provenance/inputs/{}: made from something else", name));
  }
  constexpr const char* kSearchOptions[] = {"search", "effort", "tolerance"};
  PartitionFlags own;
  const auto& recorded = answer.provenance->options;
  fill_from_provenance(recorded, own);
  for (std::string& fault : faults_of_options(recorded, own, kSearchOptions)) {
    found.push_back(std::move(fault));
  }
  const auto search = recorded.find("search");
  if (search != recorded.end() && search->second != "replicated" && search->second != "pipedream") {
    found.push_back(fmt::format("provenance/options/search: no search '{}'", search->second));
  }
  return found;
}

std::string missing_in(const io::PipelineAnswer& answer) {
  if (!answer.provenance) return "provenance";
  if (!answer.status) return "status";
  if (answer.objective.empty() || !answer.certificate) return "objective";
  if (answer.input_hash.empty() || answer.provenance->inputs.empty()) return "input hashes";
  if (!answer.provenance->options.contains("search")) return "search";
  if (!answer.num_devices || (answer.stages && !answer.slowest_ms)) return "figures";
  for (const auto& stage : answer.stages.value_or(std::vector<io::PipelineStageEntry>{})) {
    if (!stage.time_ms || !stage.in_flight || !stage.memory) return "figures";
  }
  return "";
}

// What the plan says of its making decides what it claims; other flags let its figures differ.
Result<check::PipelineReport> judge_plan(const ReadPipelinePlan& read, const PartitionFlags& flags,
                                         bool is_strict) {
  const io::PipelineAnswer& answer = read.answer;
  const partition::PipelineModel& model = read.made.model;
  check::PipelineCheckOptions options;
  options.stated_slowest_ms = answer.slowest_ms;
  options.contradictions = contradictions_of(read);
  options.claims = {answer.stages.has_value(), true, answer.status, answer.certificate,
                    missing_in(answer)};
  options.is_batch = answer.objective == kBatch;
  std::map<std::string, std::string> recorded;
  if (answer.provenance) recorded = answer.provenance->options;
  options.is_straight = recorded.contains("straight") || flags.straight;
  options.is_of_reference = recorded.contains("search") && recorded.at("search") == "pipedream";
  options.strict = is_strict;
  check::PipelineReport judged;
  if (answer.stages || answer.status != SolveStatus::kInfeasible) {
    PLIMSOLL_ASSIGN(const PipelinePlan plan, io::make_pipeline_plan(model, answer));
    for (const io::PipelineStageEntry& stage : *answer.stages) {
      options.stated.push_back({stage.time_ms, stage.in_flight, stage.memory});
    }
    PLIMSOLL_ASSIGN(judged, check::check_pipeline(model, plan, options));
  }
  std::optional<double> value;
  options.claims.is_right = judged.is_right();
  if (answer.stages && judged.is_right()) value = pipeline_value(model, judged, options.is_batch);
  judged.certificate =
      options.is_of_reference
          ? check::judge_certificate(
                options.claims,
                {{}, {}, {}, false, "", "PipeDream's optimizer has rules of its own"})
          : check::judge_profile_claims(model, options.is_batch, options.is_straight,
                                        options.claims, value);
  const bool is_refused =
      judged.certificate.status == check::CertificateStatus::kRefuted ||
      (is_strict && judged.certificate.status == check::CertificateStatus::kNotRepeated);
  if (is_refused && judged.is_right()) {
    judged.violations.push_back(
        {check::PipelineViolationCode::kBoundNotProved, {}, {}, judged.certificate.reason});
  }
  return judged;
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
                       bool is_strict, const GlobalFlags& global) {
  const auto read = read_pipeline_plan(flags, text, file);
  if (!read) return report(read.error(), global);
  auto judged = judge_plan(*read, flags, is_strict);
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
    print(certificate_line(judged->certificate, global));
  }
  return judged->is_right() ? kExitOk : kExitViolations;
}

}  // namespace plimsoll::app
