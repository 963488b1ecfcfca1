// The fastest way to run the operators of a stage within its memory.
//
// Problem. Multiple-choice knapsack: of every group take one item so that the bytes fit a capacity
// and the sum of times is least. Method. A price on bytes makes the groups independent and gives a
// bound; the best price is the slope at which the linear relaxation splits a group. Items whose
// reduced cost exceeds what the bound leaves are dropped, and depth-first branch and bound decides
// the few groups that are left; equal groups are taken in one order only. Cost. O(items log items)
// and the nodes, of which there are at most `max_nodes`. Promises. The least time if that is at
// most `limit`, or a proof that it is not; when nodes run out, the best plan so far and a bound.
// Ties go to fewer bytes. Source: P. Sinha and A. Zoltners, "The multiple-choice knapsack problem",
// Operations Research 27(3), 1979, https://doi.org/10.1287/opre.27.3.503.
#pragma once

#include <cstdint>
#include <vector>

#include "plimsoll/core/units.h"

namespace plimsoll::partition {

struct ChoiceItem {
  double time = 0;  // >= 0, finite
  Bytes bytes = 0;  // may be negative
  bool operator==(const ChoiceItem&) const = default;
};

struct KnapsackLimits {
  double limit = 0;                                // slower plans are of no use
  double enough = 0;                               // a plan as fast as that ends the search
  std::int64_t max_nodes = std::int64_t{1} << 16;  // >= 0
  bool uses_reduced_costs = true;                  // each only saves work
  bool breaks_symmetry = true;
};

struct KnapsackAnswer {
  double time;              // of the plan; infinite without one
  double bound;             // no plan is faster; infinite: none fits, or none is as fast as `limit`
  std::vector<int> choice;  // [groups] item; empty without a plan
  std::int64_t num_nodes = 0;
};

// Precondition: every group has an item.
KnapsackAnswer choose_fastest(const std::vector<std::vector<ChoiceItem>>& groups, Bytes capacity,
                              const KnapsackLimits& limits);

}  // namespace plimsoll::partition
