#include "study/embedding/judged_figures.h"

#include <utility>

#include "check/embedding/bill_check.h"
#include "check/embedding/plan_space.h"
#include "plimsoll/check/sharding_check.h"

namespace plimsoll::study {

Result<void> put_judged_figures(const embedding::PlanningProblem& problem, ShardingAnswer& answer,
                                std::vector<Warning>& warnings) {
  check::CheckOptions rules;
  rules.batch_size = problem.batch_size;
  rules.reservation = problem.reservation;
  rules.fqn_constraints = problem.enumeration.fqn_constraints;
  rules.global_constraints = problem.enumeration.global_constraints;
  PLIMSOLL_ASSIGN(const check::ShardingReport report,
                  check::check_sharding(problem.model, *answer.plan, problem.topology,
                                        problem.cost_model, problem.mode, rules));
  if (!report.is_right()) {
    const check::Finding first = report.violations().front();
    warnings.push_back(
        {"no_figures", first.place,
         "the plan has violations, so that it has no times and bytes: " + first.message});
    return {};
  }
  PLIMSOLL_ASSIGN(answer.bill, check::make_judges_bill(problem, report));
  PLIMSOLL_RETURN_IF_ERROR(check::add_resident_bytes(problem, *answer.plan, answer.bill));
  answer.rating = report.rating;
  return {};
}

}  // namespace plimsoll::study
