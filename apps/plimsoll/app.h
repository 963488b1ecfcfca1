// The command line's one entry point.
#pragma once

namespace plimsoll::app {

// Runs `plimsoll` with these arguments and returns its exit code: 0 a plan, or done; 1 bad usage or
// input; 2 proved infeasible; 3 a clock or a cancel cut the search, plan returned; 4 no plan and no
// proof; 5 a check found violations; 6 a diff is not empty; 70 our fault.
int run(int argc, const char* const* argv);

}  // namespace plimsoll::app
