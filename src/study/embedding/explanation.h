// The explanations of plan_explanation.h for any question, in the caller's words.
#pragma once

#include <functional>
#include <optional>

#include "plimsoll/study/plan_explanation.h"
#include "study/embedding/remedies.h"
#include "study/embedding/sharding_run.h"

namespace plimsoll::study {

// How constraints and remedies are written.
struct ExplanationWords {
  std::function<ConflictMember(const UserConstraint&)> member;
  std::function<Fix(const Remedy&)> fix;
};

// The words of the library's fields.
ExplanationWords library_words();

// Precondition: no given options.
Result<PlanExplanation> explain_plan(const ShardingQuestion& question,
                                     const embedding::ShardingPlan& plan,
                                     const std::optional<ScaledProblem>& scaled,
                                     const ExplanationWords& words, const RunContext& context);

// Nothing where there is a plan, or where the search was stopped. Where nothing is proved, fixes
// alone, of our own search.
std::optional<NoPlan> explain_no_plan(const ShardingQuestion& question, const ShardingRun& run,
                                      const std::optional<ScaledProblem>& scaled,
                                      const ExplanationWords& words, const RunContext& context);

}  // namespace plimsoll::study
