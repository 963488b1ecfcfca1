// What proposers and partitioners of the caller's own may get wrong.
#pragma once

#include <string_view>

#include "plimsoll/embedding/proposer.h"

namespace plimsoll::embedding {

// Error kValue, `name` as its place: not exactly one option of every table.
Result<void> check_choice(const OptionSet& options, const Proposal& proposal,
                          std::string_view name);

// Error kValue as above: the same of the plan, or not one existing rank for every shard. Uniform
// options have no ranks.
Result<void> check_placement(const OptionSet& options, const PlacedProposal& plan,
                             std::string_view name);

}  // namespace plimsoll::embedding
