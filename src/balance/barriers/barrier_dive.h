// A placement from contents: rounding the linear program of a box (barrier_windows.h).
//
// Method. The program is solved for all hosts, and one takes the blocks of the pattern that is used
// most, or several those of patterns that are used in full. It is solved again for the other hosts
// and the ranks of these, until all hosts have their blocks; then ranks take the pattern that is
// used most, as often as it is used in full, and it is solved again for the others.
// Resources are limits in all of these programs. No pattern holds more of a class than is left, so
// that the last ranks get just that. Uniform units take no more of the limits than the box's
// program expects, unless units find no place otherwise. Units that are left in the end become
// uniform, or stand where they make the slowest ranks least slow, whichever costs less. Only
// choices of one piece or block are used. Cost. 5 to 40 small programs. Promises. A function of its
// arguments. Source: docs/mathematics/balanced-sharding.md#contents-at-several-barriers.
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
