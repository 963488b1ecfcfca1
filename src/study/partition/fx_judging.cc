// Partitions of torch.fx's graphs, judged.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <string_view>

#include "check/partition/placement_claims.h"
#include "core/search_record.h"
#include "partition/fx/split.h"
#include "plimsoll/core/units.h"
#include "plimsoll/partition/dialect.h"
#include "study/partition/judged_claims.h"

namespace plimsoll::study {
namespace {

void judge_fx_stages(const FxInput& input, const PlacementAnswer& answer, bool has_own_figures,
                     check::CriticalPathReport& judged) {
  const auto find = [&](std::size_t s, const std::string& message) {
    judged.findings.push_back({check::FindingCode::kStatedMismatch, fmt::format("partition {}", s),
                               std::nullopt, "", "", message});
  };
  for (std::size_t s = 0; s < answer.plan->size(); ++s) {
    const PlacedStage& stage = (*answer.plan)[s];
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
    judged.findings.push_back(
        {check::FindingCode::kStatedMismatch, place, std::nullopt, "", "", message});
  };
  std::map<std::string, const PlacedStage*> stage_of;  // by name of its call
  for (std::size_t s = 0; s < answer.plan->size(); ++s) {
    const PlacedStage& stage = (*answer.plan)[s];
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
      find(call.submodule, "calls: no partition has this call, or it occurs twice");
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
    judged.findings.push_back(
        {check::FindingCode::kMappingMismatch, place, std::nullopt, "", "", message});
  };
  for (std::size_t s = 0; s < answer.plan->size(); ++s) {
    std::set<std::string_view> seen;
    for (const std::string& node : (*answer.plan)[s].nodes) {
      if (!seen.insert(node).second) find(node, "occurs twice in its partition");
      if (!answer.node_to_partition.empty() && !answer.node_to_partition.contains(node)) {
        find(node, "the mapping leaves the node out");
      }
    }
  }
  for (const auto& [node, id] : answer.node_to_partition) {
    bool is_there = false;
    for (std::size_t s = 0; s < answer.plan->size(); ++s) {
      const PlacedStage& stage = (*answer.plan)[s];
      is_there |= stage.id.value_or(static_cast<int>(s)) == id &&
                  std::count(stage.nodes.begin(), stage.nodes.end(), node) != 0;
    }
    if (!is_there) find(node, "the mapping names a partition that does not hold it");
  }
}

}  // namespace

bool has_latencies(const FxInput& input) {
  const auto& latencies = input.config.node_to_latency_mapping;
  if (latencies.empty() || input.config.transfer_rate_bytes_per_sec == 0) return false;
  for (int node = 0; node < input.graph.num_nodes(); ++node) {
    if (input.graph.is_operator(node) && !latencies[node]) return false;
  }
  return true;
}

Result<check::CriticalPathReport> judge_fx(const FxInput& input, const PlacementAnswer& answer,
                                           const partition::Placement& placement,
                                           const PlanMaking& making) {
  std::optional<double> stated = stated_objective(answer);
  if (stated) *stated /= kMsPerSecond;
  PLIMSOLL_ASSIGN(check::CriticalPathReport judged,
                  has_latencies(input)
                      ? check::check_critical_path(input.graph, input.config, placement, stated)
                      : check::check_partitions(input.graph, input.config, placement));
  for (const std::string& contradiction : making.contradictions) {
    judged.violate(check::FindingCode::kInputsMismatch, contradiction);
  }
  if (!answer.cuts.empty() || !answer.classes.empty() || answer.is_contiguous) {
    judged.violate(check::FindingCode::kStatedMismatch,
                   "partitions of torch.fx have no cuts, classes or line");
  }
  const bool is_ours = search_record_of(answer.provenance).search == "critical_path";
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
    judged.violate(check::FindingCode::kBoundNotProved, judged.certificate.reason);
  }
  return judged;
}

}  // namespace plimsoll::study
