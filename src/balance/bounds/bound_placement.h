// The best lower bound of a placement problem that a budget of effort buys: all bounds of this room
// in turn, and the charges.
//
// Method. Charges are paid once for each cause present, so that the placements are split by causes:
// a case forbids some and pays for others; causes left open are free. The case of least value is
// split at its dearest open cause (without it; with its charge) until none is open, and then
// bounded by, in turn, average, filter, where bytes have a price a tree of choices, windows, coarse
// and fine patterns, branching, each of which starts from what was proved before; best first, so
// that dear bounds are spent on the cases that decide. The least value is the bound. Of two causes
// that exclude each other the first cases lack one or the other. Where the bytes of a resource
// decide
// (`load_resource`), the same bounds with these as loads may show that a case has no placement; of
// two or three barriers the sum of each one's own bounds may be higher than that of all together.
// At most `max_cases` cases; causes beyond 64, and those that are open when cases or `max_priced`
// run out, stay free: the bound is lower then, and still valid. Promises. No allowed placement has
// a smaller objective than `value` times 1 - 1e-9. Deterministic: effort is counted in evaluations,
// windows, pricings and nodes. A deadline or a cancel gives the bound proved so far. Not promised.
// Units to stay apart count only through the ranks that uniform choices would take. Source:
// docs/mathematics/balanced-sharding.md#several-barriers-and-charges.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>

#include "balance/bounds/choice_tree.h"
#include "balance/bounds/pattern_bound.h"
#include "balance/bounds/window_bound.h"
#include "balance/problem/placement_groups.h"
#include "plimsoll/balance/placement_bound.h"
#include "plimsoll/balance/placement_problem.h"
#include "plimsoll/core/run_context.h"

namespace plimsoll::balance {

struct BoundOptions {
  std::optional<double> incumbent;  // objective of a placement; nothing above it is proved
  double tolerance = 1e-6;          // >= 0; incumbent / value - 1 that ends the search
  bool use_choices = true;
  bool use_windows = true;
  bool use_patterns = true;
  bool use_fine = true;  // patterns at `cells` after those at `coarse_cells`
  bool use_branching = true;
  bool use_barriers = true;  // with an incumbent and use_fine, of two or three barriers
  bool use_boxes = true;     // with an incumbent and use_fine, of alike ranks and few classes
  std::int64_t max_box_effort = 200000;  // >= 1, of each case
  int coarse_cells = 2000;               // >= 1
  int cells = 16000;                     // >= 1
  double window_tolerance = 1e-4;        // > 0, relative, of patterns' windows
  std::int64_t max_pricings = 1500;      // >= 1, of each pattern bound
  std::int64_t max_nodes = 400;          // >= 1, of each pattern bound
  int max_classes = 120;                 // >= 0, with more there are no patterns
  int max_branched_units = 60;           // >= 0, with more units nothing is branched
  // Where it branches and hosts are few, they are told apart.
  int max_apart_hosts = 3;                  // >= 0
  int apart_cells = 2000;                   // >= 1, instead of `cells`
  std::int64_t max_apart_pricings = 5000;   // >= 1, of all these bounds together
  int max_cases = 256;                      // >= 1
  std::int64_t max_choice_nodes = 300;      // >= 0, of all trees of choices together
  std::int64_t max_choice_pivots = 100000;  // >= 1, of their linear programs
  // No case is split after so many choices were priced (evaluations times the problem's choices).
  std::int64_t max_priced = std::numeric_limits<std::int64_t>::max();
  // A resource that may decide as loads do, of ranks of one class and not pooled; -1: none. With an
  // incumbent, and windows or patterns, cases are asked whether any of their placements keep it.
  int load_resource = -1;
  GroupRules groups;
  FilterRules filter;
};

// The average and the filter alone.
BoundOptions cheap_bounds();

// Precondition: a valid problem.
PlacementBound bound_placement(const PlacementProblem& problem, const BoundOptions& options,
                               const RunContext& context);
// With the problem's groups (options.groups plays no part).
PlacementBound bound_placement(const PlacementProblem& problem, const PlacementGroups& groups,
                               const BoundOptions& options, const RunContext& context);

}  // namespace plimsoll::balance
