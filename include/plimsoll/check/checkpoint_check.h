// What makes a checkpointing plan right, checked independently of the search: module statistics and
// the plan are all that is seen, and what the plan frees, costs and needs is computed again by
// rules of the checker's own, position by position.
//
// Violations are plans that cannot be applied, do not do what they say or do not fit. Hazards are
// legal and pointless, or refused by torch unless it is told otherwise.
//
// How far the peak can be trusted, measured against the simulator of whole steps
// (step_simulator.h). Where each unit's inputs are kept in any case (its first operator keeps them,
// or who made them does) and nothing that it makes is kept by others but its outputs, the discarded
// bytes are exact. Then kStep is exact except for what a unit needs while it runs again, and is too
// low by that; with `unit_room` it is never too low. Operators that stand in a module beside its
// children are seen only as a part of that module.
// Sources: docs/mathematics/checkpointing.md#the-problem,
// docs/mathematics/checkpointing.md#choices-of-operators,
// docs/mathematics/checkpointing.md#what-a-step-holds.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "plimsoll/check/certificate_judgement.h"
#include "plimsoll/check/finding.h"
#include "plimsoll/checkpoint/checkpoint_policy.h"
#include "plimsoll/checkpoint/module_stats.h"
#include "plimsoll/core/result.h"
#include "plimsoll/math/frontier.h"

#pragma GCC visibility push(default)
namespace plimsoll::check {

// A plan's peak and its recompute time.
struct PeakAndTime {
  Bytes peak = 0;
  double ms = 0;
  bool operator==(const PeakAndTime&) const = default;
};

// How much memory a position of the backward needs before anything is discarded.
enum class PeakRule {
  kTorch,  // act_total + act_grad + (parameters + grad_total) / world_size
  kStep,   // total_peak_bw, and what is there at the loss less every discard (total_step_peak, or
           // total_before_root_bw where that peak lies inside a module); parts of parameters and
           // gradients that other ranks hold are taken off
};

// What a unit's discarded bytes and time follow from.
enum class PriceRule {
  kOperators,     // the saved operators; the one that makes the output is never run again
  kEarlyStop,     // as above, and nothing after the last operator that autograd keeps runs again
  kAllOperators,  // the saved operators; all others are run again, the output's maker too
  kFit,           // the discard ratio and the piecewise-linear fit
};

// What a plan's document says besides. Empty fields say nothing.
struct StatedCheckpointing {
  CertificateClaims claims;
  std::optional<Bytes> budget;  // that the plan was made for; absent: its own peak
  Bytes peak_slack = 0;         // the stated peak may be so much above the one computed here
  std::optional<Bytes> baseline_peak;
  bool is_upstream_baseline = false;   // whole parameters, on one rank (upstream's formula)
  std::optional<std::string> binding;  // "": the end of the step
  std::vector<std::pair<std::string, Bytes>> profile;         // by position in forward post-order
  std::vector<math::FrontierPoint> frontier, frontier_bound;  // by bytes
  std::optional<Bytes> missing;             // beyond the budget, where nothing fits
  std::vector<std::string> contradictions;  // what it says of its making and is not so
  bool is_for_other_rules = false;          // judged by other rules than it was made by
  bool is_of_upstream = false;              // planned by sac_milp, whose rules are its own
};

struct CheckpointCheckOptions {
  bool strict = false;  // hazards are violations too
  PeakRule peak = PeakRule::kStep;
  PriceRule price = PriceRule::kOperators;
  bool forward_peak = false;  // the forward's own peaks bind too (needs total_peak_fw)
  // A unit must find room: for all of it made again, before its own backward (needs total_pre_bw);
  bool unit_own_backward = false;
  // for what it keeps and autograd would not, as long as its backward lasts;
  bool saved_copies = false;
  // for its forward running again, all that it keeps still there (needs total_pre_bw,
  // total_peak_fw and total_post_fw).
  bool recompute_working_set = false;
  bool unit_room = false;             // the last two
  int world_size = 1;                 // >= 1
  double unit_overhead_ms = 0;        // >= 0; in the recompute time of each unit
  Bytes constant_bytes = 0;           // >= 0; resident beside: optimizer state, buffers of FSDP
  int in_flight = 1;                  // >= 1; all but one microbatch hold what they keep
  std::vector<std::string> ac_units;  // empty: every module may be a unit
  std::vector<std::string> fsdp_units;
  // What plans there are besides; the bound is of all of them.
  bool keep_stored_operators = false;  // what must be stored cannot be discarded (kFit)
  bool has_runs_or_nested = false;     // runs of modules, or units within units, may be units
  // What the plan promises; compared where given.
  std::optional<Bytes> budget;
  std::optional<Bytes> predicted_peak;
  std::optional<double> recompute_ms;
  StatedCheckpointing stated;
};

// Under `strict` hazards are there twice, as hazard and as violation (kHazard).
struct CheckpointReport : CheckReport {
  Bytes peak = 0;       // the largest of `profile` and the end of the step
  std::string binding;  // the first module in forward post-order that needs it; empty: the step
  std::vector<Bytes> profile;  // [modules] bytes needed, by position in forward post-order
  // The same with what a unit keeps in copies at its last position alone, as planners record it.
  std::vector<Bytes> profile_at_ends;
  Bytes discarded = 0;      // of all outer units
  double recompute_ms = 0;  // of all units, by the rule
};

// Errors are bad arguments only: statistics that are not valid or not a tree, kStep without the
// totals it needs, an option out of its range. Everything wrong with the plan is a violation; a
// unit whose modules cannot be placed frees nothing. O(modules x units + operators).
Result<CheckpointReport> check_checkpointing(const checkpoint::ModuleStats& stats,
                                             const checkpoint::CheckpointPolicy& policy,
                                             const CheckpointCheckOptions& options = {});

// An answer without a plan: that nothing fits the budget, or a frontier. Errors as above.
Result<CheckpointReport> check_checkpoint_claims(const checkpoint::ModuleStats& stats,
                                                 const CheckpointCheckOptions& options);

}  // namespace plimsoll::check
#pragma GCC visibility pop
