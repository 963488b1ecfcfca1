#include "plimsoll/core/run_context.h"

#include <algorithm>

namespace plimsoll {

RunContext make_run_context(const SearchOptions& options) {
  RunContext context;
  if (options.time_limit_s) {
    using Clock = std::chrono::steady_clock;
    // Thirty years stand for "longer than anybody waits": more could overflow the clock's ticks.
    constexpr double kLongestS = 1e9;
    const double seconds = *options.time_limit_s;
    const std::chrono::duration<double> limit(seconds > 0 ? std::min(seconds, kLongestS) : 0);
    context.deadline = Clock::now() + std::chrono::duration_cast<Clock::duration>(limit);
  }
  return context;
}

}  // namespace plimsoll
