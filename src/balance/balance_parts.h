// The parts of a placement problem whose taken choices are charged for causes: a part a set of
// causes that its placements may use, without charges of its own (balanced_placement.h).
//
// Method. Of up to kMaxEnumeratedCauses causes every set is a part, with the average bound of what
// is left without the others; a part that the charges of its set alone put at the incumbent is
// bounded by what all causes together leave. Of more causes, or where the clock stops it, all are
// one part, and its charges count only in objectives.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "balance/moves/placement_construction.h"
#include "balance/prices/filtered_bound.h"
#include "core/effort_clock.h"
#include "plimsoll/balance/placement_bound.h"
#include "plimsoll/core/proof.h"

namespace plimsoll::balance {

struct BalancePart {
  PlacementItems items;    // made when asked for
  double constant = 0;     // ms, the floor and the charges of all its causes
  double lower_bound = 0;  // of the objective
  FilteredBound bound;
  std::uint64_t forbidden = 0;  // causes, a bit each
  std::uint64_t paid = 0;       // as above, those whose charges are in the constant
  Proof proof;
  std::vector<Start> starts;
  std::vector<double> box_load;  // search_boxes(); empty where there is none

  ItemFilter filter(const PlacementProblem& problem) const;
  void find_items(const PlacementProblem& problem);
  // Are all choices among the items'? Precondition: find_items.
  bool contains(const UnitPlacements& placements) const;
  // Of the cases that share placements with the part, if that is more than is proved.
  void take(const PlacementBound& of_all);
};

struct BalanceParts {
  std::vector<BalancePart> parts;         // ascending bounds; those without placements left out
  std::optional<MemoryProof> infeasible;  // of the last one left out
};

// `incumbent`: objective of the best placement known, else infinite.
BalanceParts make_balance_parts(const PlacementProblem& problem, const PlacementGroups& groups,
                                double incumbent, double tolerance, EffortClock& clock);

}  // namespace plimsoll::balance
