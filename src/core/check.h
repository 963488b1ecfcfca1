// What must hold: a broken invariant of ours ends the program. Bad data is an Error instead.
//
//   PLIMSOLL_CHECK(condition, message)   in every build
//   PLIMSOLL_DCHECK(condition, message)  in debug builds (without NDEBUG) and under sanitizers
//
// Elsewhere PLIMSOLL_DCHECK is compiled and not evaluated. `message` is a string literal that says
// what must hold: "the graph is valid". Where `condition` is false,
// "partition/graph/cost_graph.cc:172: class_of: check failed: CONDITION (MESSAGE)" goes to stderr,
// and the program aborts.
#pragma once

namespace plimsoll::internal {

[[noreturn]] void fail_check(const char* file, int line, const char* function,
                             const char* condition, const char* message);

#if !defined(NDEBUG) || defined(PLIMSOLL_DEBUG_CHECKS)
inline constexpr bool kHasDebugChecks = true;
#else
inline constexpr bool kHasDebugChecks = false;
#endif

}  // namespace plimsoll::internal

#define PLIMSOLL_CHECK(condition, message)                                                        \
  (static_cast<bool>(condition)                                                                   \
       ? static_cast<void>(0)                                                                     \
       : ::plimsoll::internal::fail_check(__FILE__, __LINE__, static_cast<const char*>(__func__), \
                                          #condition, message))

#define PLIMSOLL_DCHECK(condition, message)                                                       \
  (!::plimsoll::internal::kHasDebugChecks || static_cast<bool>(condition)                         \
       ? static_cast<void>(0)                                                                     \
       : ::plimsoll::internal::fail_check(__FILE__, __LINE__, static_cast<const char*>(__func__), \
                                          #condition, message))
