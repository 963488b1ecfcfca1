// Why the balanced search has no plan, where it is proved that there is none.
//
// Asked, each by the same proof on the problem without it (make_bounded_bridge,
// balance::prove_shortage): the placement rules, the tables' constraints (sharding types, compute
// kernels, min_partition), the ban on hazards, that on optimizer states per block, the widths that
// are tried. A cause is what the proof
// does not go through without; of rules and constraints a set is named of which none can be left
// out. Whether a plan is found then says a short search. Beside the causes: the fewest bytes that
// would help as everything stands (balance/bounds/explain_infeasible.h).
// Cost. A proof for each rule and each of up to kMaxConstraints constraints, more constraints being
// asked by kind; those of explain_infeasible; a short search a cause. The clock is looked at
// between proofs.
#pragma once

#include <vector>

#include "plimsoll/core/outcome.h"
#include "plimsoll/core/run_context.h"
#include "plimsoll/embedding/balanced_search.h"

namespace plimsoll::embedding {

struct NoPlanQuestion {
  const PlanningProblem* problem = nullptr;  // never null
  const BalancedOptions* options = nullptr;  // never null; as asked
  BridgeInput input;                         // the options that were searched
  bool is_given = false;  // the options are not the problem's own: constraints stay as they are
  bool keeps_hazards = false;  // those of the search that ended
};

// Precondition: it is proved that there is no plan.
std::vector<NoPlanCause> explain_no_plan(const NoPlanQuestion& question, const RunContext& context,
                                         Explanation& explanation);

// Is it proved that no plan of these options fits? False where the clock cut the proof.
Result<bool> is_proved_empty(const BridgeInput& input, const BridgeOptions& settings,
                             const RunContext& context);

}  // namespace plimsoll::embedding
