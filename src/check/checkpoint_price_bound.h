// A time that no plan within a budget is below, by prices.
//
// Problem. find_checkpoint_plans() may take too long.
// Method. A plan that fits has gone `need - budget` bytes before a position. At a price p on these
// bytes no plan takes less than p (need - budget) plus the least of time - p bytes over all sets of
// units, which a walk up the tree finds: operators are kept where that is cheaper, one by one. The
// best price is searched for at the positions that need most.
// Cost. O(operators) for each price; some hundred prices.
// Promises. A lower bound, in any order of return, with runs and nested units left out.
#pragma once

#include "check/checkpoint_rules.h"

namespace plimsoll::check {

double price_bound(const CheckpointCase& given, Bytes budget);

}  // namespace plimsoll::check
