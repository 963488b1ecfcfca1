// What all devices need together, were all work theirs to share.
#pragma once

#include <vector>

#include "partition/graph/group_graph.h"

namespace plimsoll::partition {

// For each kind, how much less of the work a device of it does in a ms: at least 1.
std::vector<double> slowness_of_kinds(const GroupGraph& groups);

// All work, shared out over what all devices do in a ms; kUnlimited for a group that nobody may
// run.
double shared_work(const GroupGraph& groups);

}  // namespace plimsoll::partition
