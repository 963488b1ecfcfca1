// How much the largest load must exceed shared work because groups do not come in pieces.
//
// Problem. Groups of given work on devices, nothing moved: a largest time that no assignment can be
// below.
// Method. At a largest time T a device takes groups of at most T in all, as a bin does. A function
// u that is monotone and superadditive keeps what fits: on a device that is s times slower, the u
// of the groups' parts work / T add up to u(1 / s) at most. So T is refuted where the sum of u over
// all groups exceeds the sum over all devices. Tried for u: rounding down to k-ths, with all parts
// below some size dropped and those that fill the rest made whole, at each T where a rounding
// jumps. Cost. O(candidates * sizes * k * heavy groups), for groups above a thirteenth of the
// shared work. Promises. Never above the optimum; 1e-9 relative is left for rounding. [1] S. P.
// Fekete, J. Schepers, "New classes of fast lower bounds for bin packing problems", Math.
//     Programming 91, 2001, https://doi.org/10.1007/s101070100243.
#pragma once

#include "partition/graph/group_graph.h"

namespace plimsoll::partition {

// At least `bound`, which is proved already; T is tried up to `goal` and twice the bound.
double packing_bound(const GroupGraph& groups, double bound, double goal);

}  // namespace plimsoll::partition
