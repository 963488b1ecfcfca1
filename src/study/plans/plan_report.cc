#include "plimsoll/study/plan_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "plimsoll/core/units.h"
#include "study/partition/pipeline_answer.h"

namespace plimsoll::study {
namespace {

// What of a plan's options says what it is for; the rest is how the search went.
constexpr std::string_view kTelling[] = {"on",    "batch_size",   "cost_model", "peak",
                                         "costs", "microbatches", "devices",    "memory"};

template <class Answer>
Result<PlanReport> report_answer(const Answer& answer, std::string objective) {
  PlanReport report;
  PLIMSOLL_ASSIGN(report.outline, outline_plan(answer));
  report.status = answer.status;
  report.certificate = answer.certificate;
  report.objective = std::move(objective);
  report.warnings = answer.warnings;
  if (!answer.provenance) return report;
  for (const std::string_view name : kTelling) {
    const auto found = answer.provenance->options.find(std::string(name));
    if (found != answer.provenance->options.end()) {
      report.made_for.emplace_back(name, found->second);
    }
  }
  return report;
}

}  // namespace

Result<PlanReport> report_plan(const ShardingAnswer& answer) {
  PLIMSOLL_ASSIGN(PlanReport report,
                  report_answer(answer, answer.objective ? std::string(to_string(*answer.objective))
                                                         : std::string("rating")));
  report.frontier = answer.frontier;
  report.frontier_bound = answer.frontier_bound;
  const auto hbm = report.outline.bill.bytes.find("hbm");
  if (!report.frontier.empty() && answer.certificate && hbm != report.outline.bill.bytes.end() &&
      !hbm->second.empty()) {
    report.chosen = {*std::max_element(hbm->second.begin(), hbm->second.end()),
                     answer.certificate->objective};
  }
  return report;
}

Result<PlanReport> report_plan(const CheckpointAnswer& answer) {
  if (!answer.plan && !answer.frontier.empty()) {  // every budget at once
    PlanReport report;
    report.outline.kind = PlanKind::kCheckpointing;
    report.frontier = answer.frontier;
    report.frontier_bound = answer.frontier_bound;
    report.warnings = answer.warnings;
    return report;
  }
  PLIMSOLL_ASSIGN(PlanReport report, report_answer(answer, "recomputation"));
  report.frontier = answer.frontier;
  report.frontier_bound = answer.frontier_bound;
  if (answer.predicted) {
    report.chosen = {answer.predicted->peak_bytes, answer.predicted->recompute_ms};
  }
  return report;
}

Result<PlanReport> report_plan(const PlacementAnswer& answer) {
  return report_answer(answer, std::string(to_string(answer.objective)));
}

Result<PlanReport> report_plan(const PipelineAnswer& answer) {
  return report_answer(answer, answer.objective);
}

std::string bound_sentence(const PlanReport& report) {
  if (!report.certificate) return "";
  if (report.status == SolveStatus::kOptimal) return "No plan is better (optimal).";
  const auto gap = report.certificate->gap();
  if (!gap) return "How far the best possible plan is below is not known.";
  return fmt::format("At most {} above the best possible plan.", format_percent(*gap));
}

}  // namespace plimsoll::study
