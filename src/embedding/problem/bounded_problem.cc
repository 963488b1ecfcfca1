#include "plimsoll/embedding/bounded_problem.h"

#include <utility>

namespace plimsoll::embedding {

Result<BoundedProblem> prepare_bounded_problem(const PlanningProblem& problem,
                                               const BoundedOptions& options) {
  PLIMSOLL_RETURN_IF_ERROR(validate(problem.model));
  BoundedProblem bounded;
  PLIMSOLL_ASSIGN(bounded.reservation,
                  reserve(problem.cost_model, problem.reservation, problem.topology, problem.model,
                          problem.batch_size));
  if (const auto overdrawn = find_overdrawn_rank(bounded.reservation.topology)) {
    return tl::unexpected<Error>(overdrawn->error());
  }
  const Estimator estimator(problem.cost_model, problem.topology, problem.mode);
  EnumerationOptions enumeration = problem.enumeration;
  enumeration.batch_size = problem.batch_size;
  enumeration.max_column_blocks = options.max_column_blocks;
  PLIMSOLL_ASSIGN(bounded.enumeration, enumerate(estimator, problem.model, enumeration));
  if (bounded.enumeration.options.tables.empty()) return bounded;
  PLIMSOLL_ASSIGN(bounded.bridge,
                  make_bounded_bridge(
                      {&bounded.enumeration.options, &bounded.reservation.topology, &problem.model,
                       &estimator, bounded.enumeration.profiles, problem.machine.get()},
                      options.bridge));
  return bounded;
}

Result<PlacementBridge> make_bounded_problem(const PlanningProblem& problem,
                                             const BoundedOptions& options) {
  PLIMSOLL_ASSIGN(BoundedProblem bounded, prepare_bounded_problem(problem, options));
  return std::move(bounded.bridge);
}

}  // namespace plimsoll::embedding
