// Topological orders for pipelines to be cut from: any, and around the stages of a plan.
//
// Prefixes of an order are the ends of stages that are tried together; several orders at once let a
// pipeline change from one to another where they share a prefix. The first order goes depth first,
// the second by number, the others by random keys, around a plan's stages where there is one, from
// within a stage to across four of them.
#pragma once

#include <cstdint>
#include <vector>

#include "core/random.h"
#include "partition/graph/downsets.h"

namespace plimsoll::partition {

class StageOrders {
 public:
  // Longer orders than `max_prefixes` are thinned. `groups` must outlive this.
  StageOrders(const GroupGraph& groups, std::uint64_t seed, int max_prefixes)
      : groups_(groups), random_(seed), max_prefixes_(max_prefixes) {}

  // The prefixes of the next orders, from nothing to everything. `stage_of`: [num_groups] stages,
  // counted as the groups are ordered; empty: no plan.
  void add_next(int num_orders, const std::vector<int>& stage_of, Downsets& prefixes);

 private:
  const GroupGraph& groups_;
  SplitMix64 random_;
  int max_prefixes_;
  int num_made_ = 0;
};

// The prefixes of an order, every `step`-th of them, from nothing to everything.
void add_prefixes(const std::vector<int>& order, int step, Downsets& prefixes);

}  // namespace plimsoll::partition
