// The flags of planning_flags.h for commands whose model is not an argument: none of them is
// required.
#pragma once

#include "plimsoll/shard/planning_flags.h"

namespace plimsoll::app {

void add_problem_flags(CLI::App& command, PlanningFlags& flags);

}  // namespace plimsoll::app
