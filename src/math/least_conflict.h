// The smallest reason why something is impossible: conditions that cannot hold together, of which
// none can be spared.
//
// Problem. Conditions 0..n-1 cannot all hold. Find a set of them that cannot hold together, though
// without any one of them the others can. Method. Conditions are left out one by one, in order, and
// stay out where what is left still cannot hold (the deletion filter [1]); runs of them are left
// out at once first, and halved where that goes too far. About 2 c log2(n / c) questions for a set
// of c. Promises. What is found cannot hold together. It is irreducible where every question was
// answered: more conditions only make fewer things possible, so that a member which was needed then
// is needed now. Where an answer is not known, or questions run out, the condition stays.
// [1] J. W. Chinneck, E. W. Dravnieks, "Locating minimal infeasible constraint sets in linear
// programs", ORSA J. Computing 3(2), 1991.
#pragma once

#include <cstddef>
#include <functional>
#include <vector>

namespace plimsoll::math {

enum class Possibility { kPossible, kImpossible, kUnknown };

struct LeastConflict {
  std::vector<std::size_t> members;  // ascending
  bool is_irreducible = true;
};

// `ask` says whether the conditions that hold leave anything possible. Precondition: all of them do
// not. At most `max_questions` are asked.
inline LeastConflict find_least_conflict(
    std::size_t n, int max_questions,
    const std::function<Possibility(const std::vector<bool>& holds)>& ask) {
  std::vector<bool> holds(n, true);
  std::vector<std::size_t> open;  // conditions that stay because there is no answer
  LeastConflict found;
  const std::function<void(std::size_t, std::size_t)> leave_out = [&](std::size_t begin,
                                                                      std::size_t end) {
    if (max_questions-- <= 0) {
      found.is_irreducible = false;
      return;
    }
    for (std::size_t i = begin; i < end; ++i) holds[i] = false;
    const Possibility without = ask(holds);
    if (without == Possibility::kImpossible) return;
    for (std::size_t i = begin; i < end; ++i) holds[i] = true;
    if (end - begin > 1) {
      const std::size_t middle = begin + (end - begin) / 2;
      leave_out(begin, middle);
      leave_out(middle, end);
    } else if (without == Possibility::kUnknown) {
      open.push_back(begin);
    }
  };
  if (n > 0) leave_out(0, n);
  for (const std::size_t i : open) {
    holds[i] = false;
    const Possibility without = max_questions-- > 0 ? ask(holds) : Possibility::kUnknown;
    if (without == Possibility::kImpossible) continue;
    holds[i] = true;
    if (without == Possibility::kUnknown) found.is_irreducible = false;
  }
  for (std::size_t i = 0; i < n; ++i) {
    if (holds[i]) found.members.push_back(i);
  }
  return found;
}

}  // namespace plimsoll::math
