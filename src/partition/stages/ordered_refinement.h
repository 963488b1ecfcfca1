// Annealing of a contiguous split that keeps it contiguous.
//
// Where chains were left open: multilevel refinement of the best plan, in which a group stands
// neither before its predecessors nor after its successors (multilevel.h). Promises. The plan is no
// worse after than before, and within memory caps.
#pragma once

#include "partition/graph/group_graph.h"
#include "partition/stages/split_state.h"
#include "plimsoll/partition/contiguous_split.h"

namespace plimsoll::partition {

// Changes `known` and `budget`; nothing without a plan.
void refine_in_order(const CostGraph& graph, const GroupGraph& groups,
                     const ContiguousSplitOptions& options, const RunContext& context,
                     SplitKnowledge& known, SplitBudget& budget);

}  // namespace plimsoll::partition
