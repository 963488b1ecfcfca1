#pragma once

#include <cstdint>
#include <string>

#include "plimsoll/embedding/planner.h"

namespace plimsoll::embedding {

// The option of the table that is sharded, kept and cached as a plan says, in as many shards; the
// last of several; -1: there is none.
std::int32_t find_option(const OptionSet& options, const TableOptions& table,
                         const TableSharding& sharding);

// Merges a stored plan into the search space: matching options are appended with the stored shards
// and returned placed, in search-space order. Empty if nothing is stored. Errors: those of the
// loader; kPlanner "planner_input_context_mismatch", "plan_loading_failed".
Result<PlacedProposal> load_plan(PlanLoader& loader, const std::string& context_hash,
                                 OptionSet& options);

}  // namespace plimsoll::embedding
