// A placement from contents: rounding the linear program of a box (barrier_windows.h).
//
// Method. Every host takes the blocks of one of the program's patterns, as often as that is used.
// With these in place the program is solved for ranks, whose resources are limits, too; patterns
// are taken as often as they are used in full, where none is the one that is used most, and the
// program is solved again for what is left. Units that are left in the end become uniform, or stand
// where they make the slowest ranks least slow, whichever costs less.
// Only choices of one piece or block are used. Cost. 5 to 40 small programs. Promises. A function
// of its arguments. Source: docs/mathematics/balanced-sharding.md#contents-at-several-barriers.
#pragma once

#include <optional>
#include <vector>

#include "balance/barriers/barrier_program.h"

namespace plimsoll::balance {

// `room`: [barriers] of every rank; `answer`: of the program for it, with hosts as bins where the
// model has blocks. The program for ranks uses a `share` of the rows' resources, in (0, 1]: what is
// left in the end needs some. Nothing where units are left that fit nowhere, or the clock stops.
std::optional<UnitPlacements> dive_by_barriers(const BarrierModel& model, int num_units,
                                               const std::vector<double>& room,
                                               const BarrierAnswer& answer, double share,
                                               EffortClock& clock);

}  // namespace plimsoll::balance
