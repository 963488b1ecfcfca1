#include "plimsoll/study/search_aid.h"

#include <utility>

#include "balance/bounds/bound_placement.h"

namespace plimsoll::study {

check::SearchAid make_search_aid(const embedding::PlanningProblem& problem,
                                 const embedding::BalancedOptions& options,
                                 const embedding::GivenOptions* given) {
  check::SearchAid aid;
  aid.find_prices = [](const balance::PlacementProblem& of) {
    return balance::bound_placement(of, balance::cheap_bounds(), RunContext{});
  };
  aid.repeat_reference = [&problem, &options, given]() -> Result<check::RepeatedReference> {
    PLIMSOLL_ASSIGN(embedding::BalancedResult repeated,
                    given == nullptr ? repeat_reference(problem, options)
                                     : repeat_reference(problem, *given, options));
    return check::RepeatedReference{repeated.reference,
                                    std::move(repeated.planning.enumeration.options),
                                    std::move(repeated.planning.best)};
  };
  return aid;
}

embedding::BridgeInput make_given_space(const embedding::PlanningProblem& problem,
                                        const embedding::GivenOptions& given) {
  const embedding::PlanningResult& prepared = given.prepared;
  return {&prepared.enumeration.options,
          &prepared.reservation->topology,
          &problem.model,
          given.estimator,
          prepared.enumeration.profiles,
          problem.machine.get()};
}

}  // namespace plimsoll::study
