// What the parts of a contiguous split's search share: the best plan with what is proved, and how
// much may still be done.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "partition/stages/stage_chain.h"
#include "plimsoll/partition/cost_graph.h"

namespace plimsoll::partition {

// Over all searches of one call.
struct SplitKnowledge {
  std::optional<DeviceAssignment> plan;
  std::vector<int> stage_of;  // [num_nodes] the plan's stages in pipeline order
  double value = kUnlimited;
  double lower_bound = 0;
  bool is_infeasible = false;

  bool is_proved(double tolerance) const {
    return is_infeasible || (plan && value <= lower_bound * (1 + tolerance));
  }
};

struct SplitBudget {
  std::int64_t pairs_left = 0;
  ChainStop stop = ChainStop::kFinished;
  bool is_spent() const { return stop != ChainStop::kFinished; }
};

}  // namespace plimsoll::partition
