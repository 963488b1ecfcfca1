// Why a plan from elsewhere, such as the reference's, may not be an answer: memory, placement rules
// and towers, seen from the search's side. The checker of all this is the checker.
#pragma once

#include <optional>
#include <string>

#include "plimsoll/embedding/placement_bridge.h"
#include "plimsoll/embedding/proposer.h"

namespace plimsoll::embedding {

// Does the plan have one option of every table, and ranks that exist for its shards? O(shards): for
// checks.
bool is_placed_plan(const OptionSet& options, const PlacedProposal& plan);

// The first fault, as a clause whose subject is the plan ("needs more memory than rank 3 has");
// nothing where the plan fits, keeps the rules and holds towers and columns of hosts together.
// Hazards are not faults. Precondition: a placed plan of these options. O(shards + ranks).
std::optional<std::string> find_plan_fault(const BridgeInput& input, const BridgeOptions& rules,
                                           const PlacedProposal& plan);

// Why the search prefers `taken` to a plan that is better: a clause whose subject is that plan, its
// fault or its hazards by the checker's names.
std::string why_not_taken(const BridgeInput& input, const BridgeOptions& rules,
                          const PlacedProposal& better, const PlacedProposal& taken);

}  // namespace plimsoll::embedding
