// Devices that trade their nodes.
//
// Chains know only the fastest rate of each device. With pair rates it matters which two of equal
// devices are neighbours: here two devices that fit each other's nodes trade them, as long as the
// loads, the largest one first, become smaller. Cost. O(nodes + nets) a trade, and a limit on all.
#pragma once

#include "plimsoll/partition/cost_graph.h"

namespace plimsoll::partition {

void trade_devices(const CostGraph& graph, DeviceAssignment& plan);

}  // namespace plimsoll::partition
