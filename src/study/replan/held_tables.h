// What ranks hold of tables, by a plan, and what of a shard they lack.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "balance/problem/move_costs.h"
#include "plimsoll/core/result.h"
#include "plimsoll/embedding/placement_bridge.h"
#include "plimsoll/embedding/planner.h"
#include "plimsoll/embedding/sharding_plan.h"

namespace plimsoll::study {

// A table as the old plan has it.
struct HeldTable {
  embedding::TableSharding sharding;
  std::vector<embedding::PlacedShard> shards;
  std::map<int, std::vector<std::size_t>> of_rank;  // indices into shards
  bool is_replicated = false;

  // Of the shard's values: those that some rank holds, and those that one rank holds.
  std::int64_t held_values(const embedding::PlacedShard& shard) const;
  std::int64_t values_on(int rank, const embedding::PlacedShard& shard) const;
};

class HeldTables {
 public:
  explicit HeldTables(const embedding::ShardingPlan& plan);
  // Null: a table that the plan lacks.
  const HeldTable* find(const std::string& fqn) const;

 private:
  std::map<std::string, HeldTable> tables_;
};

// What a table weighs, weights and optimizer state, and how many values that is.
struct TableWeight {
  Bytes bytes = 0;
  Int128 values = 0;
  // Of so many of its values, rounded up.
  Bytes bytes_of(std::int64_t count) const;
};
// [tables] of the options. Errors: those of estimating.
Result<std::vector<TableWeight>> weigh_tables(const embedding::Estimator& estimator,
                                              const embedding::Enumeration& enumeration);

// Moved bytes of every choice of the bridge's problem, and where units stand now.
balance::MoveCosts make_move_costs(const embedding::PlacementBridge& bridge,
                                   const embedding::OptionSet& options, const HeldTables& held,
                                   const std::vector<TableWeight>& weights);

}  // namespace plimsoll::study
