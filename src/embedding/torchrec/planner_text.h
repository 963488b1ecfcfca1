// The reference planner's messages when no plan is found or a found plan is refused.
#pragma once

#include <optional>
#include <string>

#include "plimsoll/embedding/planner.h"

namespace plimsoll::embedding {

// What the failure message needs to know of a finished search.
struct FailedSearch {
  std::int64_t num_proposals = 0;
  std::optional<topology::Storage>
      lowest;  // least total storage of a failed proposal; absent: none was tried
  std::string last_planner_error;  // text; empty: none
  std::string device_group;        // heterogeneous planner; else empty
};

// Planner error of kind "insufficient_storage" or "strict_constraints" with the release's text
// (docs/mathematics/torchrec-planner.md#rating-and-main-loop).
Error no_plan_error(const PlanningProblem& problem, const Reservation& reservation,
                    const FailedSearch& search);

// A rank that does not exist, which callbacks can bring in. Releases before 1.5 let it pass;
// nothing after it could be computed, so here none does.
std::optional<Error> find_rank_error(const OptionSet& options, const PlacedProposal& best);

// The checks that newer releases run on the best plan
// (docs/mathematics/torchrec-planner.md#rating-and-main-loop); nothing if it passes.
std::optional<Error> find_plan_error(const PlanningProblem& problem, const Enumeration& enumeration,
                                     const PlacedProposal& best);

}  // namespace plimsoll::embedding
