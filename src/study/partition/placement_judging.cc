#include "study/partition/placement_judging.h"

#include <algorithm>
#include <cmath>
#include <unordered_map>
#include <utility>

#include "check/partition/placement_claims.h"
#include "check/partition/stated_placement.h"
#include "core/search_record.h"
#include "plimsoll/check/latency_check.h"
#include "plimsoll/check/replicated_stages_check.h"
#include "study/partition/judged_claims.h"

namespace plimsoll::study {
namespace {

using partition::Objective;

check::StatedDevice stated_by(const PlacedStage& stage) {
  return {stage.compute_ms, stage.transfer_ms, stage.load_ms, stage.memory};
}

// What a placement says of its devices; a stage on a device that does not exist says nothing.
std::vector<check::StatedDevice> stated_devices(const PlacementAnswer& answer, int num_devices) {
  std::vector<check::StatedDevice> stated(static_cast<std::size_t>(num_devices));
  for (const PlacedStage& stage : *answer.plan) {
    const int device = stage.devices.front();
    if (device < 0 || device >= num_devices) continue;
    stated[device] = stated_by(stage);
  }
  return stated;
}

// Made by a search whose stages need not stand in a line? Its bound is of all placements.
bool is_general(const PlacementAnswer& answer) {
  if (!answer.provenance) return !answer.is_contiguous.value_or(false);
  return search_record_of(answer.provenance).search != "contiguous";
}

void put_certificate(check::CertificateJudgement certificate, const PlanMaking& making,
                     check::PlacementReport& report) {
  report.certificate = std::move(certificate);
  if (!is_refused(report.certificate, making) || !report.is_right()) return;
  report.violate(check::FindingCode::kBoundNotProved, report.certificate.reason);
}

check::StatedPlacement stated_placement(const PlacementAnswer& answer,
                                        const std::vector<std::string>& names,
                                        const PlanMaking& making) {
  check::StatedPlacement stated;
  stated.is_pipeline = answer.objective == Objective::kPipeline;
  stated.is_contiguous = answer.is_contiguous;
  stated.contradictions = making.contradictions;
  for (const PlacedStage& stage : *answer.plan) {
    stated.places.push_back({stage.devices, stage.device_class, stage.memory_cap,
                             stage.in_flight.has_value() || stage.sync_ms.has_value()});
    if (stage.id)
      stated.contradictions.emplace_back("stages/id: only torch.fx's partitions have one");
  }
  if (!answer.node_to_partition.empty() || !answer.calls.empty()) {
    stated.contradictions.emplace_back("node_to_partition, calls: only of torch.fx's partitions");
  }
  stated.has_cuts = !answer.cuts.empty();
  for (const PlacedCut& cut : answer.cuts) {
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

void add_stated(const GraphCase& made, const PlacementAnswer& answer, const PlanMaking& making,
                const std::vector<int>& stage_of, check::PlacementReport& judged) {
  const bool has_all = std::all_of(stage_of.begin(), stage_of.end(), [](int s) { return s >= 0; });
  const bool has_devices =
      std::all_of(answer.plan->begin(), answer.plan->end(), [&](const PlacedStage& stage) {
        return !stage.devices.empty() &&
               std::all_of(stage.devices.begin(), stage.devices.end(), [&](int device) {
                 return device >= 0 && device < made.costs->num_devices();
               });
      });
  check::StatedPlacement stated = stated_placement(answer, made.names, making);
  stated.has_cuts &= has_all && has_devices;  // else it is a violation already
  judged.add(check_stated_placement(*made.costs, stage_of, judged, stated));
}

// The stage of every node, -1: none, or several.
std::vector<int> stages_of(const PlacementAnswer& answer, const std::vector<std::string>& names) {
  std::unordered_map<std::string_view, int> stage_of;
  for (std::size_t s = 0; s < answer.plan->size(); ++s) {
    for (const std::string& node : (*answer.plan)[s].nodes) {
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

}  // namespace

std::string missing_in(const PlacementAnswer& answer) {
  if (!answer.provenance) return "provenance";
  if (!answer.status) return "status";
  if (!answer.certificate || std::isnan(answer.certificate->objective)) {
    if (answer.plan) return "objective";
  }
  if (answer.provenance->inputs.empty()) return "input hashes";
  if (!search_record_of(answer.provenance).search) return "search";
  if (answer.objective == Objective::kFx || !answer.plan) return "";
  if (answer.classes.empty()) return "classes";
  if (!answer.is_contiguous) return "is_contiguous";
  if (answer.cuts.empty() && answer.plan->size() > 1) return "cuts";
  return "";
}

Result<check::PlacementReport> judge_pipeline(const GraphCase& made, const PlacementAnswer& answer,
                                              const PlanMaking& making, const std::string& file) {
  PLIMSOLL_ASSIGN(const partition::ReplicatedStages placement,
                  take_pipeline(answer, made.names, file));
  check::ReplicatedStagesCheckOptions options;
  options.stated_batch_ms = stated_objective(answer);
  options.stated_classes = answer.classes;
  for (const PlacedStage& stage : *answer.plan) {
    options.stated.push_back({stated_by(stage), stage.sync_ms, stage.in_flight});
  }
  PLIMSOLL_ASSIGN(check::PlacementReport judged,
                  check::check_replicated_stages(*made.costs, *made.terms, placement, options));
  add_stated(made, answer, making, stages_of(answer, made.names), judged);
  const check::CertificateClaims claims = claims_of(answer, making, judged.is_right());
  put_certificate(making.has_claims() ? judge_batch_claims(*made.costs, *made.terms, claims,
                                                           value_if_right(judged, *judged.batch_ms))
                                      : judge_by_other_rules(claims),
                  making, judged);
  return judged;
}

Result<check::PlacementReport> judge_assignment(const GraphCase& made,
                                                const PlacementAnswer& answer,
                                                const partition::DeviceAssignment& assignment,
                                                const PlanMaking& making,
                                                bool requires_contiguity) {
  check::PlacementCheckOptions options;
  options.requires_contiguity = requires_contiguity || answer.is_contiguous.value_or(false);
  if (answer.plan) {
    options.stated = stated_devices(answer, made.costs->num_devices());
    options.stated_classes = answer.classes;
    if (answer.objective == Objective::kThroughput) {
      options.stated_max_load = stated_objective(answer);
    }
  }
  PLIMSOLL_ASSIGN(check::PlacementReport judged,
                  check::check_placement(*made.costs, assignment, options));
  double value = judged.max_load;
  if (answer.objective == Objective::kLatency) {
    PLIMSOLL_ASSIGN(const check::LatencyReport latency,
                    check::check_latency(*made.costs, assignment, stated_objective(answer)));
    value = latency.latency_ms;
    using Code = check::FindingCode;  // the others were found already
    for (const check::Finding& violation : latency.findings) {
      if (violation.code == Code::kTasksWait || violation.code == Code::kLatencyMismatch) {
        judged.findings.push_back(violation);
      }
    }
  }
  if (!answer.plan) return judged;  // another program's split
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
check::PlacementReport judge_no_placement(const GraphCase& made, const PlacementAnswer& answer,
                                          const PlanMaking& making) {
  check::PlacementReport report;
  for (const std::string& contradiction : making.contradictions) {
    report.violate(check::FindingCode::kInputsMismatch, contradiction);
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

}  // namespace plimsoll::study
