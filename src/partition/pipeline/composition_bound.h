// What a batch takes at least, by how many stages there are on how many devices.
//
// Problem. As in batch_bound.h, which lets an item's stage be a part of one. But stages are whole:
// those of a pipeline are m_k stages on k devices, for some numbers m_k with sum k m_k <= K, its
// composition.
// Method. For one composition every item chooses the kind of its stage, and the stages of a kind
// share what it adds: with c and b as there, and B what one device holds,
//   sum over items of kind k of c <= m_k max t,     sum over items of kind k of b <= k m_k B.
// At prices p_k, with sum m_k p_k <= weight, and q_k the items are independent:
//   batch >= sum over items min over options (c (1 + p_k) + q_k b) - sum over kinds q_k k m_k B
//            + (weight - sum m_k p_k) slowest.
// Subgradients raise it, their step by Polyak's rule toward a level above the best that is halved
// when it is not reached. A stage may stay empty, so only compositions matter to which nothing can
// be added. The least bound over all of them is one for every pipeline.
// Cost. Some hundred looks at all options for a composition. Promises. Every bound holds (except
// for rounding, 1e-9 relative); compositions of more than `max_compositions` are not looked at.
// Source: docs/mathematics/placements.md#prices-of-devices-and-bytes; B. T. Polyak, "Minimization
// of unsmooth functionals", USSR Computational Mathematics 9(3), 1969,
// https://doi.org/10.1016/0041-5553(69)90061-5.
#pragma once

#include <vector>

#include "partition/pipeline/batch_bound.h"

namespace plimsoll::partition {

struct CompositionSearch {
  double weight = 0;   // > 0, of the slowest stage
  double slowest = 0;  // no stage of a pipeline is faster than that
  double goal = 0;     // > 0, no need to look higher
  int max_compositions = 512;
};

// At least 0, at most `goal`; 0 where there are too many compositions.
double bound_by_compositions(const BatchItems& items, const CompositionSearch& search);

}  // namespace plimsoll::partition
