// Which choices a plan near the best may take, by a price on the bytes of each unit.
//
// Problem. checkpoint_problem.h lists only some of a module's choices of operators where there are
// many. What do the others allow?
// Method. P(s) bounds from below what reaching slack s before a unit costs, V(s) what remains
// behind it from slack s on (the convex sweeps of interval_program.h; these need the lower hulls of
// the lists alone, which are complete). At a price on its bytes, a plan with this unit takes at
// least time - price * bytes of the unit, plus the least of P(s) + V(s + d) + price * d over all s
// and d. The price is taken that makes the unit's best choice look worst. A choice above the
// ceiling is in no plan of at most that time; what is left is little near the bound, and is listed
// in full (operator_choices.h).
// Cost. O(vertices of P and V) for each price, some dozens of prices a unit.
// Promises. A plan of at most `ceiling` ms is a plan of the near problem, and each plan of that is
// one of the whole.
// Source: docs/mathematics/checkpointing.md#choices-near-the-best.
#pragma once

#include <optional>
#include <vector>

#include "checkpoint/frontier/interval_program.h"

namespace plimsoll::checkpoint {

struct UnitPrice {
  double price = 0;  // ms of a byte
  double rest = 0;   // the least that all beside the unit costs, less the price of its bytes
};

// By unit of the problem. `entry` and `rest` are IntervalProgram's convex sweeps.
std::vector<UnitPrice> find_unit_prices(const CheckpointProblem& problem, const Boundaries& entry,
                                        const Boundaries& rest);

// The problem of all choices that a plan of at most `ceiling` ms may take; absent where a module
// has too many.
std::optional<CheckpointProblem> near_problem(const CheckpointProblem& problem,
                                              const std::vector<UnitPrice>& prices, double ceiling);

// The same of the choices that the problem lists.
CheckpointProblem near_listed(const CheckpointProblem& problem,
                              const std::vector<UnitPrice>& prices, double ceiling);

}  // namespace plimsoll::checkpoint
