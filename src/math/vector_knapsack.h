// The most valuable filling of a knapsack with several limits, of few kinds of items.
//
// Problem. maximise sum of value_i n_i over whole numbers 0 <= n_i <= copies_i so that
// sum of size_id n_i <= room_d at every limit d.
// Method. Depth first over the items in order of value per weighted size, most copies first. The
// limits, added up with weights, are one limit, whose fractional filling (Dantzig's) bounds what is
// left to be gained; the weights are chosen at the root so that this bound is small. Greedy
// fillings come first, since they are the first ones that are met.
// Cost. O(items) a node; exponential in the number of kinds at worst. After `max_nodes` nodes the
// best filling so far is returned with a bound of all. Promises. value <= the best <= bound; equal
// up to rounding (1e-9) if the search ended. Deterministic.
// [1] H. Kellerer, U. Pferschy, D. Pisinger, "Knapsack Problems", Springer, 2004,
//     https://doi.org/10.1007/978-3-540-24777-7, chapter 9.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace plimsoll::math {

struct VectorItem {
  double value = 0;          // > 0; others are left out of fillings
  std::int64_t copies = 0;   // >= 0
  std::vector<double> size;  // [limits] >= 0
};

struct VectorFilling {
  double value = 0;
  double bound = 0;                 // of every filling
  std::vector<std::int64_t> count;  // [items]
  std::int64_t num_nodes = 0;
};

// `room`: [limits] >= 0, at most eight. Precondition: every item has as many sizes.
VectorFilling fill_vector_knapsack(const std::vector<VectorItem>& items,
                                   const std::vector<double>& room, std::int64_t max_nodes);

}  // namespace plimsoll::math
