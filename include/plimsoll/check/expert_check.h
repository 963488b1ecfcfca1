// What makes a plan of experts and its claims right.
//
// Every layer has its slots, every expert stands somewhere, groups stay on hosts where the model
// says so; loads of ranks are added up again. A stated bound of a layer holds where ranks carry
// that much in the mean, where slots do not suffice for replicas that all carry less, or where the
// heaviest host does (docs/experts.md#the-bound). A stated sum of the old plan's copies is counted
// rank by rank. Shares no code with the search, nor with the bound's.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "plimsoll/check/finding.h"
#include "plimsoll/core/outcome.h"
#include "plimsoll/core/run_context.h"
#include "plimsoll/experts/expert_model.h"

#pragma GCC visibility push(default)
namespace plimsoll::check {

// What a plan states; what is absent is not judged.
struct StatedExperts {
  experts::ExpertPlan plan;
  std::vector<double> slowest_loads, lower_bounds;  // [layers], or empty
  std::optional<double> objective, lower_bound;     // their sums
  SolveStatus status = SolveStatus::kLimit;         // which says nothing of a plan that is there
  std::optional<double> gap;
  std::optional<experts::ExpertPlan> before;
  std::optional<double> before_load;  // the objective of `before`, which can be kept
  std::optional<std::int64_t> moved, max_moved;
};

struct ExpertReport : CheckReport {
  double objective = 0;  // where the plan is right
};

// `tolerance`: a plan that is said to be optimal may have a gap up to this. Precondition:
// experts::validate(model).
ExpertReport check_experts(const experts::ExpertModel& model, const StatedExperts& stated,
                           double tolerance = SearchOptions{}.tolerance);

// The certificate is refuted where there are violations.
void refute(ExpertReport& report);

}  // namespace plimsoll::check
#pragma GCC visibility pop
