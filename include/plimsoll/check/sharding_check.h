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

#include "plimsoll/check/certificate_status.h"
#include "plimsoll/core/result.h"
#include "plimsoll/embedding/estimator.h"
#include "plimsoll/embedding/reservation.h"
#include "plimsoll/embedding/sharding_plan.h"

#pragma GCC visibility push(default)
namespace plimsoll::check {

enum class ViolationCode {
  kWrongMachine,      // the plan was made for another world size, host size or device
  kUnknownTable,      // in the plan, not in the model
  kMissingTable,      // in the model, not in the plan
  kMissingModule,     // a module without a single table in the plan, where the release refuses that
  kDuplicateTable,    // twice in the plan
  kWrongDeviceGroup,  // the table's constraint sends it to another kind of device
  kTypeNotAllowed,    // the module's sharder has no such type, or the constraint forbids it
  kKernelNotAllowed,  // as above; or a kernel that the type cannot carry; or a dynamic table in
                      // another mode or with other buckets than its own
  kDenseOffDataParallel,  // kernel dense with any other type
  kLoadFactor,            // a cache load factor outside [0, 1]; or not strictly between where the
                          // release demands it; or not the one that a dynamic table prescribes
  kNotPassedOn,           // a field of the plan that is not what the table's constraint prescribes
  kRankOutOfRange,        // a rank that does not exist; its shards count as held by nobody
  kShardOutOfTable,       // rows or columns beyond the table, negative sizes, no columns
  kNotCovered,            // a row or column that no shard holds
  kCoveredTwice,          // a row or column that two shards hold
  kWrongCut,           // a shard whose shape does not suit the type: column_wise without all rows
  kWrongShardCount,    // e.g. row_wise on fewer ranks than there are, more shards than ranks
  kWrongGroup,         // ranks that do not fit the type: a table_row_wise table across hosts,
                       // data_parallel missing a rank
  kColumnsShareRank,   // key_value column_wise: two column shards on one rank, where the release
                       // refuses that
  kWidthNotDivisible,  // a column cut whose width is not a multiple of 4 (trained tables on cuda
                       // or cpu)
  kCannotEstimate,     // the estimator refuses the shards: no bandwidth, a negative cost, too big
  kOverCapacity,       // bytes above a rank's cap; one for each rank and tier
  kColocationBroken,   // tables of one tower on different hosts
  kRatingMismatch,     // the plan's stated rating is not the one computed here
  kTimesMismatch,      // a stated rating, step, time or objective is not the one computed here
  kRatingAboveCap,     // the plan rates above the cap that it and its bound are said to keep
  kRuleBroken,         // a table stands where a placement rule of the plan forbids it
  kBoundNotProved,  // the certificate's prices do not prove the stated bound, a plan is below it,
                    // or a plan is said to be optimal whose bound leaves a gap
  kStatusMismatch,  // claims that contradict each other: status, gap, objective, cap, options
  kBillMismatch,    // stated bytes or milliseconds of a rank are not those computed here
  kReferenceMismatch,  // the reference's stated times are not those of its search
  kFrontierMismatch,   // the curve of memory against time contradicts itself, the plan or its bound
  kInputsMismatch,     // the plan was made from another model, topology, dump or other options
  kOptionsMismatch,    // the plan is not that of the dump's options that it is said to take
  kTransferMismatch,   // a step of a transfer schedule that cannot be made, breaks a cap or counts
                       // otherwise, or steps that do not lead to the plan (transfer_check.h)
  kExplanationMismatch,  // why there is no plan is not what is found again
  kHazard,               // a hazard under `strict` or `strict_numerics`
  kNotRepeated,          // a claim that the checker cannot repeat, under `strict`
};
std::string_view to_string(ViolationCode code);

enum class HazardCode {
  kMeanPoolingGrid,       // grid_shard on a mean-pooled table: sums instead of means
  kMeanPoolingMixedRows,  // a mean-pooled table cut by rows in a collection that also holds tables
                          // not cut by rows
  kUnevenRows,            // row blocks other than ceil(R / n) (of a virtual table: whole buckets):
                          // ids land in wrong shards
  kEmptyRowShards,        // shards without rows: outputs silently wrong, or a failing backward
  kMixedColumnWidths,     // column_wise tables of several widths in one collection of sequences
  kRuntimeCannotHold,     // a type, kernel, width or optimizer that the runtime refuses for this
                          // module, though the sharder offers it
  kPermutedRanks,         // row_wise, table_row_wise or grid_shard with permuted ranks: the runtime
                          // puts shard i on rank i
  kColumnsAcrossHosts,    // table_column_wise beyond one host: runs as column_wise
  kOptimizerStatePerBlock,  // columns cut under row-wise Adagrad: a state for each block, so that
                            // training differs from that of the unsharded table
};
std::string_view to_string(HazardCode code);

struct Violation {
  ViolationCode code = ViolationCode::kUnknownTable;
  std::string table;  // fqn; empty where a rank as a whole is meant
  std::optional<int> rank;
  std::string expected;
  std::string found;
  std::string message;  // one sentence
  bool operator==(const Violation&) const = default;
};

struct Hazard {
  HazardCode code = HazardCode::kMeanPoolingGrid;
  std::string table;
  std::optional<int> rank;
  std::string message;
  bool operator==(const Hazard&) const = default;
};

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

struct CheckReport {
  std::vector<Violation> violations;
  std::vector<Hazard> hazards;
  std::vector<topology::Storage> used;      // [world_size] bytes of shards
  std::vector<topology::Storage> capacity;  // [world_size] after reservation; before it where the
                                            // reservation leaves nothing
  std::vector<embedding::Perf> perf;        // [world_size] component sums
  std::vector<double> rank_ms;              // [world_size] totals, added in plan order
  std::vector<embedding::StorageParts> parts;  // [world_size] `used` by cause; empty of a dump
  double rating = 0;                           // largest of rank_ms
  CertificateJudgement certificate;            // of what the plan claims (balance_check.h)
  CertificateJudgement explanation;            // of why there is no plan
  bool is_right() const { return violations.empty(); }
};

// Errors are bad arguments only (a model that is not valid, devices that are not one a rank, a
// reservation the release has not); everything wrong with the plan is a violation. A rule reports
// its first finding in a table, not all. A stated rating is judged where every table is known,
// placed and estimated. O(shards) additions; all else but rank lists goes by runs of equal shards.
Result<CheckReport> check_sharding(const embedding::Model& model,
                                   const embedding::ShardingPlan& plan,
                                   const topology::Topology& topology,
                                   const embedding::CostModel& cost_model,
                                   const embedding::RunMode& mode, const CheckOptions& options);

}  // namespace plimsoll::check
#pragma GCC visibility pop
