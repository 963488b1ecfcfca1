// Assembly lines: as few stations as possible, each within a limit.
//
// Problem. Groups in a partial order, each with a time. Give every group a station, no group an
// earlier one than its predecessors, so that no station's times add up to more than a limit and the
// stations are few. Straight pipelines are that where nothing but time counts: no bytes, no cost of
// a cut. Method. Dynamic programming over downsets: of all ways to have done a downset only the one
// with the fewest stations matters, and of these the one whose last station is emptiest; a downset
// comes from those without one of its last groups. So a downset costs as many steps as it has last
// groups, where a search over pairs of downsets looks at thousands of stages.
// Cost. O(downsets * (groups / 64 + last groups)) to find the downsets, once; O(downsets * last
// groups) for a limit. Promises. The fewest stations, exact except for the rounding of sums (1e-12
// relative). Ties go to the group with the smallest number.
// [1] M. Held, R. M. Karp, R. Shareshian, "Assembly-line balancing: dynamic programming with
//     precedence constraints", Operations Research 11(3), 1963,
//     https://doi.org/10.1287/opre.11.3.442.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "partition/graph/group_graph.h"
#include "partition/stages/stage_chain.h"
#include "plimsoll/core/run_context.h"

namespace plimsoll::partition {

class LineBalancer {
 public:
  // Times are those of the first kind. `groups` must outlive this.
  explicit LineBalancer(const GroupGraph& groups) : groups_(groups) {}

  // All downsets; more than `max_downsets` are too much effort. To be called once, before find().
  ChainStop find_downsets(std::int64_t max_downsets, const RunContext& context);
  std::int64_t num_downsets() const { return num_downsets_; }
  // Ways from a downset to the next larger ones: what a find() looks at.
  std::int64_t num_steps() const { return static_cast<std::int64_t>(steps_.size()); }

  // [num_groups] the stations, from 0 on; nothing where `max_stations` are not enough.
  std::optional<std::vector<int>> find(double limit, int max_stations) const;

 private:
  struct Step {
    int to;     // downset, larger by one group
    int group;  // that group
  };
  const GroupGraph& groups_;
  std::int64_t num_downsets_ = 0;
  std::vector<std::int64_t> first_step_;  // [num_downsets + 1]
  std::vector<Step> steps_;
};

}  // namespace plimsoll::partition
