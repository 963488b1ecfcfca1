// The searches that check_balance asks: cheap prices for a bound, and the reference's plan again.
#pragma once

#include "plimsoll/check/balance_check.h"
#include "plimsoll/embedding/balanced_search.h"

#pragma GCC visibility push(default)
namespace plimsoll::study {

// `problem`, `options` and `given` (the options that are planned with, where they are not the
// model's) outlive the aid. Of `options` those of the reference, and `stops`, count.
check::SearchAid make_search_aid(const embedding::PlanningProblem& problem,
                                 const embedding::BalancedOptions& options,
                                 const embedding::GivenOptions* given = nullptr);

// The space that check_balance judges plans of such options in.
embedding::BridgeInput make_given_space(const embedding::PlanningProblem& problem,
                                        const embedding::GivenOptions& given);

}  // namespace plimsoll::study
#pragma GCC visibility pop
