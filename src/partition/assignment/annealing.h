// Simulated annealing of an assignment of groups to devices.
//
// Problem. Make the largest load small, from a given assignment on, within memory caps.
// Method. A move takes a group to the device of one of its neighbours by nets, or to any device; a
// swap exchanges two groups. The energy is max * (1 + kShare * mean((load / max)^4)): the largest
// load, with a slope where another device than the largest one changes. Worse energies are accepted
// with the probability of Metropolis at a temperature that falls geometrically. A move never adds
// to the bytes above the caps, and always may reduce them. Cost. O(nets of the group * devices that
// hold one of its groups + devices) a move. Promises. The answer is no worse than the start and a
// function of the arguments, unless a clock or a cancel cut it; with `is_ordered` it keeps the
// order of devices if the start does. [1] S. Kirkpatrick, C. D. Gelatt, M. P. Vecchi, "Optimization
// by simulated annealing", Science 220, 1983,
// https://doi.org/10.1126/science.220.4598.671.
#pragma once

#include <cstdint>
#include <vector>

#include "core/random.h"
#include "partition/assignment/load_state.h"
#include "plimsoll/core/run_context.h"

namespace plimsoll::partition {

struct AssignmentAnnealing {
  std::int64_t num_moves = 0;
  double hot = 0.01;  // temperatures, as parts of the largest load at the start
  double cold = 1e-5;
  double swap_share = 0.2;  // of all moves
  // [num_devices] or empty: a group stands neither before its predecessors nor after its
  // successors. Precondition: true of the start.
  std::vector<int> position;
};

// Changes `device` to the best assignment met: least excess of bytes first, then least largest
// load. The number of moves tried, less where the clock or a cancel came.
std::int64_t anneal(const LoadModel& model, const AssignmentAnnealing& options, SplitMix64& random,
                    const RunContext& context, std::vector<int>& device);

}  // namespace plimsoll::partition
