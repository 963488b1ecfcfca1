// Which of n things are in the way: a set of which none can stay.
//
// Problem. `is_open(goes)` says whether something is possible without the things that go. Where it
// is without all of them, find a set that has to go, none of which can be left out of it. Method.
// All go; in turn each stays that may. n + 1 questions. Promises. `is_open` of the set, and, where
// more that goes never makes less possible, of no set with one of them fewer. Not promised: the
// smallest set.
#pragma once

#include <cstddef>
#include <functional>
#include <vector>

namespace plimsoll::math {

// Ascending indices; empty where it is not possible without all of them either.
inline std::vector<std::size_t> find_least_cause(
    std::size_t n, const std::function<bool(const std::vector<bool>&)>& is_open) {
  std::vector<bool> goes(n, true);
  if (n == 0 || !is_open(goes)) return {};
  for (std::size_t i = 0; i < n; ++i) {
    goes[i] = false;
    if (!is_open(goes)) goes[i] = true;
  }
  std::vector<std::size_t> cause;
  for (std::size_t i = 0; i < n; ++i) {
    if (goes[i]) cause.push_back(i);
  }
  return cause;
}

}  // namespace plimsoll::math
