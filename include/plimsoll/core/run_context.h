// What decides a search's answer (SearchOptions) and what surrounds a running one (RunContext:
// clock, cancel, progress).
//
// Effort is counted in proposals, moves and nodes, never in seconds, so that equal input gives
// equal plans on any machine. A clock or a cancel may cut a search short; it is looked at only
// between units of effort, and the search records the unit at which it stopped.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>

#pragma GCC visibility push(default)
namespace plimsoll {

struct SearchOptions {
  std::int64_t effort = -1;  // units of the search's own effort; < 0: its default
  double tolerance = 1e-6;   // >= 0; `optimal` means gap <= tolerance
  std::uint64_t seed = 0;
};

struct Progress {
  std::int64_t effort = 0;
  std::optional<double> incumbent;
  std::optional<double> lower_bound;
};

// Values handed down by the caller; a default-made one never stops anything.
struct RunContext {
  using Clock = std::chrono::steady_clock;
  std::optional<Clock::time_point> deadline;
  const std::atomic<bool>* cancel = nullptr;      // not owned
  std::function<void(const Progress&)> progress;  // may be empty; called on the searching thread
  std::optional<double> time_limit_s;  // that the deadline was set for, where it is known

  // A context whose deadline is so many seconds (> 0) from now; none without a limit.
  static RunContext within(std::optional<double> time_limit_s);

  // For a search within this one: it stops where this one does, tells no progress, and has no limit
  // of its own.
  RunContext inner() const;

  bool is_cancelled() const { return cancel != nullptr && cancel->load(std::memory_order_relaxed); }
  bool is_past_deadline() const { return deadline && Clock::now() > *deadline; }
};

}  // namespace plimsoll
#pragma GCC visibility pop
