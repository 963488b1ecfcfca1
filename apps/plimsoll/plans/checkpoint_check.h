// `check` of checkpointing plans, of answers without a plan and of frontiers.
#pragma once

#include <string>

#include "io/import/plan_file.h"
#include "plimsoll/checkpoint/checkpoint_flags.h"
#include "plimsoll/common.h"

namespace plimsoll::app {

struct CheckpointCheckRun {
  GlobalFlags global;
  CheckpointFlags checkpoint;
  std::string stats;   // a file, or the name of shipped statistics
  std::string budget;  // instead of the plan's own
  bool strict = false;
};

// Judges, prints, and returns the exit code. The plan says what it was made with; flags win over
// that.
int run_checkpoint_check(const CheckpointCheckRun& run, const io::PlanFile& plan);

}  // namespace plimsoll::app
