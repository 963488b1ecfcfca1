// The choice of checkpointing units as a tight mixed-integer program: an oracle that shares nothing
// with the other searches of this room.
//
// Problem. A forest of nodes, each with a position in forward post-order and the memory `base` that
// it needs in its backward pass. Choose nodes to checkpoint, none below another, and how much each
// discards, at a convex piecewise-linear cost, so that at every node `base` less what earlier
// positions discard stays within the budget. Minimise the sum of costs.
// Method. Perspective rows: a node's cost is at least slope * discarded + intercept * chosen for
// every piece, which needs no big-M and is tight; one row for each lowest candidate, over it and
// the candidates above it; running sums of discards, read only at positions whose base is a new
// maximum and above the budget, since any other is implied by an earlier one. What a unit needs for
// itself is a base times the column that chooses it. Where the budget is asked for a column stands
// for it; for the least peak alone a unit's discard is all or nothing.
// Promises. The optimum within the solver's tolerances (about 1e-7 of the largest base); any
// post-order is fine, nested or not.
// Sources: docs/mathematics/checkpointing.md#the-problem,
// docs/mathematics/checkpointing.md#the-mixed-integer-program.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "math/milp.h"
#include "plimsoll/checkpoint/module_stats.h"
#include "plimsoll/checkpoint/module_tree.h"
#include "plimsoll/core/outcome.h"
#include "plimsoll/core/result.h"

namespace plimsoll::checkpoint {

struct SlopePiece {
  double slope = 0;      // ms per byte
  double intercept = 0;  // ms
  bool operator==(const SlopePiece&) const = default;
};

// Discarding d bytes takes max(0, max over pieces of slope * d + intercept) ms; what is above 0 at
// d = 0 is the fixed price of being a unit.
// A cost may be a list of points instead: then one of them is discarded, and nothing between.
struct DiscardCost {
  double capacity = 0;  // bytes, >= 0: the most that can be discarded
  std::vector<SlopePiece> pieces;
  std::vector<std::pair<double, double>> points = {};  // (bytes in [0, capacity], ms >= 0)
  // A base of its own that holds only where the node is a unit, and where it discards that point.
  double need = -kInfinity;              // bytes
  std::vector<double> point_needs = {};  // [points] bytes; [] for none
  double at(double discarded) const;     // of pieces
  bool operator==(const DiscardCost&) const = default;
};

struct UnitMilpProblem {
  double budget = 0;                             // bytes
  std::vector<double> base;                      // [n] bytes
  std::vector<int> parent;                       // [n], -1 for a root
  std::vector<int> position;                     // [n] each of 0 .. n - 1 once
  std::vector<std::optional<DiscardCost>> cost;  // [n] absent: never a unit
  // So many microbatches more hold `kept` bytes each less all that is discarded. >= 0
  int others = 0;
  double kept = 0;
  // Discards on pieces are whole bytes, where bytes are so few that it matters to the solver: where
  // the largest base is at most 2^16.
  bool has_whole_bytes = false;
  bool operator==(const UnitMilpProblem&) const = default;
};

struct ChosenUnit {
  int node = 0;
  double discarded = 0;     // bytes
  double recompute_ms = 0;  // its cost
  int point = -1;           // into DiscardCost::points; -1 on pieces
  bool operator==(const ChosenUnit&) const = default;
};

struct UnitMilpPlan {
  std::vector<ChosenUnit> units;  // by position
  double recompute_ms = 0;
  double peak = 0;  // bytes; may be above the budget by the solver's tolerance
  bool operator==(const UnitMilpPlan&) const = default;
};

// Errors: kSchema where lists differ in length or positions are not a permutation, kConflict where
// parents run in a circle, kValue for figures out of range.
Result<Outcome<UnitMilpPlan>> solve_unit_milp(const UnitMilpProblem& problem,
                                              const math::MilpOptions& options = {});

// Budgets that may be chosen from, and what a byte of budget costs.
struct BudgetRange {
  double low = 0;          // bytes
  double high = 0;         // bytes, >= low
  double ms_per_byte = 0;  // >= 0
};

// The least of recompute_ms + ms_per_byte * (budget - low), which the certificate is of: no plan
// for a budget of the range is below that line. `problem.budget` does not count. Errors as above.
Result<Outcome<UnitMilpPlan>> solve_over_budgets(const UnitMilpProblem& problem,
                                                 const BudgetRange& range,
                                                 const math::MilpOptions& options = {});

struct UnitMilpOptions {
  double budget = 0;                    // bytes
  int world_size = 1;                   // >= 1; parameters and gradients are divided by it
  std::vector<std::string> ac_units;    // fqns that may be units; empty: any
  std::vector<std::string> fsdp_units;  // fqns that no unit may contain
};

// The choice with the least peak of those that take at most `max_ms`: no smaller budget has such a
// plan, within the solver's tolerances. `problem.budget` does not count. The certificate's figures
// are bytes, and the peak is that of the choice itself. Errors as above.
Result<Outcome<UnitMilpPlan>> minimise_peak(const UnitMilpProblem& problem,
                                            const math::MilpOptions& options = {},
                                            double max_ms = kInfinity);

// The fitted problem of a model, which upstream's sac_milp poses. A candidate is not a leaf, has a
// backward, is called once, has a fit and keeps activations. `stats` is valid and `tree` made from
// it by its names' paths. Errors: kNotFound for a unit that names no module, kValue for an option
// out of range.
Result<UnitMilpProblem> make_unit_milp_problem(const ModuleStats& stats, const ModuleTree& tree,
                                               const UnitMilpOptions& options);

}  // namespace plimsoll::checkpoint
