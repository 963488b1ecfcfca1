// What our own searches ask of an assignment again and again.
#pragma once

#include "plimsoll/partition/cost_graph.h"

namespace plimsoll::partition {

// Has every node a device that exists?
bool is_assignment_of(const CostGraph& graph, const DeviceAssignment& assignment);

// Preconditions as of device_loads().
double largest_load(const CostGraph& graph, const DeviceAssignment& plan);
bool fits_caps(const CostGraph& graph, const DeviceAssignment& plan);

}  // namespace plimsoll::partition
