#include "study/embedding/trial.h"

#include <cstdint>
#include <limits>

#include "core/effort_clock.h"

namespace plimsoll::study {
namespace {

constexpr std::int64_t kEffort = 50000;  // moves of the balanced search
constexpr std::int64_t kProposals = 200;

SearchOptions limits_of(const ShardingQuestion& question) {
  SearchOptions limits = question.limits;
  limits.effort = question.is_balanced ? kEffort : kProposals;
  return limits;
}

embedding::BalancedOptions options_of(const ShardingQuestion& question) {
  embedding::BalancedOptions options = question.balanced;
  options.uses_reference = options.certifies = options.explains = false;
  options.keeps_reference_rating = false;
  options.stops.clear();
  return options;
}

Result<embedding::BalancedResult> search_balanced(const ShardingQuestion& question,
                                                  const embedding::BalancedOptions& options,
                                                  const SearchOptions& limits,
                                                  const RunContext& context) {
  return question.given
             ? embedding::plan_balanced(question.problem, *question.given, options, limits, context)
             : embedding::plan_balanced(question.problem, options, limits, context);
}

}  // namespace

Trial try_question(const ShardingQuestion& question, const RunContext& context) {
  Trial trial{SolveStatus::kLimit, std::numeric_limits<double>::quiet_NaN()};
  if (is_stopped(context)) return trial;
  const RunContext silent = context.inner();
  const SearchOptions limits = limits_of(question);
  if (question.is_balanced) {
    const auto found = search_balanced(question, options_of(question), limits, silent);
    if (!found) return trial;
    trial.status = found->planning.outcome.status;
    if (trial.has_plan()) trial.ms = value_of(found->times, question.balanced.bridge.objective);
    return trial;
  }
  const auto found =
      question.given
          ? embedding::search_like_torchrec(question.problem, nullptr,
                                            embedding::PlanningResult(question.given->prepared),
                                            question.reference, limits, silent)
          : embedding::plan_like_torchrec(question.problem, question.reference, limits, silent);
  if (!found) return trial;
  trial.status = found->outcome.status;
  if (trial.has_plan()) trial.ms = found->rating;
  return trial;
}

SolveStatus find_whether_possible(const ShardingQuestion& question, const RunContext& context) {
  if (is_stopped(context)) return SolveStatus::kLimit;
  embedding::BalancedOptions options = options_of(question);
  options.bridge.objective = embedding::BalanceObjective::kRating;
  SearchOptions limits = limits_of(question);
  limits.effort = kEffort;
  const RunContext silent = context.inner();
  const auto found = search_balanced(question, options, limits, silent);
  return found ? found->planning.outcome.status : SolveStatus::kLimit;
}

}  // namespace plimsoll::study
