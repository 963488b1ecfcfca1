#include "plimsoll/partition_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <unordered_map>
#include <utility>
#include <vector>

#include "check/partition/placement_claims.h"
#include "check/partition/stated_placement.h"
#include "io/documents/fx_placement.h"
#include "io/documents/report_json.h"
#include "partition/fx/split.h"
#include "plimsoll/certificate_text.h"
#include "plimsoll/check/critical_path_check.h"
#include "plimsoll/check/latency_check.h"
#include "plimsoll/check/pipeline_placement_check.h"
#include "plimsoll/check/placement_check.h"
#include "plimsoll/partition_case.h"
#include "plimsoll/partition_searches.h"
#include "plimsoll/text_table.h"

namespace plimsoll::app {
namespace {

using io::PlacementAnswer;
using partition::Objective;

std::string text_of(const check::PlacementReport& report, const PartitionCase& made,
                    const GlobalFlags& global) {
  std::string text;
  for (const check::PlacementViolation& violation : report.violations) {
    text += fmt::format(
        "{} {}{}{}: {}\n", paint("violation", Tone::kBad, global), to_string(violation.code),
        violation.node ? ", node " + made.names[*violation.node] : "",
        violation.device ? fmt::format(", device {}", *violation.device) : "", violation.message);
  }
  text += fmt::format(
      "{}: {} violation(s), {}largest load {:.6g} ms, {}\n",
      report.is_right() ? paint("right", Tone::kGood, global) : paint("wrong", Tone::kBad, global),
      report.violations.size(),
      report.batch_ms ? fmt::format("batch {:.6g} ms, ", *report.batch_ms) : "", report.max_load,
      report.is_line ? "contiguous" : "not contiguous");
  text += certificate_line(report.certificate, global);
  if (global.verbosity == 0) return text;
  TextTable devices({"device", "compute ms", "transfer ms", "load ms", "memory"},
                    {true, true, true, true, true});
  for (std::size_t d = 0; d < report.load_ms.size(); ++d) {
    devices.add({fmt::format("{}", d), fmt::format("{:.4f}", report.compute_ms[d]),
                 fmt::format("{:.4f}", report.transfer_ms[d]),
                 fmt::format("{:.4f}", report.load_ms[d]), format_bytes(report.memory[d])});
  }
  return text + devices.text();
}

check::StatedDevice stated_by(const io::PlacedStage& stage) {
  return {stage.compute_ms, stage.transfer_ms, stage.load_ms, stage.memory};
}

// What a placement says of its devices; a stage on a device that does not exist says nothing.
std::vector<check::StatedDevice> stated_devices(const io::PlacementAnswer& answer,
                                                int num_devices) {
  std::vector<check::StatedDevice> stated(static_cast<std::size_t>(num_devices));
  for (const io::PlacedStage& stage : *answer.stages) {
    const int device = stage.devices.front();
    if (device < 0 || device >= num_devices) continue;
    stated[device] = stated_by(stage);
  }
  return stated;
}

// Made by a search whose stages need not stand in a line? Its bound is of all placements.
bool is_general(const PlacementAnswer& answer) {
  if (!answer.provenance) return !answer.is_contiguous.value_or(false);
  const auto search = answer.provenance->options.find("search");
  return search == answer.provenance->options.end() || search->second != "contiguous";
}

// The stated objective, where there is one and it is a number.
std::optional<double> stated_objective(const PlacementAnswer& answer) {
  if (!answer.certificate || std::isnan(answer.certificate->objective)) return {};
  return answer.certificate->objective;
}

// What a document says besides, and under which rules it is judged.
struct Making {
  std::vector<std::string> contradictions;
  std::string missing;  // of what a planner says
  bool is_for_other_rules = false;
  bool is_strict = false;
  bool has_claims() const { return !is_for_other_rules; }
};

check::CertificateClaims claims_of(const PlacementAnswer& answer, const Making& making,
                                   bool is_right) {
  return {answer.stages.has_value(), is_right, answer.status, answer.certificate, making.missing};
}

constexpr const char* kOtherRules = "judged by other rules than it was made by";

// Refuted, or under --strict not repeated.
bool is_refused(const check::CertificateJudgement& certificate, const Making& making) {
  return certificate.status == check::CertificateStatus::kRefuted ||
         (making.is_strict && certificate.status == check::CertificateStatus::kNotRepeated);
}

void put_certificate(check::CertificateJudgement certificate, const Making& making,
                     check::PlacementReport& report) {
  report.certificate = std::move(certificate);
  if (!is_refused(report.certificate, making) || !report.is_right()) return;
  report.violations.push_back(
      {check::PlacementViolationCode::kBoundNotProved, {}, {}, report.certificate.reason});
}

// By other rules the plan's own figures are others, too; only what contradicts itself is refuted.
check::CertificateJudgement judge_by_other_rules(const check::CertificateClaims& claims) {
  check::KnownOptimum known;
  known.obstacle = kOtherRules;
  return judge_certificate(claims, known);
}

check::StatedPlacement stated_placement(const PlacementAnswer& answer,
                                        const std::vector<std::string>& names,
                                        const Making& making) {
  check::StatedPlacement stated;
  stated.is_pipeline = answer.objective == Objective::kPipeline;
  stated.is_contiguous = answer.is_contiguous;
  stated.contradictions = making.contradictions;
  for (const io::PlacedStage& stage : *answer.stages) {
    stated.places.push_back({stage.devices, stage.device_class, stage.memory_cap,
                             stage.in_flight.has_value() || stage.sync_ms.has_value()});
    if (stage.id)
      stated.contradictions.emplace_back("stages/id: only torch.fx's partitions have one");
  }
  if (!answer.node_to_partition.empty() || !answer.calls.empty()) {
    stated.contradictions.emplace_back("node_to_partition, calls: only of torch.fx's partitions");
  }
  stated.has_cuts = !answer.cuts.empty();
  for (const io::PlacedCut& cut : answer.cuts) {
    const auto name = std::find(names.begin(), names.end(), cut.producer);
    check::StatedCut& taken = stated.cuts.emplace_back();
    taken.producer = name == names.end() ? -1 : static_cast<int>(name - names.begin());
    taken.from = cut.from;
    taken.to = cut.to;
    std::sort(taken.to.begin(), taken.to.end());
    taken.amount = cut.amount;
    taken.ms = cut.ms;
  }
  return stated;
}

void add_stated(const PartitionCase& made, const PlacementAnswer& answer, const Making& making,
                const std::vector<int>& stage_of, check::PlacementReport& judged) {
  const bool has_all = std::all_of(stage_of.begin(), stage_of.end(), [](int s) { return s >= 0; });
  const bool has_devices =
      std::all_of(answer.stages->begin(), answer.stages->end(), [&](const io::PlacedStage& stage) {
        return !stage.devices.empty() &&
               std::all_of(stage.devices.begin(), stage.devices.end(), [&](int device) {
                 return device >= 0 && device < made.costs->num_devices();
               });
      });
  check::StatedPlacement stated = stated_placement(answer, made.names, making);
  stated.has_cuts &= has_all && has_devices;  // else it is a violation already
  for (auto& violation : check_stated_placement(*made.costs, stage_of, judged, stated)) {
    judged.violations.push_back(std::move(violation));
  }
}

// The stage of every node, -1: none, or several.
std::vector<int> stages_of(const PlacementAnswer& answer, const std::vector<std::string>& names) {
  std::unordered_map<std::string_view, int> stage_of;
  for (std::size_t s = 0; s < answer.stages->size(); ++s) {
    for (const std::string& node : (*answer.stages)[s].nodes) {
      stage_of.emplace(node, static_cast<int>(s));
    }
  }
  std::vector<int> stages;
  for (const std::string& name : names) {
    const auto found = stage_of.find(name);
    stages.push_back(found == stage_of.end() ? -1 : found->second);
  }
  return stages;
}

// The value of a plan without violations.
std::optional<double> value_if_right(const check::PlacementReport& judged, double value) {
  if (!judged.is_right()) return std::nullopt;
  return value;
}

Result<check::PlacementReport> judge_pipeline(const PartitionCase& made,
                                              const PlacementAnswer& answer, const Making& making,
                                              const std::string& file) {
  PLIMSOLL_ASSIGN(const partition::PipelinePlacement placement,
                  io::take_pipeline(answer, made.names, file));
  check::PipelinePlacementCheckOptions options;
  options.stated_batch_ms = stated_objective(answer);
  options.stated_classes = answer.classes;
  for (const io::PlacedStage& stage : *answer.stages) {
    options.stated.push_back({stated_by(stage), stage.sync_ms, stage.in_flight});
  }
  PLIMSOLL_ASSIGN(check::PlacementReport judged,
                  check::check_pipeline_placement(*made.costs, *made.terms, placement, options));
  add_stated(made, answer, making, stages_of(answer, made.names), judged);
  const check::CertificateClaims claims = claims_of(answer, making, judged.is_right());
  put_certificate(making.has_claims() ? judge_batch_claims(*made.costs, *made.terms, claims,
                                                           value_if_right(judged, *judged.batch_ms))
                                      : judge_by_other_rules(claims),
                  making, judged);
  return judged;
}

Result<check::PlacementReport> judge_assignment(const PartitionCase& made,
                                                const ReadPlacement& placement,
                                                const Making& making, bool requires_contiguity) {
  const PlacementAnswer& answer = placement.answer;
  check::PlacementCheckOptions options;
  options.requires_contiguity = requires_contiguity || answer.is_contiguous.value_or(false);
  if (answer.stages) {
    options.stated = stated_devices(answer, made.costs->num_devices());
    options.stated_classes = answer.classes;
    if (answer.objective == Objective::kThroughput) {
      options.stated_max_load = stated_objective(answer);
    }
  }
  PLIMSOLL_ASSIGN(check::PlacementReport judged,
                  check::check_placement(*made.costs, placement.assignment, options));
  double value = judged.max_load;
  if (answer.objective == Objective::kLatency) {
    PLIMSOLL_ASSIGN(
        const check::LatencyReport latency,
        check::check_latency(*made.costs, placement.assignment, stated_objective(answer)));
    value = latency.latency_ms;
    using Code = check::PlacementViolationCode;  // the others were found already
    for (const check::PlacementViolation& violation : latency.violations) {
      if (violation.code == Code::kTasksWait || violation.code == Code::kLatencyMismatch) {
        judged.violations.push_back(violation);
      }
    }
  }
  if (!answer.stages) return judged;  // another program's split
  add_stated(made, answer, making, stages_of(answer, made.names), judged);
  const check::CertificateClaims claims = claims_of(answer, making, judged.is_right());
  if (!making.has_claims()) {
    put_certificate(judge_by_other_rules(claims), making, judged);
  } else if (answer.objective == Objective::kLatency) {
    put_certificate(judge_latency_claims(*made.costs, claims, value_if_right(judged, value)),
                    making, judged);
  } else {
    put_certificate(judge_throughput_claims(*made.costs, claims, value_if_right(judged, value),
                                            !is_general(answer)),
                    making, judged);
  }
  return judged;
}

// That there is no plan.
check::PlacementReport judge_no_placement(const PartitionCase& made, const PlacementAnswer& answer,
                                          const Making& making) {
  check::PlacementReport report;
  for (const std::string& contradiction : making.contradictions) {
    report.violations.push_back(
        {check::PlacementViolationCode::kWrongInput, {}, {}, contradiction});
  }
  const check::CertificateClaims claims = claims_of(answer, making, true);
  if (!making.has_claims()) {
    put_certificate(judge_by_other_rules(claims), making, report);
  } else if (made.terms) {
    put_certificate(judge_batch_claims(*made.costs, *made.terms, claims, {}), making, report);
  } else if (answer.objective == Objective::kLatency) {
    put_certificate(judge_latency_claims(*made.costs, claims, {}), making, report);
  } else {
    put_certificate(judge_throughput_claims(*made.costs, claims, {}, !is_general(answer)), making,
                    report);
  }
  return report;
}

// ---------------------------------------------------------------- torch.fx

constexpr double kMsPerSecond = 1000;

bool has_latencies(const io::FxInput& input) {
  const auto& latencies = input.config.node_to_latency_mapping;
  if (latencies.empty() || input.config.transfer_rate_bytes_per_sec == 0) return false;
  for (int node = 0; node < input.graph.num_nodes(); ++node) {
    if (input.graph.is_operator(node) && !latencies[node]) return false;
  }
  return true;
}

std::string text_of(const check::CriticalPathReport& report, const io::FxInput& input,
                    const GlobalFlags& global) {
  std::string text;
  for (const check::PartitionViolation& violation : report.violations) {
    text += fmt::format("{} {}{}{}: {}\n", paint("violation", Tone::kBad, global),
                        to_string(violation.code), violation.place.empty() ? "" : ", ",
                        violation.place, violation.message);
  }
  text += fmt::format(
      "{}: {} violation(s){}\n",
      report.is_right() ? paint("right", Tone::kGood, global) : paint("wrong", Tone::kBad, global),
      report.violations.size(),
      has_latencies(input)
          ? fmt::format(", critical path {:.6g} ms", report.critical_path_sec * kMsPerSecond)
          : "");
  text += certificate_line(report.certificate, global);
  if (global.verbosity == 0) return text;
  TextTable devices({"device", "memory", "of"}, {false, true, true});
  for (std::size_t d = 0; d < report.memory.size(); ++d) {
    const partition::Device& device = input.config.devices[d];
    devices.add(
        {device.name, format_bytes(report.memory[d]), format_bytes(device.available_mem_bytes)});
  }
  return text + devices.text();
}

void judge_fx_stages(const io::FxInput& input, const PlacementAnswer& answer, bool has_own_figures,
                     check::CriticalPathReport& judged) {
  const auto find = [&](std::size_t s, const std::string& message) {
    judged.violations.push_back(
        {check::PartitionViolationCode::kStatedMismatch, fmt::format("partition {}", s), message});
  };
  for (std::size_t s = 0; s < answer.stages->size(); ++s) {
    const io::PlacedStage& stage = (*answer.stages)[s];
    if (!stage.device_class.empty() || stage.transfer_ms || stage.load_ms || stage.sync_ms ||
        stage.in_flight) {
      find(s, "states what partitions of torch.fx do not have");
    }
    if (stage.compute_ms && s < judged.own_sec.size()) {
      const double own = judged.own_sec[s] * kMsPerSecond;
      if (!(std::abs(*stage.compute_ms - own) <= 1e-9 * own)) {
        find(s, fmt::format("compute_ms: stated {}, found {}", *stage.compute_ms, own));
      }
    }
    if (has_own_figures && stage.memory != judged.own_bytes[s]) {
      find(s, fmt::format("memory_bytes: stated {}, found {}", stage.memory, judged.own_bytes[s]));
    }
    std::optional<Bytes> cap;
    for (const int id : stage.devices) {
      std::optional<Bytes> memory;  // of several devices with this id torch means the last
      for (const partition::Device& device : input.config.devices) {
        if (device.logical_id == id) memory = device.available_mem_bytes;
      }
      if (memory) cap = std::min(*memory, cap.value_or(*memory));
    }
    if (stage.memory_cap && stage.memory_cap != cap) {
      find(s, fmt::format("memory_cap: stated {}, which is not the device's", *stage.memory_cap));
    }
  }
}

// The calls that are left are those of the partitions, one each, and read and make what splitting
// the graph again gives.
void judge_fx_calls(const partition::Graph& graph, const partition::Placement& placement,
                    const PlacementAnswer& answer, check::CriticalPathReport& judged) {
  if (answer.calls.empty()) return;
  const auto find = [&](const std::string& place, const std::string& message) {
    judged.violations.push_back({check::PartitionViolationCode::kStatedMismatch, place, message});
  };
  std::map<std::string, const io::PlacedStage*> stage_of;  // by name of its call
  for (std::size_t s = 0; s < answer.stages->size(); ++s) {
    const io::PlacedStage& stage = (*answer.stages)[s];
    stage_of[fmt::format("submod_{}", stage.id.value_or(static_cast<int>(s)))] = &stage;
  }
  const auto split = split_graph(graph, placement, partition::default_dialect());
  if (!split) find("", "calls: the graph cannot be split so: " + split.error().message);
  std::map<std::string, const partition::DagNode*> repeated;
  for (std::size_t i = 0; split && i < split->dag.size(); ++i) {
    repeated[split->dag[i].submodule] = &split->dag[i];
  }
  std::set<std::string> made;
  for (const partition::DagNode& call : answer.calls) {
    const auto stage = stage_of.find(call.submodule);
    if (stage == stage_of.end() || !made.insert(call.submodule).second) {
      find(call.submodule, "calls: no partition has this call, or it stands twice");
      continue;
    }
    if (call.size_bytes != stage->second->memory) find(call.submodule, "calls: another size");
    const std::set<int> devices(call.logical_device_ids.begin(), call.logical_device_ids.end());
    if (devices != std::set<int>(stage->second->devices.begin(), stage->second->devices.end())) {
      find(call.submodule, "calls: other devices than the partition's");
    }
    const auto again = repeated.find(call.submodule);
    if (again != repeated.end() &&
        (call.inputs != again->second->inputs || call.outputs != again->second->outputs)) {
      find(call.submodule, "calls: other inputs or outputs than the partition's");
    }
  }
  if (made.size() != stage_of.size()) find("", "calls: a partition has no call");
}

// A source stands in every partition that reads it; the mapping names one of them. One that is
// stated is whole.
void judge_fx_mapping(const PlacementAnswer& answer, check::CriticalPathReport& judged) {
  const auto find = [&](const std::string& place, const std::string& message) {
    judged.violations.push_back({check::PartitionViolationCode::kMappingMismatch, place, message});
  };
  for (std::size_t s = 0; s < answer.stages->size(); ++s) {
    std::set<std::string_view> seen;
    for (const std::string& node : (*answer.stages)[s].nodes) {
      if (!seen.insert(node).second) find(node, "stands twice in its partition");
      if (!answer.node_to_partition.empty() && !answer.node_to_partition.contains(node)) {
        find(node, "the mapping leaves the node out");
      }
    }
  }
  for (const auto& [node, id] : answer.node_to_partition) {
    bool is_there = false;
    for (std::size_t s = 0; s < answer.stages->size(); ++s) {
      const io::PlacedStage& stage = (*answer.stages)[s];
      is_there |= stage.id.value_or(static_cast<int>(s)) == id &&
                  std::count(stage.nodes.begin(), stage.nodes.end(), node) != 0;
    }
    if (!is_there) find(node, "the mapping names a partition that does not hold it");
  }
}

Result<check::CriticalPathReport> judge_fx(const io::FxInput& input, const PlacementAnswer& answer,
                                           const Making& making, const std::string& file) {
  PLIMSOLL_ASSIGN(const partition::Placement placement,
                  io::take_fx_placement(answer, input.graph, file));
  std::optional<double> stated = stated_objective(answer);
  if (stated) *stated /= kMsPerSecond;
  PLIMSOLL_ASSIGN(check::CriticalPathReport judged,
                  has_latencies(input)
                      ? check::check_critical_path(input.graph, input.config, placement, stated)
                      : check::check_partitions(input.graph, input.config, placement));
  for (const std::string& contradiction : making.contradictions) {
    judged.violations.push_back({check::PartitionViolationCode::kWrongInput, "", contradiction});
  }
  if (!answer.cuts.empty() || !answer.classes.empty() || answer.is_contiguous) {
    judged.violations.push_back({check::PartitionViolationCode::kStatedMismatch, "",
                                 "partitions of torch.fx have no cuts, classes or line"});
  }
  const bool is_ours = answer.provenance && answer.provenance->options.contains("search") &&
                       answer.provenance->options.at("search") == "critical_path";
  judge_fx_stages(input, answer, is_ours, judged);
  judge_fx_calls(input.graph, placement, answer, judged);
  if (answer.status) judge_fx_mapping(answer, judged);  // another program's may be of operators
  const check::CertificateClaims claims = claims_of(answer, making, judged.is_right());
  std::optional<double> value;
  if (judged.is_right()) value = judged.critical_path_sec * kMsPerSecond;
  judged.certificate = making.has_claims() && has_latencies(input)
                           ? judge_path_claims(input.graph, input.config, claims, value)
                           : judge_by_other_rules(claims);
  if (is_refused(judged.certificate, making) && judged.is_right()) {
    judged.violations.push_back(
        {check::PartitionViolationCode::kBoundNotProved, "", judged.certificate.reason});
  }
  return judged;
}

// ---------------------------------------------------------------- what it was made from

constexpr const char* kSearchOptions[] = {"search", "variant", "effort", "tolerance"};

// The options of a plan, as the planner would record them, where they are what is there.
std::vector<std::string> contradictions_of(const PlacementAnswer& answer,
                                           const std::string& input_hash) {
  std::vector<std::string> found;
  if (!answer.provenance) return found;
  for (const auto& [name, hash] : answer.provenance->inputs) {
    if (name == "graph" && hash == input_hash) continue;
    found.push_back(name == "graph" ? "the placement was made from another graph"
                                    : fmt::format("provenance/inputs/{}: no such input", name));
  }
  PartitionFlags own;
  fill_from_answer(answer, own);
  for (std::string& fault : faults_of_options(answer.provenance->options, own, kSearchOptions)) {
    found.push_back(std::move(fault));
  }
  const auto search = answer.provenance->options.find("search");
  if (search == answer.provenance->options.end()) return found;
  const auto searches = partition_searches();
  const bool is_known =
      std::any_of(searches.begin(), searches.end(), [&](const PartitionSearch& known) {
        return known.name == search->second && known.objective == answer.objective;
      });
  if (!is_known) {
    found.push_back(fmt::format("provenance/options/search: '{}' does not make {} small",
                                search->second, to_string(answer.objective)));
  }
  return found;
}

std::string missing_in(const PlacementAnswer& answer) {
  if (!answer.provenance) return "provenance";
  if (!answer.status) return "status";
  if (!answer.certificate || std::isnan(answer.certificate->objective)) {
    if (answer.stages) return "objective";
  }
  if (answer.provenance->inputs.empty()) return "input hashes";
  if (!answer.provenance->options.contains("search")) return "search";
  if (answer.objective == Objective::kFx || !answer.stages) return "";
  if (answer.classes.empty()) return "classes";
  if (!answer.is_contiguous) return "is_contiguous";
  if (answer.cuts.empty() && answer.stages->size() > 1) return "cuts";
  return "";
}

bool has_other_rules(const PlacementAnswer& answer, const PartitionFlags& filled) {
  if (!answer.provenance) return false;
  PartitionFlags own;
  own.graph = filled.graph;
  fill_from_answer(answer, own);
  return provenance_options(own) != provenance_options(filled);
}

}  // namespace

int run_placement_check(PlacementCheckRun run, std::string_view text) {
  const GlobalFlags& global = run.global;
  const auto answer = read_placement_answer(text, run.plan);
  if (!answer) return report(answer.error(), global);
  fill_from_answer(*answer, run.partition);
  const auto made = load_partition_case(run.partition);
  if (!made) return report(made.error(), global);
  const Making making{contradictions_of(*answer, made->input_hash), missing_in(*answer),
                      has_other_rules(*answer, run.partition), run.is_strict};
  bool is_right = false;
  if (made->fx) {
    const auto judged = judge_fx(*made->fx, *answer, making, run.plan);
    if (!judged) return report(judged.error(), global);
    is_right = judged->is_right();
    print(global.json
              ? io::write_partition_report(*judged, made->fx->config, has_latencies(*made->fx))
              : text_of(*judged, *made->fx, global));
  } else {
    const auto judge = [&]() -> Result<check::PlacementReport> {
      if (!answer->stages && answer->status == SolveStatus::kInfeasible && made->costs) {
        return judge_no_placement(*made, *answer, making);
      }
      if (made->terms) return judge_pipeline(*made, *answer, making, run.plan);
      PLIMSOLL_ASSIGN(const ReadPlacement placement, read_any_placement(text, run.plan, *made));
      return judge_assignment(*made, placement, making, run.contiguous);
    };
    const auto judged = judge();
    if (!judged) return report(judged.error(), global);
    is_right = judged->is_right();
    print(global.json ? io::write_placement_report(*judged, made->names)
                      : text_of(*judged, *made, global));
  }
  return is_right ? kExitOk : kExitViolations;
}

}  // namespace plimsoll::app
