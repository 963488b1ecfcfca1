// The command line's one entry point.
#pragma once

#include <atomic>
#include <functional>
#include <string>

#include "plimsoll/core/run_context.h"

namespace plimsoll::app {

// A program that calls the command line takes what it prints, and may watch and end its search.
struct Host {
  std::string output;                             // instead of stdout
  std::string errors;                             // instead of stderr
  const std::atomic<bool>* cancel = nullptr;      // not owned; instead of signals
  std::function<void(const Progress&)> progress;  // may be empty; called on the searching thread
};

// Runs `plimsoll` with these arguments and returns its exit code: 0 a plan, or done; 1 bad usage or
// input; 2 proved infeasible; 3 a clock or a cancel cut the search, plan returned; 4 no plan and no
// proof; 5 a check found violations; 6 a diff is not empty; 70 our fault; 71 out of memory.
int run(int argc, const char* const* argv);

// The same within another program: nothing is printed, no signal is handled.
int run(int argc, const char* const* argv, Host& host);

}  // namespace plimsoll::app
