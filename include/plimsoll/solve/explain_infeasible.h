// What a proof that nothing fits says to people: the tier that binds, and the bytes missing.
//
// Of bytes of all units together: by how much the least that they need exceeds all caps. Of a unit
// that fits on no rank: what the rank lacks where its choice comes nearest, beside what units that
// must be on all ranks put there at least; 0 where no bytes keep it off, but ranks that it may not
// use. So many bytes fewer are always too few; so many more need not be enough. O(pieces x ranks).
#pragma once

#include "plimsoll/core/outcome.h"
#include "plimsoll/solve/placement_bound.h"
#include "plimsoll/solve/placement_problem.h"

namespace plimsoll::solve {

// Precondition: `bound` is infeasible, of the problem. `binding` is "tier 0" or the like.
Explanation explain_infeasible(const PlacementProblem& problem, const PlacementBound& bound);

}  // namespace plimsoll::solve
