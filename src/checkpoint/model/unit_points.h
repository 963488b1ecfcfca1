// The choices of a unit's operators as points of its price.
#pragma once

#include <vector>

#include "plimsoll/checkpoint/checkpoint_problem.h"

namespace plimsoll::checkpoint {

OperatorRules operator_rules(const MemoryModel& model);

// Replaces the points of a unit whose other fields are set; what discards nothing is left out.
void set_points(const MemoryModel& model, const std::vector<OperatorOption>& options,
                CandidateUnit& unit);

}  // namespace plimsoll::checkpoint
