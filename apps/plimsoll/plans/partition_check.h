// `check` of placements, whatever graph they are of.
#pragma once

#include "io/import/plan_file.h"
#include "plimsoll/common.h"
#include "plimsoll/partition/partition_flags.h"

namespace plimsoll::app {

struct PlacementCheckRun {
  GlobalFlags global;
  PartitionFlags partition;
  bool contiguous = false;  // asked of the placement whatever it says
  bool is_strict = false;   // what is claimed and not repeated is a violation
};

// Judges a placement of ours, a split of the placement benchmark or a partition result of torch's,
// prints, and returns the exit code. Devices and rules are those that the placement says it was
// made with; flags win over that.
int run_placement_check(PlacementCheckRun run, const io::PlanFile& plan);

}  // namespace plimsoll::app
