// What a placement of at most a target may still use (the cascade of B2).
//
// Problem. Which choices and places can be part of a placement whose slowest rank carries at most
// `target`? Method. A group all of whose surviving choices are uniform puts their least pieces on
// every rank: a floor of load and bytes. A place survives where its largest piece fits on top of
// the floor, under the target and under the cap; a choice where each of its parts has such a place.
// What falls away raises the floor; repeated until nothing changes. Cost. O(shares) a round, at
// most one round a group, few in practice. Promises. Nothing that a placement of at most `target`
// uses is dropped (a relative 1e-12 is left for rounding); a larger target keeps at least as much.
// Source: docs/mathematics/balanced-sharding.md#filter-by-a-target.
#pragma once

#include <cstdint>
#include <vector>

#include "balance/problem/placement_groups.h"

namespace plimsoll::balance {

struct Survivors {
  std::vector<char> choice;          // [choices]
  std::vector<char> place;           // [places]
  std::vector<double> floor_load;    // [kinds] that every rank of the kind carries
  std::vector<Amounts> floor_bytes;  // [kinds] of one rank
  std::int64_t num_choices = 0;
  std::int64_t num_places = 0;
  int dead_group = -1;  // nothing of it survived: no placement of at most the target

  bool is_dead() const { return dead_group >= 0; }
};

struct FilterRules {
  bool cascade = true;  // false: no floors
};

Survivors filter_by_target(const PlacementGroups& groups, double target,
                           const FilterRules& rules = {});

}  // namespace plimsoll::balance
