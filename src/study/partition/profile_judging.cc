#include "study/partition/profile_judging.h"

#include <map>
#include <utility>

#include "check/partition/placement_claims.h"
#include "core/search_record.h"

namespace plimsoll::study {
namespace {

std::string missing_in(const PipelineAnswer& answer) {
  if (!answer.provenance) return "provenance";
  if (!answer.status) return "status";
  if (answer.objective.empty() || !answer.certificate) return "objective";
  if (answer.input_hash.empty() || answer.provenance->inputs.empty()) return "input hashes";
  if (!search_record_of(answer.provenance).search) return "search";
  if (!answer.num_devices || (answer.plan && !answer.slowest_ms)) return "figures";
  for (const auto& stage : answer.plan.value_or(std::vector<PipelineStageEntry>{})) {
    if (!stage.time_ms || !stage.in_flight || !stage.memory) return "figures";
  }
  return "";
}

}  // namespace

// What the plan says of its making decides what it claims; other flags let its figures differ.
Result<check::PipelineReport> judge_profile_plan(const partition::PipelineModel& model,
                                                 const PipelineAnswer& answer,
                                                 std::vector<std::string> contradictions,
                                                 bool is_straight, bool is_strict) {
  check::PipelineCheckOptions options;
  options.stated_slowest_ms = answer.slowest_ms;
  options.contradictions = std::move(contradictions);
  options.claims = {answer.plan.has_value(), true, answer.status, answer.certificate,
                    missing_in(answer)};
  options.is_batch = answer.objective == kBatch;
  std::map<std::string, std::string> recorded;
  if (answer.provenance) recorded = answer.provenance->options;
  options.is_straight = recorded.contains("straight") || is_straight;
  options.is_of_reference = search_record_of(answer.provenance).search == "pipedream";
  options.strict = is_strict;
  check::PipelineReport judged;
  if (answer.plan || answer.status != SolveStatus::kInfeasible) {
    PLIMSOLL_ASSIGN(const partition::PipelinePlan plan, make_pipeline_plan(model, answer));
    for (const PipelineStageEntry& stage : *answer.plan) {
      options.stated.push_back({stage.time_ms, stage.in_flight, stage.memory});
    }
    PLIMSOLL_ASSIGN(judged, check::check_pipeline(model, plan, options));
  }
  std::optional<double> value;
  options.claims.is_right = judged.is_right();
  if (answer.plan && judged.is_right()) value = pipeline_value(model, judged, options.is_batch);
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
    judged.violate(check::FindingCode::kBoundNotProved, judged.certificate.reason);
  }
  return judged;
}

}  // namespace plimsoll::study
