// The times of a machine model for the options that a bridge reads.
#pragma once

#include <optional>

#include "embedding/cost/calibrated_times.h"
#include "plimsoll/embedding/placement_bridge.h"

namespace plimsoll::embedding {

// Nothing where no machine model is given. Error kValue: one without kernels, or options that come
// without an estimator or profiles, which it reads.
Result<std::optional<CalibratedTimes>> make_calibrated_times(const BridgeInput& input);

// Precondition: a placed plan of these options, and a machine model.
Result<CalibratedBill> make_calibrated_bill(const BridgeInput& input, const PlacedProposal& plan);

}  // namespace plimsoll::embedding
