// Starts of a search that plans again: what ranks hold stays there as far as it can.
#pragma once

#include <vector>

#include "plimsoll/experts/expert_model.h"

namespace plimsoll::experts {

// The placement of a layer with its ranks renamed, hosts as a whole, those first that keep most of
// `before`, which has so many slots a rank.
std::vector<int> rename_ranks(const ExpertModel& model, const std::vector<int>& slots,
                              const std::vector<int>& before, int before_width);

// The placement of a layer on the model's ranks: what they hold stays as far as there are slots,
// experts that stand nowhere come where slots are free or replicas can be spared, the rest are
// replicas of those that carry most. Groups may stand on several hosts then.
std::vector<int> keep_on_ranks(const ExpertModel& model, int layer, const std::vector<int>& before,
                               int before_width);

}  // namespace plimsoll::experts
