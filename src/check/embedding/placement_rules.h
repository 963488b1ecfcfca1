// Where a plan was told to put its tables, and where it did not.
#pragma once

#include <vector>

#include "plimsoll/check/sharding_check.h"
#include "plimsoll/embedding/placement_bridge.h"

namespace plimsoll::check {

// At most one finding (kRuleBroken) a rule and table: a rank that the table may not have; tables
// that must stand together, on different ranks, or, where both are of types that stand on hosts
// (fast domains of `ranks_per_host`), on different hosts; tables that must stand apart, sharing a
// rank. Tables that the plan lacks are not a finding. Precondition: ranks ascend in every rule.
// O(shards).
std::vector<Finding> find_broken_rules(const embedding::ShardingPlan& plan,
                                       const embedding::BridgeOptions& rules, int ranks_per_host);

}  // namespace plimsoll::check
