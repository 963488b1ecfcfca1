#include "plimsoll/core/run_context.h"

#include <algorithm>

namespace plimsoll {

RunContext RunContext::within(std::optional<double> time_limit_s) {
  RunContext context;
  context.time_limit_s = time_limit_s;
  if (time_limit_s) {
    // Thirty years stand for "longer than anybody waits": more could overflow the clock's ticks.
    constexpr double kLongestS = 1e9;
    const std::chrono::duration<double> limit(*time_limit_s > 0 ? std::min(*time_limit_s, kLongestS)
                                                                : 0);
    context.deadline = Clock::now() + std::chrono::duration_cast<Clock::duration>(limit);
  }
  return context;
}

RunContext RunContext::inner() const {
  RunContext inner;
  inner.deadline = deadline;
  inner.cancel = cancel;
  return inner;
}

}  // namespace plimsoll
