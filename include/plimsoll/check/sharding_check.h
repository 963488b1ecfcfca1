// What makes an embedding plan right, checked independently of the search: data types and estimator
// are shared with the planner, everything else is computed again, shard by shard and rank by rank.
//
// Violations are plans that cannot run, do not fit or lose data. Hazards pass TorchRec's own
// checks, yet its runtime trains them wrongly and says nothing, refuses them late, or runs them
// otherwise than the plan says. The guards of the planner's search (grid_shard or key_value only by
// constraint) are not a rule of a plan: what a sharder offers is allowed. Where a plan carries
// cache or key-value parameters they count, not the constraint's. The hazards were measured on
// torchrec 1.8.0: docs/check.md#hazards.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "plimsoll/check/finding.h"
#include "plimsoll/core/result.h"
#include "plimsoll/embedding/estimator.h"
#include "plimsoll/embedding/reservation.h"
#include "plimsoll/embedding/sharding_plan.h"

#pragma GCC visibility push(default)
namespace plimsoll::check {

struct CheckOptions {
  bool strict = false;            // hazards are violations too, except for kOptimizerStatePerBlock
  bool strict_numerics = false;   // and so is that one
  std::int64_t batch_size = 512;  // per rank, >= 0; 0 means 512
  embedding::ReservationOptions reservation;  // what is taken from every rank before tables
  std::optional<double> stated_rating;        // compared at 1e-9 relative
  bool pools_ddr = false;                     // the ranks of a host share its DDR
  embedding::ConstraintMap fqn_constraints;   // as the planner got them: find_constraints
  std::optional<embedding::ParameterConstraints> global_constraints;
  // The plan was made by a planner that passes constraints on: what it leaves out it does not pass
  // on. Other plans are held to what they state.
  bool is_whole = false;
};

// Hazards that an option makes violations are there twice, as hazard and as violation (kHazard).
struct ShardingReport : CheckReport {
  std::vector<topology::Storage> used;      // [world_size] bytes of shards
  std::vector<topology::Storage> capacity;  // [world_size] after reservation; before it where the
                                            // reservation leaves nothing
  std::vector<embedding::Perf> perf;        // [world_size] component sums
  std::vector<double> rank_ms;              // [world_size] totals, added in plan order
  std::vector<embedding::StorageParts> parts;  // [world_size] `used` by cause; empty of a dump
  double rating = 0;                           // largest of rank_ms
};

// Errors are bad arguments only (a model that is not valid, devices that are not one a rank, a
// reservation the release has not); everything wrong with the plan is a violation. A rule reports
// its first finding in a table, not all. A stated rating is judged where every table is known,
// placed and estimated. O(shards) additions; all else but rank lists goes by runs of equal shards.
Result<ShardingReport> check_sharding(const embedding::Model& model,
                                      const embedding::ShardingPlan& plan,
                                      const topology::Topology& topology,
                                      const embedding::CostModel& cost_model,
                                      const embedding::RunMode& mode, const CheckOptions& options);

}  // namespace plimsoll::check
#pragma GCC visibility pop
