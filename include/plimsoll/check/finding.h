// What judges say: findings of one kind in a report of one kind, whatever the planner.
//
// A violation is a plan that cannot run, does not fit, loses data or states what is not so; a plan
// without any is right. A hazard is legal and still trains wrongly, is refused late or achieves
// nothing. A warning is a claim that is neither proved nor refuted.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "plimsoll/check/certificate_status.h"

#pragma GCC visibility push(default)
namespace plimsoll::check {

enum class FindingCode {
  // Of every planner.
  kBoundNotProved,       // the certificate is refuted; under `strict` also where it is not repeated
  kStatusMismatch,       // claims that contradict each other: status, gap, objective, cap, options
  kInputsMismatch,       // the plan was made from other inputs, or by other rules or options
  kExplanationMismatch,  // why there is no plan is not what is found again
  kNotRepeated,          // a claim that the checker cannot repeat; a violation under `strict`
  kHazard,               // a hazard under `strict` or `strict_numerics`

  // Of sharding plans (sharding_check.h, options_check.h).
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
  kOptionsMismatch,    // the plan is not that of the dump's options that it is said to take
  // Of what they claim (balance_check.h, transfer_check.h).
  kTimesMismatch,      // a stated rating, step, time or objective is not the one computed here
  kRatingAboveCap,     // the plan rates above the cap that it and its bound are said to keep
  kRuleBroken,         // a table stands where a placement rule of the plan forbids it
  kBillMismatch,       // stated bytes or milliseconds of a rank are not those computed here
  kReferenceMismatch,  // the reference's stated times are not those of its search
  kFrontierMismatch,   // the curve of memory against time contradicts itself, the plan or its bound
  kTransferMismatch,   // a step of a transfer schedule that cannot be made, breaks a cap or counts
                       // otherwise, or steps that do not lead to the plan
  // Hazards of sharding plans.
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

  // Of checkpointing plans (checkpoint_check.h).
  kEmptyUnit,          // a unit that names no module
  kUnknownModule,      // in the plan, not in the statistics
  kUnitTwice,          // one module in two units, or twice in one
  kUnitInsideUnit,     // a unit below another and not among its `nested`
  kNestedOutside,      // a nested unit that is not strictly inside its own
  kOrder,              // units or nested units that are not in forward order
  kLeafUnit,           // a module by itself that has neither a trade-off record nor operators
  kRepeatedUnit,       // a module that is called more than once
  kNoGradient,         // a module without a backward
  kUnitNotAllowed,     // not among `ac_units`
  kContainsFsdpUnit,   // an FSDP unit strictly inside the unit
  kNotSiblings,        // a run that is not an unbroken run of children of one module
  kOperatorsMismatch,  // operators that are not those of the tables: length, index, name, nth
  kMissingOperators,   // a unit that keeps something and does not say which operators
  kGroupSplit,         // an in-place group, or the random operators, saved in part; of experts, a
                       // group on several hosts, or hosts with different numbers of groups
  kSavesView,          // a view-like operator saved: its storage stays, and nobody has counted it
  kWrongKind,          // `full` with a saved operator
  kWrongRng,           // `rng` that does not say what becomes of the random operators
  kDiscarded,          // discarded bytes that are not those of the operators or of the ratio
  kRatio,              // a discard ratio outside [0, 1], or not that of the discarded bytes
  kRecompute,          // recompute time that is not that of the operators or of the fit
  kOverBudget,         // the peak computed here is above the budget
  kPeakTooLow,         // the stated peak is below the one computed here
  kTotalRecompute,     // the stated recompute time is not the sum over the units
  kPeakTooHigh,        // the stated peak is above the one computed here
  kBaseline,           // the stated peak without checkpointing is not the one computed here
  kBinding,            // the stated binding module does not need the peak
  kProfile,            // the stated bytes of a module's backward are not those computed here
  kObjective,          // the certificate's objective is not the recompute time
  // Hazards of checkpointing plans.
  kDiscardsNothing,    // a unit that frees nothing costs time and memory
  kSavesInPlaceGroup,  // needs allow_cache_entry_mutation, else torch refuses the backward
  kSavesLastOperator,  // cached and never asked for: recomputation stops before it
  kChangesInputTwice,  // runs an operator again that changes a tensor from outside the unit

  // Of placements of operators (placement_check.h), partitions of torch.fx among them
  // (critical_path_check.h).
  kUnknownDevice,    // on a device that does not exist; a node there counts as on none
  kNotSupported,     // the device's class cannot run the node
  kPinBroken,        // not on the device that the node is pinned to
  kForbiddenDevice,  // on a device that the node forbids
  kColourSplit,      // two nodes of one colour on two devices
  kOverMemory,       // bytes above the cap; one for each device or stage
  kNotContiguous,    // a path leaves the device and comes back; one for each device
  kNoLineOfDevices,  // each device may be contiguous, but some wait for each other in a circle
  kLoadMismatch,     // the stated largest load is not the one computed here; of experts, any load
  kTasksWait,        // pieces of several devices wait for each other (latency_check.h)
  kLatencyMismatch,  // the stated latency is not the one computed there
  kWrongDevices,     // the stated classes of devices are not the graph's
  kTimeMismatch,     // a device's stated compute, transfer or load is not the one computed here
  kMemoryMismatch,   // the same of its bytes
  kStatedMismatch,   // a class, cap, cut, order, time or size that is not the one computed here
  kNotPlaced,        // a node in no stage or partition, or in several
  kMissingSource,    // a source that an operator reads and its partition lacks
  kMappingMismatch,  // node_to_partition names another partition
  kPartitionsWait,   // partitions that wait for each other in a circle
  kPathMismatch,     // the stated critical path is not the one computed here

  // Of pipelines (replicated_stages_check.h, pipeline_check.h).
  kEmptyStage,           // a stage without operators or without devices
  kDeviceTwice,          // a device in two stages, or twice in one
  kMixedClasses,         // a stage on devices of several classes
  kUnevenMicrobatches,   // replicas do not divide the microbatches of the batch
  kUnpricedReplicas,     // replicas of a training graph that names no weights to agree on
  kInFlightMismatch,     // the stated microbatches in flight are not those counted here
  kBatchMismatch,        // the stated time of the batch is not the one computed here
  kUnknownOperator,      // a stage names an operator that does not exist
  kOperatorTwice,        // in two stages, or twice in one
  kOperatorMissing,      // in no stage
  kBadDegree,            // a degree below 1
  kUnknownChoice,        // the operator has no such choice at the stage's tensor-parallel degree
  kBackwardEdge,         // an edge to an earlier stage
  kTooManyDevices,       // in all stages together
  kTooManyMicrobatches,  // more replicas in all than microbatches in a batch
  kValueMismatch,        // the stated slowest stage is not the one computed here
  kStageMismatch,        // a stage's stated time, bytes or microbatches are not those computed here
  kObjectiveMismatch,    // the certificate's objective is not the one computed here

  // Of experts (expert_check.h).
  kShape,         // another number of layers, slots or ranks, or a slot that names no expert
  kMissing,       // an expert stands nowhere
  kMoveMismatch,  // copies are stated otherwise, or are more than the limit
};
std::string_view to_string(FindingCode code);

enum class Severity { kViolation, kHazard, kWarning };
std::string_view to_string(Severity severity);  // "violation", "hazard", "warning"

// What a finding is of, by number.
struct FindingUnit {
  enum Kind { kRank, kDevice, kStage, kLayer };
  Kind kind = kRank;
  int number = 0;
  bool operator==(const FindingUnit&) const = default;
};
std::string_view to_string(FindingUnit::Kind kind);  // "rank", "device", "stage", "layer"
std::optional<FindingUnit> find_unit(FindingUnit::Kind kind, std::optional<int> number);

struct Finding {
  FindingCode code = FindingCode::kHazard;
  std::string place;  // a table's or module's fqn, "node 3 'conv'", ...; empty: none in particular
  std::optional<FindingUnit> unit;
  std::string expected;  // may be empty, as may
  std::string found;
  std::string message;  // one sentence
  Severity severity = Severity::kViolation;
  bool operator==(const Finding&) const = default;
};

// "violation covered_twice, sparse.ebc.t, rank 1: why".
std::string to_text(const Finding& finding);

// What every judge returns; each adds the figures that it computes.
struct CheckReport {
  std::vector<Finding> findings;
  CertificateJudgement certificate;  // of what the plan claims
  CertificateJudgement explanation;  // of why there is no plan

  bool is_right() const;  // no violations
  // In the order of `findings`.
  std::vector<Finding> violations() const { return of(Severity::kViolation); }
  std::vector<Finding> hazards() const { return of(Severity::kHazard); }
  std::vector<Finding> warnings() const { return of(Severity::kWarning); }
  std::vector<Finding> of(Severity severity) const;

  // A violation of the plan as a whole.
  void violate(FindingCode code, std::string message);
  // A warning (kNotRepeated).
  void leave_open(std::string claim);
  void add(std::vector<Finding> more);
};

// What is found again of the reason why there is no plan. It is a violation where it refutes the
// stated one; under `strict` also where it is not repeated.
void put_explanation(CertificateJudgement judged, bool is_strict, CheckReport& report);

}  // namespace plimsoll::check
#pragma GCC visibility pop
