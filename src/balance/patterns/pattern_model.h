// What hosts and ranks can be filled with: the common data of pattern bounds and dives.
//
// Groups whose surviving device and host choices are equal form a class; uniform choices may
// differ, they are its steps. An item is a piece or a block of one of a class's choices; a choice
// with n of them gives each a share 1/n of the unit. A bin is what is filled as one: a host of one
// kind with its ranks, or a rank without host. Ranks of kinds on which every item has the same load
// share one table.
// Source: docs/mathematics/balanced-sharding.md#contents-of-hosts-and-ranks.
#pragma once

#include <cstdint>
#include <vector>

#include "balance/prices/average_bound.h"
#include "balance/prices/target_filter.h"
#include "balance/problem/placement_groups.h"

namespace plimsoll::balance {

struct PatternItem {
  int class_index = 0;
  int choice = 0;  // into PlacementGroups::choices, of the class's first group
  int part = 0;    // into PlacementGroups::parts
  bool is_block = false;
  double share = 1;          // of a unit
  std::int64_t copies = 0;   // of all units of the class together
  std::vector<int> place;    // [kinds], blocks: [host kinds]; into places, -1: cannot stand
  std::vector<double> load;  // as above; of a block: its smallest piece
};

// Units of one group in their cheapest uniform choice.
struct PatternStep {
  int group = 0;
  int choice = 0;             // into PlacementGroups::choices
  double load = 0;            // on every rank at least
  double count = 0;           // units
  std::vector<double> bytes;  // [accounts]
};

struct PatternClass {
  std::vector<int> groups;
  double count = 0;                // units
  std::vector<PatternStep> steps;  // by load, then group
};

struct PatternBin {
  double count = 0;    // hosts or ranks
  int host_kind = -1;  // -1: ranks without host
  // Tables and how many ranks of the bin have them.
  std::vector<int> tables;
  std::vector<double> ranks;
};

struct PatternModel {
  std::vector<PatternClass> classes;  // with at least one item
  std::vector<PatternItem> items;     // classes in order
  std::vector<int> table_kinds;       // [tables] a kind of ranks that stands for its like
  std::vector<PatternBin> bins;
  std::vector<PatternClass> forced;  // without items, their uniform choices
};

PatternModel make_pattern_model(const PlacementGroups& groups, const Survivors& survivors);

// [units] the class; classes.size() of units without items.
std::vector<int> classes_of_units(const PlacementGroups& groups, const PatternModel& model);

// Milliseconds that the bytes of a place cost.
double bytes_cost(const PlacementGroups& groups, int place, const std::vector<double>& price);

}  // namespace plimsoll::balance
