// What a page about a plan shows, whatever planner made it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "plimsoll/core/outcome.h"
#include "plimsoll/core/result.h"
#include "plimsoll/math/frontier.h"
#include "plimsoll/study/plan_difference.h"
#include "plimsoll/study/plan_outline.h"
#include "plimsoll/study/step_timeline.h"

#pragma GCC visibility push(default)
namespace plimsoll::study {

// Where the plan stands on its frontier.
struct ChosenPoint {
  Bytes bytes = 0;
  double ms = 0;
  bool operator==(const ChosenPoint&) const = default;
};

struct PlanReport {
  std::string name;  // of the plan, for people
  PlanOutline outline;
  std::optional<SolveStatus> status;
  std::optional<Certificate> certificate;
  std::string objective;  // what the certificate is about
  // Options that tell what the plan was made for: "on", "batch_size", "cost_model", ...
  std::vector<std::pair<std::string, std::string>> made_for;
  std::vector<math::FrontierPoint> frontier, frontier_bound;
  std::optional<ChosenPoint> chosen;
  std::optional<StepTimeline> timeline;      // set by whoever has what it needs
  std::optional<PlanDifference> difference;  // from another plan to this one, as above
  std::string compared_with;                 // the other plan's name
  std::vector<Warning> warnings;
};

// Error kValue, at "plan": the answer holds no plan.
Result<PlanReport> report_plan(const ShardingAnswer& answer);
Result<PlanReport> report_plan(const CheckpointAnswer& answer);
Result<PlanReport> report_plan(const PlacementAnswer& answer);
Result<PlanReport> report_plan(const PipelineAnswer& answer);

// "No plan is better (optimal)." or "At most 5.9 % above the best possible plan."; empty where the
// plan states nothing.
std::string bound_sentence(const PlanReport& report);

}  // namespace plimsoll::study
#pragma GCC visibility pop
