// A time that no plan within a budget is below, by prices.
//
// Problem. find_checkpoint_plans() may take too long.
// Method. A plan that fits has gone `need - budget` bytes before a position. At a price p on these
// bytes no plan takes less than p (need - budget) plus the least of time - p bytes over all sets of
// units, which a walk up the tree finds: operators are kept where that is cheaper, one by one. The
// best price is searched for at the positions that need most.
// A price proves a line: a bound for every budget, which serves all points of a curve.
// Cost. O(operators) for each price; some hundred prices.
// Promises. A lower bound, in any order of return, with runs and nested units left out.
#pragma once

#include <optional>
#include <vector>

#include "check/checkpoint/checkpoint_rules.h"

namespace plimsoll::check {

double price_bound(const JudgedCheckpoint& given, Bytes budget);

// The price that proves it, and what it says of each module by itself: no plan takes less than
// `fixed` plus the sum of what it takes of its units.
struct BestPrice {
  double price = 0;            // ms of a byte that is gone before `position`
  int position = 0;            // the number of modules: the end of the step
  double fixed = 0;            // ms
  std::vector<double> offers;  // by node: the least of time - price * bytes as a unit, or infinity
};
// Absent where none proves more than 0 ms.
std::optional<BestPrice> find_best_price(const JudgedCheckpoint& given, Bytes budget);

// No plan within a budget takes less than price * (need - budget) + rest.
struct PriceLine {
  double need = 0;   // bytes before anything is discarded
  double price = 0;  // ms a byte, > 0
  double rest = 0;   // ms, <= 0
  double at(Bytes budget) const { return price * (need - static_cast<double>(budget)) + rest; }
};
std::vector<PriceLine> price_lines(const JudgedCheckpoint& given);

// Is each line, from (bytes, ms) on with a falling slope, below what the price of its slope proves?
// Lines at 0 ms are.
bool prices_prove(const JudgedCheckpoint& given, const std::vector<math::FrontierPoint>& lines);

}  // namespace plimsoll::check
