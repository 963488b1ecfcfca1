// A start of the search where groups of experts stay on hosts.
#pragma once

#include <vector>

#include "plimsoll/experts/expert_model.h"

namespace plimsoll::experts {

// EPLB's placement of a layer, with groups on other hosts: two groups change hosts as long as that
// makes the heavier host of the two lighter. `eplb` itself where groups may stand on any host.
std::vector<int> place_with_even_hosts(const ExpertModel& model, int layer,
                                       const std::vector<int>& eplb);

}  // namespace plimsoll::experts
