// What to type instead where nothing fits.
#pragma once

#include <string>

#include "plimsoll/core/units.h"
#include "plimsoll/partition/partition_case.h"
#include "study/partition/memory_advice.h"

namespace plimsoll::app {

// "12884901888 bytes (12 GiB) on each accelerator would do, 1 more than now; ...".
std::string memory_need_line(const study::MemoryNeed& need, Bytes cap,
                             const std::string& device_class);

// Adds what was found to the answer's explanation; constraints are named as the flags write them.
void put_memory_advice(const PartitionCase& made, const PartitionFlags& flags,
                       const study::MemoryAdvice& advice, study::PlacementAnswer& answer);

}  // namespace plimsoll::app
