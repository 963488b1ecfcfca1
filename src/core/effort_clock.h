// Effort spent, and whether to stop: what all parts of one search share.
//
// Effort (moves, nodes, units placed) is counted, and only where it is counted is anything looked
// at: the clock, a cancel, and the effort at which a search that is replayed was stopped. So the
// same search with `stop_at` = the effort of a stopped one stops at the same place.
#pragma once

#include <cstdint>
#include <limits>
#include <utility>

#include "plimsoll/core/outcome.h"
#include "plimsoll/core/run_context.h"

namespace plimsoll {

inline bool is_stopped(const RunContext& context) {
  return context.is_cancelled() || context.is_past_deadline();
}

class EffortClock {
 public:
  static constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();

  explicit EffortClock(RunContext context, std::int64_t stop_at = kNever)
      : context_(std::move(context)), stop_at_(stop_at) {}

  // Counts; is it time to stop? Once it is, it stays so.
  bool spend(std::int64_t effort) {
    if (is_stopped()) return true;
    effort_ += effort;
    if (effort_ >= stop_at_) {
      reason_ = StopReason::kEffort;
    } else if (context_.is_cancelled()) {
      reason_ = StopReason::kCancelled;
    } else if (context_.is_past_deadline()) {
      reason_ = StopReason::kDeadline;
    }
    return is_stopped();
  }

  bool is_stopped() const { return reason_ != StopReason::kFinished; }
  StopReason reason() const { return reason_; }
  std::int64_t effort() const { return effort_; }
  const RunContext& context() const { return context_; }

 private:
  RunContext context_;
  std::int64_t stop_at_;
  std::int64_t effort_ = 0;
  StopReason reason_ = StopReason::kFinished;
};

}  // namespace plimsoll
