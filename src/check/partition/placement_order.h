// What a line of devices has to respect, told from a cost graph alone.
#pragma once

#include <utility>
#include <vector>

#include "plimsoll/partition/cost_graph.h"

namespace plimsoll::check {

// (a, b): node a stands no later than node b. Forward values lead forwards; backward values lead
// backwards where one of the two nodes has no forward mate whose place would say so already.
std::vector<std::pair<int, int>> placement_order(const partition::CostGraph& graph);

}  // namespace plimsoll::check
