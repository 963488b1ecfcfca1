// What every checkpointing search sees: how much memory each moment of backward needs, and which
// units could give up how many bytes at what price.
//
// Backward passes the modules against their order of return. When it reaches the module at position
// p, what units at earlier positions have discarded is not there, so the step fits a budget B iff
// for every node, with D the bytes discarded by units that end before it (for a node inside a unit:
// before that unit), base - D <= B; and at the step's end point, where every unit's discards count,
// end_base - D <= B. A unit covers an unbroken run of positions. Units do not overlap.
//
// Memory is exact integers: bases are rounded up, prices' break points down.
// Sources: docs/mathematics/checkpointing.md#the-problem,
// docs/mathematics/checkpointing.md#what-a-step-holds.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "plimsoll/checkpoint/checkpoint_policy.h"
#include "plimsoll/checkpoint/module_stats.h"
#include "plimsoll/checkpoint/module_tree.h"
#include "plimsoll/checkpoint/operator_choices.h"
#include "plimsoll/core/result.h"
#include "plimsoll/math/infimal_convolution.h"

#pragma GCC visibility push(default)
namespace plimsoll::checkpoint {

enum class PeakModel {
  kTorch,  // upstream's sum: total activations + growth of temporaries + sharded state
  kStep,   // what the tracker saw at each module's backward peak, and at the loss
};

enum class DiscardModel {
  kFit,        // the piecewise-linear fit of the trade-off curve
  kOperators,  // the undominated choices of the operator table; without a table all or nothing
};

// Everything that turns statistics into a problem. All repairs are off as upstream has none.
struct MemoryModel {
  PeakModel peak = PeakModel::kTorch;
  DiscardModel costs = DiscardModel::kFit;
  int world_size = 1;                   // >= 1; parameters and gradients are split by it
  std::vector<std::string> ac_units;    // empty: every module may be a unit
  std::vector<std::string> fsdp_units;  // no unit holds one strictly inside

  // A unit must find room for: what was there just before its backward, all of it made again;
  bool unit_own_backward = false;  // (needs total_pre_bw)
  // outputs it saved that autograd would not have (operators only);
  bool saved_copies = false;
  // the forward that runs again, with its own temporaries.
  bool recompute_working_set = false;  // (needs total_pre_bw, total_peak_fw, total_post_fw)
  // The forward's own peaks bind as well; on by itself where kStep's peak came in a forward.
  bool forward_peak = false;  // (needs total_peak_fw)
  // What must be stored cannot be discarded: bounds a fitted price by the operator table.
  bool keep_stored_operators = false;
  // Recomputation ends with the last operator that autograd saved (operators only).
  bool early_stop = false;
  double unit_overhead_ms = 0;  // >= 0; for each unit, whatever it discards

  // Held all the time besides parameters and gradients.
  Bytes optimizer_bytes = 0;  // >= 0; split by world_size
  // With fsdp_units: three unsharded copies of the largest unit's parameters (at work, prefetched,
  // being gathered) and one of its gradients being reduced.
  bool fsdp_buffers = false;
  double param_dtype_ratio = 1;   // > 0; bytes of a gathered parameter to those of a stored one
  double reduce_dtype_ratio = 1;  // > 0; bytes of a reduced gradient to those of a stored one

  // Runs of up to this many consecutive children of one module may be a unit, recomputed as one.
  int max_segment_length = 1;  // >= 1; 1: none
  // Inside a unit that discards everything, the recomputed forward may be checkpointed again.
  bool nested_units = false;

  bool operator==(const MemoryModel&) const = default;
};

// A module, or a run of consecutive children of one parent, that may become a unit.
struct CandidateUnit {
  std::vector<int> nodes;  // in forward order
  int first = 0;           // positions it covers, first <= last
  int last = 0;
  // B + (discarded before it) must reach `threshold`, the largest of the bases it covers and of
  // `own_need`, what the memory model asks for recomputing it.
  Bytes threshold = 0;
  Bytes own_need = 0;
  math::ConvexCost price;               // of discarding d bytes
  std::vector<math::CostPoint> points;  // where there are any, these and nothing between
  Bytes kept_inside = 0;                // activations that all of it would discard
  Bytes sac_memory = 0;                 // what upstream's ratio is a share of; at least kept_inside
  // By CostPoint: what is saved; empty for a price without operators. [] or [number of points]
  std::vector<std::vector<char>> saves;
  double loss_ms = 0;  // what choices left out could save beyond those here (operator_choices.h)
};

struct CheckpointProblem {
  ModuleTree tree;
  std::vector<std::string> fqn;      // [n] by node
  std::vector<Bytes> base;           // [n] by node
  std::optional<Bytes> end_base;     // absent: no end point
  Bytes total_activations = 0;       // kept of one microbatch without checkpointing
  std::vector<CandidateUnit> units;  // by first, then last
  // Modules some of whose choices of operators were left out: plans are over what is there, bounds
  // over all.
  std::vector<int> thinned;
  MemoryModel model;
  Bytes constant = 0;               // in every base: optimizer state, buffers of FSDP
  std::vector<SACStats> sac_stats;  // as given; [] without
  std::vector<int> table_of;        // [n] by node into sac_stats, -1 without; [] without

  int num_modules() const { return static_cast<int>(base.size()); }
  Bytes base_at(int position) const { return base[tree.post_order[position]]; }
};

// `stats` is valid, `tree` made from it. Errors, each at the option's or module's name: kValue (an
// option out of its range), kNotFound (ac_units or fsdp_units name no module), kSchema (a figure
// that the memory model needs is absent), kOverflow (operator_choices.h).
Result<CheckpointProblem> make_checkpoint_problem(const ModuleStats& stats, const ModuleTree& tree,
                                                  const MemoryModel& model = {});

// One chosen unit.
struct UnitDecision {
  int unit = 0;         // into CheckpointProblem::units
  Bytes discarded = 0;  // on the unit's price
  int point = -1;       // which CostPoint; -1 on a convex price
  // Units inside its recomputed forward, in forward order; only where it discards all.
  std::vector<UnitDecision> nested;
  bool operator==(const UnitDecision&) const = default;
};

// What a choice of units costs and needs, recomputed from the problem alone.
struct PlanFigures {
  Bytes peak = 0;         // the smallest budget it fits
  int binding_node = -1;  // where that peak is, the first in forward order; -1: the end point
  double recompute_ms = 0;
  std::vector<Bytes> profile;  // [n] bytes needed, by position in forward post-order
  bool operator==(const PlanFigures&) const = default;
};

// `decisions` in forward order, with units that do not overlap. O(n + decisions).
PlanFigures replay(const CheckpointProblem& problem, const std::vector<UnitDecision>& decisions);

// Milliseconds that one decision costs, its nested ones included.
double price_of(const CheckpointProblem& problem, const UnitDecision& decision);

// The decisions as a plan that can be applied.
CheckpointPolicy make_policy(const CheckpointProblem& problem,
                             const std::vector<UnitDecision>& decisions);

}  // namespace plimsoll::checkpoint
#pragma GCC visibility pop
