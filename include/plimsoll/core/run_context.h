// What a search is allowed (SearchOptions) and what surrounds a running one (RunContext: clock,
// cancel, progress).
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

namespace plimsoll {

struct SearchOptions {
  std::int64_t effort = -1;  // units of the search's own effort; < 0: its default
  double tolerance = 1e-6;   // >= 0; `optimal` means gap <= tolerance
  std::uint64_t seed = 0;
  std::optional<double> time_limit_s;  // > 0; absent: no clock
};

struct Progress {
  std::int64_t effort = 0;
  std::optional<double> incumbent;
  std::optional<double> lower_bound;
};

// Values handed down by the caller; a default-made one never stops anything.
struct RunContext {
  std::optional<std::chrono::steady_clock::time_point> deadline;
  const std::atomic<bool>* cancel = nullptr;      // not owned
  std::function<void(const Progress&)> progress;  // may be empty; called on the searching thread

  bool is_cancelled() const { return cancel != nullptr && cancel->load(std::memory_order_relaxed); }
  bool is_past_deadline() const { return deadline && std::chrono::steady_clock::now() > *deadline; }
};

// A context whose deadline is `options.time_limit_s` from now.
RunContext make_run_context(const SearchOptions& options);

}  // namespace plimsoll
