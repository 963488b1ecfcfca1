// A share of the time that is left, for one of several searches in turn.
#pragma once

#include <algorithm>
#include <chrono>

#include "plimsoll/core/run_context.h"

namespace plimsoll {

// The context with a deadline after `part` (0 to 1) of what its own leaves; without one, itself.
inline RunContext share_clock(const RunContext& context, double part) {
  RunContext result = context;
  if (context.deadline) {
    using Duration = std::chrono::steady_clock::duration;
    const auto now = std::chrono::steady_clock::now();
    const auto left = std::max(*context.deadline - now, Duration{});
    result.deadline = now + std::chrono::duration_cast<Duration>(left * part);
  }
  return result;
}

}  // namespace plimsoll
