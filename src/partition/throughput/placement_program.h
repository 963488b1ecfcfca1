// Placements as mixed-integer programs.
//
// A net with two groups has one variable for each device, at least the difference of its groups'
// either way; a larger net has two, the greatest and the least of its groups', and their difference
// is 1 where the device holds a part. Equal devices have their loads in descending order. Times are
// scaled, so that the solver's tolerances are small beside the objective.
// Source: docs/mathematics/placements.md#general-placements.
#pragma once

#include <optional>
#include <vector>

#include "partition/graph/group_graph.h"
#include "plimsoll/core/run_context.h"

namespace plimsoll::partition {

struct ProgramAnswer {
  double lower_bound = 0;
  bool is_infeasible = false;  // nothing below the cutoff, or nothing at all
  std::vector<int> device;     // [num_groups], empty where the program met none
};

// The least load of a set of groups on one device of the kind whose time there is at least `least`.
ProgramAnswer solve_block_program(const GroupGraph& groups, int kind, double least, double cutoff,
                                  double time_limit_s);

// The least largest load below `cutoff`. Link rates as the kinds say.
ProgramAnswer solve_placement_program(const GroupGraph& groups, double cutoff, double time_limit_s);

}  // namespace plimsoll::partition
