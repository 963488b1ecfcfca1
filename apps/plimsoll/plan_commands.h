// The commands that take a plan: of any planner, or of tables.
#pragma once

#include "plimsoll/common.h"

namespace plimsoll::app {

void add_diff_command(CLI::App& app, Run& run);
void add_replan_command(CLI::App& app, Run& run);
void add_robust_command(CLI::App& app, Run& run);
void add_report_command(CLI::App& app, Run& run);
void add_trace_command(CLI::App& app, Run& run);

}  // namespace plimsoll::app
